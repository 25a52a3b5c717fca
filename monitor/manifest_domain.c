#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/manifest_read.h"
#include "monitor/suggest.h"

#define KIB 1024u

void manifest_free_domain(struct manifest_domain *domain)
{
	for (uint32_t i = 0; i < domain->n_arguments; i++)
		free(domain->arguments[i]);
	free(domain->arguments);
	free(domain->program);
	free(domain->image);
	if (domain->data_fd >= 0)
		close(domain->data_fd);
}

/* ---- the program ---- */

/* DIR of the executable, with its slash. */
static int executable_directory(char directory[static PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", directory, PATH_MAX - 1);
	char *slash;

	if (n < 0)
		return -errno;
	directory[n] = '\0';
	slash = strrchr(directory, '/');
	if (!slash)
		return -ENOENT;
	slash[1] = '\0';
	return 0;
}

/* Where a program without a slash may be; place 0, 1; NULL: there is no such place. malloc. */
static char *program_place(const struct manifest_reader *reader, const char *name, int place)
{
	static const char *const formats[] = {"%sdomains/%s.elf", "%s../lib/portcullis/domains/%s.elf"};
	char directory[PATH_MAX];
	char *path = NULL;

	if (reader->options->program_dir) {
		if (place == 0 && asprintf(&path, "%s/%s.elf", reader->options->program_dir, name) < 0)
			return NULL;
		return path;
	}
	if (place > 1 || executable_directory(directory))
		return NULL;
	if (asprintf(&path, formats[place], directory, name) < 0)
		return NULL;
	return path;
}

/* The path of the program (malloc), or NULL and a message. */
static char *find_program(const struct manifest_reader *reader, const config_setting_t *setting,
                          const char *name)
{
	char *first = NULL, *path;

	if (strchr(name, '/')) {
		path = read_path(reader, name);
		if (!path)
			read_fail(reader, setting, "out of memory");
		return path;
	}
	for (int place = 0; (path = program_place(reader, name, place)); place++) {
		if (access(path, F_OK) == 0) {
			free(first);
			return path;
		}
		if (first)
			free(path);
		else
			first = path;
	}
	read_fail(reader, setting, "program \"%s\": there is no %s", name, first ? first : "such program");
	free(first);
	return NULL;
}

/* A regular file of at most MAX_IMAGE_BYTES, into memory. */
static int load_image(const struct manifest_reader *reader, const config_setting_t *setting,
                      struct manifest_domain *domain)
{
	char why[WHY_BYTES];
	size_t bytes;
	int fd = file_seal(domain->program, MAX_IMAGE_BYTES, &bytes, why);
	int error = 0;

	if (fd < 0) {
		read_fail(reader, setting, "program %s", why);
		return fd;
	}
	domain->image = malloc(bytes + 1);
	if (bytes == 0)
		error = read_fail(reader, setting, "program %s: the file is empty", domain->program);
	else if (!domain->image || pread(fd, domain->image, bytes, 0) != (ssize_t)bytes)
		error = read_fail(reader, setting, "program %s: out of memory", domain->program);
	domain->image_bytes = bytes;
	close(fd);
	return error;
}

static int read_program(const struct manifest_reader *reader, const config_setting_t *group,
                        struct manifest_domain *domain)
{
	const config_setting_t *setting = config_setting_get_member(group, "program");
	char needed[128];
	const char *name;

	snprintf(needed, sizeof(needed), "domain \"%s\" needs a program: program = \"echo\";", domain->name);
	if (read_member(reader, group, "program", needed, &name))
		return -EINVAL;
	domain->program = find_program(reader, setting, name);
	return domain->program ? load_image(reader, setting, domain) : -ENOENT;
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

static int read_service(const struct manifest_reader *reader, const config_setting_t *entry,
                        struct manifest_service *service)
{
	static const char *const keys[] = {"name", "context"};
	const char *name, *context = NULL;
	int error;

	if (config_setting_is_group(entry)) {
		error = read_check_keys(reader, entry, "a service", keys, 2);
		if (error == 0)
			error = read_member(reader, entry, "name", "a service needs a name", &name);
		if (error == 0)
			error = read_member(reader, entry, "context", NULL, &context);
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

		error = read_service(reader, entry, service);
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
                      const struct manifest *manifest, struct manifest_domain *domain)
{
	uint64_t vcpu = 0, slots = DEFAULT_SLOTS;
	uint64_t heap_kib = DEFAULT_HEAP_BYTES / KIB, stack_kib = DEFAULT_STACK_BYTES / KIB;
	int error = read_number(reader, group, "vcpu", 0, manifest->n_vcpus - 1, &vcpu);

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

/* The FILE of the last --data DOMAIN=FILE for this domain; NULL: none. */
static const char *given_data(const struct manifest_options *options, const char *domain)
{
	const char *file = NULL;
	size_t length = strlen(domain);

	for (size_t i = 0; i < options->n_data; i++)
		if (strncmp(options->data[i], domain, length) == 0 && options->data[i][length] == '=')
			file = options->data[i] + length + 1;
	return file;
}

static int read_data(const struct manifest_reader *reader, const config_setting_t *group,
                     struct manifest_domain *domain)
{
	const config_setting_t *setting = config_setting_get_member(group, "data");
	const char *given = given_data(reader->options, domain->name);
	const char *name;
	char why[WHY_BYTES];
	char *path;

	if (read_member(reader, group, "data", NULL, &name))
		return -EINVAL;
	if (!given && !name)
		return 0;
	path = given ? strdup(given) : read_path(reader, name);
	if (!path)
		return read_fail(reader, group, "out of memory");
	domain->data_fd = file_seal(path, MAX_DATA_BYTES, &domain->data_bytes, why);
	free(path);
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
                         const struct manifest *manifest, struct manifest_domain *domain)
{
	const char *name, *context;
	char needed[160];
	int error = read_member(reader, group, "name", "a domain needs a name", &name);

	if (error == 0)
		error = read_name(reader, config_setting_get_member(group, "name"), "domain", name,
		                  domain->name);
	for (uint32_t i = 0; error == 0 && i < manifest->n_domains; i++)
		if (strcmp(manifest->domains[i].name, name) == 0)
			error = read_fail(reader, group, "a second domain \"%s\": the first is in line %u",
			                  name, manifest->domains[i].line);
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
                       const struct manifest *manifest, struct manifest_domain *domain)
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
		error = read_identity(reader, group, manifest, domain);
	if (error == 0)
		error = read_sizes(reader, group, manifest, domain);
	if (error == 0)
		error = read_services(reader, group, domain);
	if (error == 0)
		error = read_arguments(reader, group, domain);
	if (error == 0)
		error = read_program(reader, group, domain);
	if (error == 0)
		error = read_data(reader, group, domain);
	return error;
}

/* Each --data names a domain of the manifest. */
static int check_given_data(const struct manifest_reader *reader, const struct manifest *manifest)
{
	const struct manifest_options *options = reader->options;

	for (size_t i = 0; i < options->n_data; i++) {
		const char *names[MAX_DOMAINS];
		char suggestion[SUGGESTION_BYTES], name[MAX_NAME_BYTES];
		uint32_t d = 0;

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(options->data[i], "="), options->data[i]);
		for (; d < manifest->n_domains && strcmp(manifest->domains[d].name, name) != 0; d++)
			names[d] = manifest->domains[d].name;
		if (d == manifest->n_domains)
			return read_fail(reader, NULL,
			                 "data for domain \"%s\", which the manifest does not have%s", name,
			                 suggest_phrase(name, names, d, suggestion));
	}
	return 0;
}

int manifest_read_domains(const struct manifest_reader *reader, const config_setting_t *root,
                          struct manifest *manifest)
{
	config_setting_t *list;
	uint64_t slots = 0;
	int error = read_list(reader, root, "domains", MAX_DOMAINS, &list);

	if (error == 0 && (!list || config_setting_length(list) == 0))
		error = read_fail(reader, list ? list : root,
		                  "a guest needs a domain: domains = ( { name = \"...\"; ... } );");
	if (error < 0)
		return error;
	manifest->domains = calloc((size_t)config_setting_length(list), sizeof(*manifest->domains));
	if (!manifest->domains)
		return read_fail(reader, list, "out of memory");
	for (int i = 0; i < config_setting_length(list); i++) {
		const config_setting_t *group = config_setting_get_elem(list, (unsigned)i);
		struct manifest_domain *domain = &manifest->domains[i];

		error = read_domain(reader, group, manifest, domain);
		if (error < 0) {
			manifest_free_domain(domain); /* not counted yet */
			return error;
		}
		manifest->n_domains++;
		slots += domain->n_slots;
		if (slots > MAX_SLOTS)
			return read_fail(reader, group, "more than %u slots with those of domain \"%s\"",
			                 MAX_SLOTS, domain->name);
	}
	return check_given_data(reader, manifest);
}
