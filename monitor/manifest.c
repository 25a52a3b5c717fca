#include "monitor/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monitor/manifest_read.h"
#include "monitor/suggest.h"

#define MAX_MANIFEST_BYTES (1u << 20)
#define MAX_CLIENTS 256u
#define MAX_DEADLINE_SECONDS 3600.0
#define DEFAULT_DEADLINE_SECONDS 10.0
#define OWN_NAME "portcullis" /* log lines of the monitor itself begin so */

static const char *const stop_modes[] = {
	[STOP_ALL] = "all",
	[STOP_AFFECTED] = "affected",
	[STOP_NONE] = "none",
};
#define N_STOP_MODES (sizeof(stop_modes) / sizeof(stop_modes[0]))

const char *stop_mode_name(enum stop_mode mode)
{
	return (unsigned)mode < N_STOP_MODES ? stop_modes[mode] : "?";
}

int stop_mode_find(const char *name)
{
	for (unsigned i = 0; i < N_STOP_MODES; i++)
		if (strcmp(stop_modes[i], name) == 0)
			return (int)i;
	return -1;
}

/* ---- policies ---- */

static int add_policy(const struct manifest_reader *reader, const config_setting_t *setting, const char *name,
                      struct manifest *manifest)
{
	struct manifest_policy *policy = &manifest->policies[manifest->n_policies];
	char why[WHY_BYTES];
	char *path = setting ? read_path(reader, name) : strdup(name);

	if (!path)
		return read_fail(reader, setting, "out of memory");
	policy->fd = file_seal(path, MAX_POLICY_BYTES, &policy->bytes, why);
	if (policy->fd < 0) {
		int error = policy->fd;

		free(path);
		if (setting)
			read_fail(reader, setting, "policy %s", why);
		else
			snprintf(reader->why, WHY_BYTES, "%s", why);
		return error;
	}
	policy->name = path;
	manifest->n_policies++;
	return 0;
}

static int read_given_policies(const struct manifest_reader *reader, struct manifest *manifest)
{
	const struct manifest_options *options = reader->options;

	if (options->n_policies > MAX_POLICY_FILES) {
		snprintf(reader->why, WHY_BYTES, "%zu policy files; at most %u are possible",
		         options->n_policies, MAX_POLICY_FILES);
		return -EINVAL;
	}
	for (size_t i = 0; i < options->n_policies; i++) {
		int error = add_policy(reader, NULL, options->policies[i], manifest);

		if (error < 0)
			return error;
	}
	return 0;
}

static int read_policies(const struct manifest_reader *reader, const config_setting_t *root,
                         struct manifest *manifest)
{
	config_setting_t *list;
	int error;

	manifest->policies = calloc(MAX_POLICY_FILES, sizeof(*manifest->policies));
	if (!manifest->policies)
		return read_fail(reader, NULL, "out of memory");
	if (reader->options->policies)
		return read_given_policies(reader, manifest);
	error = read_list(reader, root, "policy", MAX_POLICY_FILES, &list);
	if (error == 0 && (!list || config_setting_length(list) == 0))
		error = read_fail(reader, list ? list : root,
		                  "no policy: policy = (\"base.cil\", \"mine.cil\");");
	for (int i = 0; error == 0 && i < config_setting_length(list); i++) {
		const config_setting_t *entry = config_setting_get_elem(list, (unsigned)i);
		const char *name;

		error = read_string(reader, entry, &name);
		if (error == 0)
			error = add_policy(reader, entry, name, manifest);
	}
	return error;
}

/* ---- clients ---- */

static int read_client(const struct manifest_reader *reader, const config_setting_t *entry,
                       struct manifest *manifest)
{
	static const char *const keys[] = {"uid", "context"};
	struct manifest_client *client = &manifest->clients[manifest->n_clients];
	uint64_t uid = UINT64_MAX;
	const char *context;
	int error;

	if (!config_setting_is_group(entry))
		return read_fail(reader, entry, "clients: expected { uid = 1000; context = \"...\"; }");
	error = read_check_keys(reader, entry, "a client", keys, 2);
	if (error == 0)
		error = read_number(reader, entry, "uid", 0, UINT32_MAX - 1, &uid);
	if (error == 0 && uid == UINT64_MAX)
		error = read_fail(reader, entry, "a client needs its uid");
	if (error == 0)
		error = read_member(reader, entry, "context", "a client needs a context", &context);
	if (error == 0)
		error = read_context(reader, config_setting_get_member(entry, "context"), context,
		                     client->context);
	if (error < 0)
		return error;
	for (size_t i = 0; i < manifest->n_clients; i++)
		if (manifest->clients[i].uid == uid)
			return read_fail(reader, entry, "a second context for uid %u", (unsigned)uid);
	client->uid = (uid_t)uid;
	client->line = config_setting_source_line(entry);
	manifest->n_clients++;
	return 0;
}

