/* Programs from build/ as the machine wants them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/guest/world.h"

static void *image_read(const char *program, size_t *bytes)
{
	char path[256];
	struct stat status;
	void *image;
	int fd;

	snprintf(path, sizeof(path), "build/%s.elf", program);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s: %s", path, strerror(errno));
	cr_assert_eq(fstat(fd, &status), 0);
	*bytes = (size_t)status.st_size;
	image = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	cr_assert_neq(image, MAP_FAILED);
	close(fd);
	return image;
}

void world_spec_fill(const struct world_domain *domain, struct domain_spec *spec)
{
	*spec = (struct domain_spec){
		.name = domain->name,
		.image_name = domain->program,
		.arguments = domain->arguments,
		.vcpu = domain->vcpu,
		.n_slots = 16,
		.heap_bytes = DEFAULT_HEAP_BYTES,
		.stack_bytes = DEFAULT_STACK_BYTES,
		.data_fd = domain->data_fd != 0 ? domain->data_fd : -1,
		.data_bytes = domain->data_bytes,
	};
	while (spec->n_arguments < WORLD_ARGUMENTS && domain->arguments[spec->n_arguments] != NULL)
		spec->n_arguments++;
	spec->image = image_read(domain->program, &spec->image_bytes);
}
