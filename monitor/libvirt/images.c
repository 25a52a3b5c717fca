#include "monitor/libvirt/images.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_MANIFEST_BYTES (1u << 20)

static int open_beneath(int directory_fd, const char *name)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	struct stat status;
	int fd = (int)syscall(SYS_openat2, directory_fd, name, &how, sizeof(how));
	int error;

	if (fd < 0)
		return -errno;
	error = fstat(fd, &status) ? -errno : 0;
	if (error == 0 && !S_ISREG(status.st_mode))
		error = -EINVAL;
	if (error == 0)
		return fd;
	close(fd);
	return error;
}

static void explain(int error, const char *name, char why[static WHY_BYTES])
{
	if (error == -EXDEV || error == -ELOOP)
		snprintf(why, WHY_BYTES, "%.200s: leads out of the directory of --images, or is a link",
		         name);
	else if (error == -EINVAL)
		snprintf(why, WHY_BYTES, "%.200s: not a regular file", name);
	else
		snprintf(why, WHY_BYTES, "%.200s: %s beneath the directory of --images", name,
		         strerror(-error));
}

int images_open(void *directory_fd, enum manifest_file what, const char *name, size_t most_bytes,
                size_t *bytes, char why[static WHY_BYTES])
{
	char program[WHY_BYTES];
	int from, to;

	if (what == MANIFEST_PROGRAM && !strchr(name, '/')) {
		if (snprintf(program, sizeof(program), "%s.elf", name) >= (int)sizeof(program)) {
			snprintf(why, WHY_BYTES, "the name of a program is too long");
			return -ENAMETOOLONG;
		}
		name = program;
	}
	from = open_beneath(*(const int *)directory_fd, name);
	if (from < 0) {
		explain(from, name, why);
		return from;
	}
	to = file_seal_from(from, name, most_bytes, bytes, why);
	close(from);
	return to;
}

int images_load(int directory_fd, const char *name, struct manifest **manifest, char why[static WHY_BYTES])
{
	const struct manifest_options options = {
		.guests_only = true,
		.open = images_open,
		.open_opaque = &directory_fd,
	};
	size_t bytes;
	int fd = images_open(&directory_fd, MANIFEST_GIVEN, name, MAX_MANIFEST_BYTES, &bytes, why);
	void *text;
	int error;

	if (fd < 0)
		return fd;
	text = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	close(fd);
	if (text == MAP_FAILED) {
		snprintf(why, WHY_BYTES, "%s: an empty file is no manifest", name);
		return -EINVAL;
	}
	error = manifest_parse(name, text, bytes, &options, manifest, why);
	munmap(text, bytes);
	return error;
}