static int read_clients(const struct manifest_reader *reader, const config_setting_t *root,
                        struct manifest *manifest)
{
	config_setting_t *list;
	int error = read_list(reader, root, "clients", MAX_CLIENTS, &list);
	int n = list ? config_setting_length(list) : 0;

	if (error < 0 || n == 0)
		return error;
	manifest->clients = calloc((size_t)n, sizeof(*manifest->clients));
	if (!manifest->clients)
		return read_fail(reader, list, "out of memory");
	for (int i = 0; error == 0 && i < n; i++)
		error = read_client(reader, config_setting_get_elem(list, (unsigned)i), manifest);
	return error;
}

/* ---- the rest of the top level ---- */

static int read_stop(const struct manifest_reader *reader, const config_setting_t *root,
                     struct manifest *manifest)
{
	const config_setting_t *setting = config_setting_get_member(root, "stop");
	char suggestion[SUGGESTION_BYTES];
	const char *name;
	int mode;

	if (!setting)
		return 0;
	if (read_string(reader, setting, &name))
		return -EINVAL;
	mode = stop_mode_find(name);
	if (mode < 0)
		return read_fail(reader, setting, "stop = \"%s\" is not one of all, affected, none%s", name,
		                 suggest_phrase(name, stop_modes, N_STOP_MODES, suggestion));
	manifest->stop = (enum stop_mode)mode;
	return 0;
}

static int read_deadline(const struct manifest_reader *reader, const config_setting_t *root,
                         struct manifest *manifest)
{
	const config_setting_t *setting = config_setting_get_member(root, "deadline");
	double seconds;

	if (!setting)
		return 0;
	if (!config_setting_is_number(setting))
		return read_fail(reader, setting, "deadline: expected a number of seconds");
	if (config_setting_type(setting) == CONFIG_TYPE_FLOAT)
		seconds = config_setting_get_float(setting);
	else
		seconds = (double)config_setting_get_int64(setting);
	if (!(seconds > 0 && seconds <= MAX_DEADLINE_SECONDS))
		return read_fail(reader, setting, "deadline = %g is out of range: above 0, up to %g seconds",
		                 seconds, MAX_DEADLINE_SECONDS);
	manifest->deadline_seconds = seconds;
	return 0;
}

static int read_guest(const struct manifest_reader *reader, const config_setting_t *root,
                      struct manifest *manifest)
{
	const config_setting_t *setting = config_setting_get_member(root, "name");
	uint64_t vcpus = 1, bulk = DEFAULT_BULK_BYTES;
	const char *name, *audit = NULL;
	int error;

	error = read_member(reader, root, "name", "the guest needs a name: name = \"web\";", &name);
	if (error == 0)
		error = read_name(reader, setting, "guest", name, manifest->name);
	if (error == 0 && strcmp(name, OWN_NAME) == 0)
		error = read_fail(reader, setting, "guest name \"%s\" is the monitor's own", name);
	if (error == 0)
		error = read_number(reader, root, "vcpus", 1, MAX_VCPUS, &vcpus);
	if (error == 0)
		error = read_number(reader, root, "bulk_bytes", 0, MAX_BULK_BYTES, &bulk);
	if (error == 0 && bulk % ABI_PAGE_BYTES)
		error = read_fail(reader, config_setting_get_member(root, "bulk_bytes"),
		                  "bulk_bytes = %llu is no multiple of %u", (unsigned long long)bulk,
		                  ABI_PAGE_BYTES);
	if (error == 0)
		error = read_member(reader, root, "audit", NULL, &audit);
	if (error < 0)
		return error;
	manifest->n_vcpus = (uint32_t)vcpus;
	manifest->bulk_bytes = bulk;
	manifest->audit_path = audit ? read_path(reader, audit) : NULL;
	return audit && !manifest->audit_path ? read_fail(reader, NULL, "out of memory") : 0;
}

static int read_root(const struct manifest_reader *reader, const config_setting_t *root,
                     struct manifest *manifest)
{
	static const char *const keys[] = {"name",     "policy", "vcpus",   "bulk_bytes", "stop",
	                                   "deadline", "audit",  "clients", "domains"};
	int error = read_check_keys(reader, root, "a manifest", keys, sizeof(keys) / sizeof(keys[0]));

