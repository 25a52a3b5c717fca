#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monitor/manifest_read.h"

#define KIB 1024u

void manifest_free_domain(struct manifest_domain *domain)
{
	for (uint32_t i = 0; i < domain->n_arguments; i++)
		free(domain->arguments[i]);
	free(domain->arguments);
	free(domain->program);
	if (domain->image)
		munmap(domain->image, domain->image_bytes);
	if (domain->data_fd >= 0)
		close(domain->data_fd);
}

/* ---- the program ---- */

static int map_image(const struct manifest_reader *reader, const config_setting_t *setting, int fd,
                     struct manifest_domain *domain)
{
	size_t bytes = domain->image_bytes;

	if (bytes == 0)
		return read_fail(reader, setting, "program %s: the file is empty", domain->program);
	domain->image = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (domain->image != MAP_FAILED)
		return 0;
	domain->image = NULL;
	return read_fail(reader, setting, "program %s: %s", domain->program, strerror(errno));
}

/* At most MAX_IMAGE_BYTES, as pages of the sealed file. */
static int read_program(const struct manifest_reader *reader, const config_setting_t *group,
                        struct manifest_domain *domain)
{
	const config_setting_t *setting = config_setting_get_member(group, "program");
	char needed[128], why[WHY_BYTES];
	const char *name;
	int fd, error;

	snprintf(needed, sizeof(needed), "domain \"%s\" needs a program: program = \"echo\";", domain->name);
	if (read_member(reader, group, "program", needed, &name))
		return -EINVAL;
	fd = read_open(reader, MANIFEST_PROGRAM, name, MAX_IMAGE_BYTES, &domain->image_bytes,
	               &domain->program, why);
	if (fd < 0) {
		read_fail(reader, setting, "program %s", why);
		return fd;
	}
	error = map_image(reader, setting, fd, domain);
	close(fd);
	return error;
}

/* ---- arguments ---- */

static int add_argument(const struct manifest_reader *reader, const config_setting_t *setting,
                        const char *text, struct manifest_domain *domain, size_t *bytes)
{
	char *copy;

	*bytes += strlen(text) + 1;
	if (*bytes > MAX_ARGUMENT_BYTES)
		return read_fail(reader, setting, "args: more than %u bytes in all", MAX_ARGUMENT_BYTES);
	copy = strdup(text);
	if (!copy)
		return read_fail(reader, setting, "out of memory");
	domain->arguments[domain->n_arguments++] = copy;
	return 0;
}

static int read_arguments(const struct manifest_reader *reader, const config_setting_t *group,
                          struct manifest_domain *domain)
{
	config_setting_t *list;
	size_t bytes = 0;
	int error = read_list(reader, group, "args", MAX_ARGUMENTS - 1, &list);
	int n = list && error == 0 ? config_setting_length(list) : 0;

	if (error < 0)
		return error;
	domain->arguments = calloc((size_t)n + 1, sizeof(*domain->arguments));
	if (!domain->arguments)
		return read_fail(reader, group, "out of memory");
	error = add_argument(reader, group, domain->name, domain, &bytes);
	for (int i = 0; error == 0 && i < n; i++) {
		const config_setting_t *entry = config_setting_get_elem(list, (unsigned)i);
		const char *text = config_setting_get_string(entry);

		if (!text)
			error = read_fail(reader, entry, "args: argument %d is no text: write it in quotes",
			                  i + 1);
		else
			error = add_argument(reader, entry, text, domain, &bytes);
	}
	return error;
}

/* ---- services ---- */

int manifest_read_service(const struct manifest_reader *reader, const config_setting_t *entry,
                          struct manifest_service *service)
{
	static const char *const keys[] = {"name", "context", "per_client"};
	uint64_t per_client = 0;
	const char *name, *context = NULL;
	int error;

	if (config_setting_is_group(entry)) {
		error = read_check_keys(reader, entry, "a service", keys, 3);
		if (error == 0)
			error = read_member(reader, entry, "name", "a service needs a name", &name);
		if (error == 0)
			error = read_member(reader, entry, "context", NULL, &context);
		if (error == 0)
			error = read_number(reader, entry, "per_client", 1, MAX_SLOTS, &per_client);
		service->per_client = (uint32_t)per_client;
	} else {
		error = read_string(reader, entry, &name);
	}
	if (error == 0)
		error = read_name(reader, entry, "service", name, service->name);
	if (error == 0 && context)
		error = read_context(reader, config_setting_get_member(entry, "context"), context,
		                     service->context);
	return error;
}

/* Several domains may offer a service: policy's member decision picks one for each client. One domain has it
 * once. */
static bool offers(const struct manifest_domain *domain, const char *name)
{
	for (uint32_t i = 0; i < domain->n_services; i++)
		if (strcmp(domain->services[i].name, name) == 0)
			return true;
	return false;
}

static int read_services(const struct manifest_reader *reader, const config_setting_t *group,
                         struct manifest_domain *domain)
{
	config_setting_t *list;
	int error = read_list(reader, group, "offers", MAX_SERVICES, &list);

	for (int i = 0; error == 0 && list && i < config_setting_length(list); i++) {
		const config_setting_t *entry = config_setting_get_elem(list, (unsigned)i);
		struct manifest_service *service = &domain->services[domain->n_services];

		error = manifest_read_service(reader, entry, service);
		if (error == 0 && offers(domain, service->name))
			error = read_fail(reader, entry, "domain \"%s\" offers \"%s\" twice", domain->name,
			                  service->name);
		if (error == 0)
			domain->n_services++;
	}
	return error;
}

/* ---- numbers and data ---- */

