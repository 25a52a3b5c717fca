#include "monitor/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/manifest_read.h"
#include "monitor/suggest.h"
#include "vmm/check.h"

#define MAX_CLIENTS 256u
#define MAX_DEADLINE_SECONDS 3600.0

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
	struct manifest_policy *policy;
	char why[WHY_BYTES];

	CHECK(manifest->policies);
	policy = &manifest->policies[manifest->n_policies];
	policy->fd = read_open(reader, setting ? MANIFEST_POLICY : MANIFEST_GIVEN, name, MAX_POLICY_BYTES,
	                       &policy->bytes, &policy->name, why);
	if (policy->fd < 0 && setting)
		read_fail(reader, setting, "policy %s", why);
	else if (policy->fd < 0)
		snprintf(reader->why, WHY_BYTES, "%s", why);
	else
		manifest->n_policies++;
	return policy->fd < 0 ? policy->fd : 0;
}

int manifest_read_given_policies(const struct manifest_reader *reader, struct manifest *manifest)
{
	const struct manifest_options *options = reader->options;

	if (options->n_policies > MAX_POLICY_FILES) {
		snprintf(reader->why, WHY_BYTES, "%zu policy files; at most %u are possible",
		         options->n_policies, MAX_POLICY_FILES);
		return -EINVAL;
	}
	manifest->policies = calloc(MAX_POLICY_FILES, sizeof(*manifest->policies));
	if (!manifest->policies)
		return read_fail(reader, NULL, "out of memory");
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

	if (reader->options->policies)
		return manifest_read_given_policies(reader, manifest);
	error = read_list(reader, root, "policy", MAX_POLICY_FILES, &list);
	if (error == 0 && !list && reader->is_later)
		return 0;
	if (error == 0 && (!list || config_setting_length(list) == 0))
		error = read_fail(reader, list ? list : root,
		                  "no policy: policy = (\"base.cil\", \"mine.cil\");");
	if (error == 0 && !(manifest->policies = calloc(MAX_POLICY_FILES, sizeof(*manifest->policies))))
		error = read_fail(reader, list, "out of memory");
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
                       struct manifest_client *clients, size_t *n_clients)
{
	static const char *const keys[] = {"uid", "context"};
	struct manifest_client *client = &clients[*n_clients];
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
	for (size_t i = 0; i < *n_clients; i++)
		if (clients[i].uid == uid)
			return read_fail(reader, entry, "a second context for uid %u", (unsigned)uid);
	client->uid = (uid_t)uid;
	client->line = config_setting_source_line(entry);
	++*n_clients;
	return 0;
}

int manifest_read_clients(const struct manifest_reader *reader, const config_setting_t *group,
                          struct manifest_client **clients, size_t *n_clients)
{
	config_setting_t *list;
	int error = read_list(reader, group, "clients", MAX_CLIENTS, &list);
	int n = list ? config_setting_length(list) : 0;

	if (error < 0 || n == 0)
		return error;
	*clients = calloc((size_t)n, sizeof(**clients));
	if (!*clients)
		return read_fail(reader, list, "out of memory");
	for (int i = 0; error == 0 && i < n; i++)
		error = read_client(reader, config_setting_get_elem(list, (unsigned)i), *clients, n_clients);
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
	manifest->stop_line = config_setting_source_line(setting);
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
	manifest->deadline_line = config_setting_source_line(setting);
	return 0;
}

static int read_audit(const struct manifest_reader *reader, const config_setting_t *root,
                      struct manifest *manifest)
{
	const char *audit;
	int error = read_member(reader, root, "audit", NULL, &audit);

	if (error < 0 || !audit)
		return error;
	manifest->audit_path = read_path(reader, audit);
	return manifest->audit_path ? 0 : read_fail(reader, NULL, "out of memory");
}

/* Keys that concern one guest stand at the top level only where there is no list of guests. */
static int check_keys(const struct manifest_reader *reader, const config_setting_t *root)
{
	static const char *const keys[] = {"ports",  "policy", "stop", "deadline", "audit",      "clients",
	                                   "guests", "name",   "uuid", "vcpus",    "bulk_bytes", "domains"};
	static const char *const of_guest[] = {"name", "uuid", "vcpus", "bulk_bytes", "domains"};
	int error = read_check_keys(reader, root, "a manifest", keys, sizeof(keys) / sizeof(keys[0]));

	if (error < 0 || !config_setting_get_member(root, "guests"))
		return error;
	for (size_t i = 0; i < sizeof(of_guest) / sizeof(of_guest[0]); i++) {
		const config_setting_t *member = config_setting_get_member(root, of_guest[i]);

		if (member)
			return read_fail(
				reader, member,
				"%s belongs to a guest: with guests = ( ... ) it stands in one of them",
				of_guest[i]);
	}
	return 0;
}

static int read_monitor(const struct manifest_reader *reader, const config_setting_t *root,
                        struct manifest *manifest)
{
	int error = read_stop(reader, root, manifest);

	if (error == 0)
		error = read_deadline(reader, root, manifest);
	if (error == 0)
		error = read_audit(reader, root, manifest);
	if (error == 0)
		error = manifest_read_clients(reader, root, &manifest->clients, &manifest->n_clients);
	return error;
}

int manifest_read_root(const struct manifest_reader *reader, const config_setting_t *root,
                       struct manifest *manifest)
{
	bool guests_only = reader->options->guests_only;
	int error = check_keys(reader, root);

	if (error == 0 && !guests_only)
		error = read_monitor(reader, root, manifest);
	if (error == 0)
		error = manifest_read_guests(reader, root, manifest);
	if (error == 0 && guests_only && config_setting_get_member(root, "ports"))
		error = read_fail(reader, config_setting_get_member(root, "ports"),
		                  "ports are opened when the monitor starts: give this file to run or serve");
	else if (error == 0)
		error = manifest_read_ports(reader, root, manifest);
	if (error == 0 && !guests_only)
		error = read_policies(reader, root, manifest);
	return error;
}