	manifest->stop = STOP_ALL;
	manifest->deadline_seconds = DEFAULT_DEADLINE_SECONDS;
	if (error == 0)
		error = read_guest(reader, root, manifest);
	if (error == 0)
		error = read_stop(reader, root, manifest);
	if (error == 0)
		error = read_deadline(reader, root, manifest);
	if (error == 0)
		error = read_clients(reader, root, manifest);
	if (error == 0)
		error = manifest_read_domains(reader, root, manifest);
	if (error == 0)
		error = read_policies(reader, root, manifest);
	return error;
}

/* ---- the file ---- */

/* The text with its NUL (malloc). */
static int read_text(const struct manifest_reader *reader, char **text)
{
	size_t bytes;
	int fd = file_seal(reader->path, MAX_MANIFEST_BYTES, &bytes, reader->why);

	if (fd < 0)
		return fd;
	*text = malloc(bytes + 1);
	if (!*text || pread(fd, *text, bytes, 0) != (ssize_t)bytes) {
		close(fd);
		return read_fail(reader, NULL, "out of memory");
	}
	close(fd);
	(*text)[bytes] = '\0';
	return strlen(*text) == bytes ? 0 : read_fail(reader, NULL, "this is no text: it holds a zero byte");
}

/* An include would be opened by the parser, by whatever path, without a bound. */
static int refuse_includes(const struct manifest_reader *reader, const char *text)
{
	unsigned line = 1;

	for (const char *start = text; start; line++) {
		const char *word = start + strspn(start, " \t");

		if (strncmp(word, "@include", 8) == 0) {
			snprintf(reader->why, WHY_BYTES, "%s:%u: @include is not possible in a manifest",
			         reader->path, line);
			return -EINVAL;
		}
		start = strchr(start, '\n');
		start = start ? start + 1 : NULL;
	}
	return 0;
}

static int parse(const struct manifest_reader *reader, config_t *config, struct manifest *manifest)
{
	char *text = NULL;
	int error = read_text(reader, &text);

	if (error == 0)
		error = refuse_includes(reader, text);
	if (error == 0 && !config_read_string(config, text)) {
		snprintf(reader->why, WHY_BYTES, "%s:%d: %s", reader->path, config_error_line(config),
		         config_error_text(config));
		error = -EINVAL;
	}
	free(text);
	return error < 0 ? error : read_root(reader, config_root_setting(config), manifest);
}

int manifest_load(const char *path, const struct manifest_options *options, struct manifest **out,
                  char why[static WHY_BYTES])
{
	static const struct manifest_options none;
	const char *slash = strrchr(path, '/');
	const char *given = options ? options->directory : NULL;
	struct manifest_reader reader = {
		.path = path,
		.directory = given ? strdup(given) : strndup(path, slash ? (size_t)(slash - path) + 1 : 0),
		.options = options ? options : &none,
		.why = why,
	};
	struct manifest *manifest = calloc(1, sizeof(*manifest));
	config_t config;
	int error;

	config_init(&config);
	if (manifest)
		manifest->path = strdup(path);
	if (!manifest || !manifest->path || !reader.directory)
		error = read_fail(&reader, NULL, "out of memory");
	else
		error = parse(&reader, &config, manifest);
	config_destroy(&config);
	free(reader.directory);
	if (error < 0) {
		manifest_free(manifest);
		return error;
	}
	*out = manifest;
	return 0;
}

int manifest_without_guest(const struct manifest_options *options, struct manifest **out,
                           char why[static WHY_BYTES])
{
	struct manifest_reader reader = {.path = "", .options = options, .why = why};
	struct manifest *manifest = calloc(1, sizeof(*manifest));
	int error = -ENOMEM;

	snprintf(why, WHY_BYTES, "out of memory");
	if (manifest)
		manifest->policies = calloc(MAX_POLICY_FILES, sizeof(*manifest->policies));
	if (manifest && manifest->policies) {
		manifest->n_vcpus = 1;
		manifest->deadline_seconds = DEFAULT_DEADLINE_SECONDS;
		manifest->path = strdup("-");
		error = manifest->path ? read_given_policies(&reader, manifest) : -ENOMEM;
	}
	if (error < 0) {
		manifest_free(manifest);
		return error;
	}
	*out = manifest;
	return 0;
}

void manifest_free(struct manifest *manifest)
{
	if (!manifest)
		return;
	for (size_t i = 0; i < manifest->n_policies; i++) {
		free(manifest->policies[i].name);
		close(manifest->policies[i].fd);
	}
	for (uint32_t i = 0; i < manifest->n_domains; i++)
		manifest_free_domain(&manifest->domains[i]);
	free(manifest->policies);
	free(manifest->domains);
	free(manifest->clients);
	free(manifest->audit_path);
	free(manifest->path);
	free(manifest);
}