static int read_sizes(const struct manifest_reader *reader, const config_setting_t *group,
                      const struct manifest_guest *guest, struct manifest_domain *domain)
{
	uint64_t vcpu = 0, slots = DEFAULT_SLOTS;
	uint64_t heap_kib = DEFAULT_HEAP_BYTES / KIB, stack_kib = DEFAULT_STACK_BYTES / KIB;
	int error = read_number(reader, group, "vcpu", 0, guest->n_vcpus - 1, &vcpu);

	if (error == 0)
		error = read_number(reader, group, "slots", 1, MAX_SLOTS, &slots);
	if (error == 0)
		error = read_number(reader, group, "heap_kib", 0, MAX_HEAP_BYTES / KIB, &heap_kib);
	if (error == 0)
		error = read_number(reader, group, "stack_kib", 4, MAX_STACK_BYTES / KIB, &stack_kib);
	domain->vcpu = (uint32_t)vcpu;
	domain->n_slots = (uint32_t)slots;
	domain->heap_bytes = heap_kib * KIB;
	domain->stack_bytes = stack_kib * KIB;
	return error;
}

/* The FILE of the last --data for this domain; NULL: none. */
static const char *given_data(const struct manifest_options *options, const struct manifest_guest *guest,
                              const char *domain)
{
	const char *file = NULL;

	for (size_t i = 0; i < options->n_data; i++)
		if (manifest_data_is_for(options->data[i], guest->name, domain))
			file = strchr(options->data[i], '=') + 1;
	return file;
}

static int read_data(const struct manifest_reader *reader, const config_setting_t *group,
                     const struct manifest_guest *guest, struct manifest_domain *domain)
{
	const config_setting_t *setting = config_setting_get_member(group, "data");
	const char *given = given_data(reader->options, guest, domain->name);
	const char *name;
	char why[WHY_BYTES];
	char *found = NULL;

	if (read_member(reader, group, "data", NULL, &name))
		return -EINVAL;
	if (!given && !name)
		return 0;
	domain->data_fd = read_open(reader, given ? MANIFEST_GIVEN : MANIFEST_DATA, given ? given : name,
	                            MAX_DATA_BYTES, &domain->data_bytes, &found, why);
	free(found);
	if (domain->data_fd >= 0)
		return 0;
	if (given)
		snprintf(reader->why, WHY_BYTES, "data of domain \"%s\": %.400s", domain->name, why);
	else
		read_fail(reader, setting, "data %s", why);
	return domain->data_fd;
}

/* ---- a domain ---- */

static int read_identity(const struct manifest_reader *reader, const config_setting_t *group,
                         const struct manifest_guest *guest, struct manifest_domain *domain)
{
	const char *name, *context;
	char needed[160];
	int error = read_member(reader, group, "name", "a domain needs a name", &name);

	if (error == 0)
		error = read_name(reader, config_setting_get_member(group, "name"), "domain", name,
		                  domain->name);
	for (uint32_t i = 0; error == 0 && i < guest->n_domains; i++)
		if (strcmp(guest->domains[i].name, name) == 0)
			error = read_fail(reader, group, "a second domain \"%s\": the first is in line %u",
			                  name, guest->domains[i].line);
	if (error < 0)
		return error;
	snprintf(needed, sizeof(needed),
	         "domain \"%s\" needs a context: context = \"system_u:system_r:web_t:s0\";", domain->name);
	error = read_member(reader, group, "context", needed, &context);
	if (error == 0)
		error = read_context(reader, config_setting_get_member(group, "context"), context,
		                     domain->context);
	return error;
}

static int read_domain(const struct manifest_reader *reader, const config_setting_t *group,
                       const struct manifest_guest *guest, struct manifest_domain *domain)
{
	static const char *const keys[] = {"name",  "program",  "args",      "context", "vcpu",
	                                   "slots", "heap_kib", "stack_kib", "data",    "offers"};
	int error;

	domain->data_fd = -1;
	if (!config_setting_is_group(group))
		return read_fail(reader, group, "domains: expected { name = \"...\"; ... }");
	domain->line = config_setting_source_line(group);
	error = read_check_keys(reader, group, "a domain", keys, sizeof(keys) / sizeof(keys[0]));
	if (error == 0)
		error = read_identity(reader, group, guest, domain);
	if (error == 0)
		error = read_sizes(reader, group, guest, domain);
	if (error == 0)
		error = read_services(reader, group, domain);
	if (error == 0)
		error = read_arguments(reader, group, domain);
	if (error == 0)
		error = read_program(reader, group, domain);
	if (error == 0)
		error = read_data(reader, group, guest, domain);
	return error;
}

int manifest_read_domains(const struct manifest_reader *reader, const config_setting_t *of_guest,
                          struct manifest_guest *guest)
{
	config_setting_t *list;
	uint64_t slots = 0;
	int error = read_list(reader, of_guest, "domains", MAX_DOMAINS, &list);

	if (error == 0 && (!list || config_setting_length(list) == 0))
		error = read_fail(reader, list ? list : of_guest,
		                  "a guest needs a domain: domains = ( { name = \"...\"; ... } );");
	if (error < 0)
		return error;
	guest->domains = calloc((size_t)config_setting_length(list), sizeof(*guest->domains));
	if (!guest->domains)
		return read_fail(reader, list, "out of memory");
	for (int i = 0; i < config_setting_length(list); i++) {
		const config_setting_t *group = config_setting_get_elem(list, (unsigned)i);
		struct manifest_domain *domain = &guest->domains[i];

		error = read_domain(reader, group, guest, domain);
		if (error < 0) {
			manifest_free_domain(domain); /* not counted yet */
			return error;
		}
		guest->n_domains++;
		slots += domain->n_slots;
		if (slots > MAX_SLOTS)
			return read_fail(reader, group, "more than %u slots with those of domain \"%s\"",
			                 MAX_SLOTS, domain->name);
	}
	return 0;
}
