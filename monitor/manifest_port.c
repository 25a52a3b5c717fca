/*
 * The ports of a manifest: what of the host its domains may reach, each with a label (docs/ports.md).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/manifest_read.h"
#include "monitor/suggest.h"

#define MAX_SOCKET_PATH_BYTES 108u /* sun_path */
#define DEFAULT_CONNECTIONS 16u
#define MAX_FILE_CONNECTIONS 16u /* each has a thread */
#define DEFAULT_MODE 0600u

/* One key with a few words to choose from; *word is the index; absent: it stays. */
static int read_word(const struct manifest_reader *reader, const config_setting_t *group, const char *key,
                     const char *const *words, size_t n_words, size_t *word)
{
	const config_setting_t *setting = config_setting_get_member(group, key);
	char suggestion[SUGGESTION_BYTES], all[128] = "";
	const char *text;

	if (read_member(reader, group, key, NULL, &text))
		return -EINVAL;
	for (size_t i = 0; text && i < n_words; i++) {
		if (strcmp(text, words[i]) == 0) {
			*word = i;
			return 0;
		}
		strncat(all, i ? ", " : "", sizeof(all) - strlen(all) - 1);
		strncat(all, words[i], sizeof(all) - strlen(all) - 1);
	}
	return text ? read_fail(reader, setting, "%s = \"%.64s\" is not one of %s%s", key, text, all,
	                        suggest_phrase(text, words, n_words, suggestion))
	            : 0;
}

/* ---- what each kind takes ---- */

#define COMMON "name", "kind", "context"
#define MOST_KEYS 11

static const char *const kinds[] = {
	[PORT_LISTEN] = "listen",
	[PORT_CONNECT] = "connect",
	[PORT_STDIO] = "stdio",
	[PORT_FILE] = "file",
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const char *const keys[][MOST_KEYS] = {
	[PORT_LISTEN] = {COMMON, "socket", "type", "mode", "to", "connections", "per_client", "clients"},
	[PORT_CONNECT] = {COMMON, "socket", "type", "offers", "connections"},
	[PORT_STDIO] = {COMMON, "streams", "to", "offers"},
	[PORT_FILE] = {COMMON, "file", "access", "to", "offers", "connections"},
};

static size_t n_keys(enum port_kind kind)
{
	size_t n = 0;

	while (n < MOST_KEYS && keys[kind][n])
		n++;
	return n;
}

/* "service" or "guest/service". */
static int read_to(const struct manifest_reader *reader, const config_setting_t *group,
                   struct manifest_port *port)
{
	const config_setting_t *setting = config_setting_get_member(group, "to");
	char guest[MAX_NAME_BYTES] = "", service[MAX_NAME_BYTES];
	const char *text, *slash;
	int error = read_member(reader, group, "to", NULL, &text);

	if (error < 0 || !text)
		return error;
	slash = strchr(text, '/');
	if (slash) {
		char part[MAX_NAME_BYTES + 1];

		snprintf(part, sizeof(part), "%.*s", (int)(slash - text), text);
		error = read_name(reader, setting, "guest", part, guest);
	}
	if (error == 0)
		error = read_name(reader, setting, "service", slash ? slash + 1 : text, service);
	if (error == 0)
		snprintf(port->to, sizeof(port->to), "%s", text);
	return error;
}

/* Either end may begin: the port connects to a service, or offers one. */
static int read_ends(const struct manifest_reader *reader, const config_setting_t *group,
                     struct manifest_port *port)
{
	const config_setting_t *offers = config_setting_get_member(group, "offers");
	int error = read_to(reader, group, port);

	if (error == 0 && port->kind == PORT_LISTEN && !port->to[0])
		return read_fail(reader, group,
		                 "port \"%s\" needs the service that its clients reach: to = \"web\";",
		                 port->name);
	if (error == 0 && port->to[0] && offers)
		return read_fail(reader, offers,
		                 "port \"%s\" connects to a service (to) or offers one (offers), not both",
		                 port->name);
	if (error < 0 || port->to[0])
		return error;
	if (offers)
		return manifest_read_service(reader, offers, &port->offers);
	snprintf(port->offers.name, sizeof(port->offers.name), "%s", port->name);
	return 0;
}

static int read_place(const struct manifest_reader *reader, const config_setting_t *group, const char *key,
                      struct manifest_port *port)
{
	const config_setting_t *setting = config_setting_get_member(group, key);
	char needed[128];
	const char *text;

	snprintf(needed, sizeof(needed), "port \"%s\" needs a %s: %s = \"PATH\";", port->name, key, key);
	if (read_member(reader, group, key, needed, &text))
		return -EINVAL;
	port->path = read_path(reader, text);
	if (!port->path)
		return read_fail(reader, setting, "out of memory");
	if (port->kind != PORT_FILE && strlen(port->path) >= MAX_SOCKET_PATH_BYTES)
		return read_fail(reader, setting, "%s: a socket's path has at most %u bytes", port->path,
		                 MAX_SOCKET_PATH_BYTES - 1);
	return 0;
}

/* As text, since libconfig knows no octal numbers. */
static int read_mode(const struct manifest_reader *reader, const config_setting_t *group,
                     struct manifest_port *port)
{
	const char *text;
	char *end;

	port->mode = DEFAULT_MODE;
	if (read_member(reader, group, "mode", NULL, &text))
		return -EINVAL;
	if (!text)
		return 0;
	port->mode = (unsigned)strtoul(text, &end, 8);
	if (*end || end - text < 3 || port->mode > 0777)
		return read_fail(reader, config_setting_get_member(group, "mode"),
		                 "mode = \"%.16s\": expected octal digits as of chmod: \"0660\"", text);
	return 0;
}

/* Where a port connects, it reaches the socket as /proc/self/fd/N/NAME (port_open.c). */
static int check_name(const struct manifest_reader *reader, const config_setting_t *setting,
                      const struct manifest_port *port)
{
	const char *slash = strrchr(port->path, '/');
	size_t most = MAX_SOCKET_PATH_BYTES - sizeof("/proc/self/fd/1234567/");

	if (port->kind == PORT_CONNECT && strlen(slash ? slash + 1 : port->path) > most)
		return read_fail(reader, setting,
		                 "%s: the name of a socket to connect to has at most %zu bytes", port->path,
		                 most);
	return 0;
}

/* Two cannot listen at one place. */
static int check_place(const struct manifest_reader *reader, const config_setting_t *setting,
                       const struct manifest *manifest, const struct manifest_port *port)
{
	for (const struct manifest_port *other = manifest->ports; other < port; other++)
		if (port->kind == PORT_LISTEN && other->kind == PORT_LISTEN &&
		    strcmp(other->path, port->path) == 0)
			return read_fail(reader, setting, "%s: port \"%s\" in line %u listens there already",
			                 port->path, other->name, other->line);
	return 0;
}

static int read_socket(const struct manifest_reader *reader, const config_setting_t *group,
                       const struct manifest *manifest, struct manifest_port *port)
{
	static const char *const types[] = {"stream", "seqpacket"};
	const config_setting_t *setting = config_setting_get_member(group, "socket");
	size_t type = 0;
	int error = read_place(reader, group, "socket", port);

	if (error == 0)
		error = check_name(reader, setting, port);
	if (error == 0)
		error = check_place(reader, setting, manifest, port);

	if (error == 0)
		error = read_word(reader, group, "type", types, 2, &type);
	if (error == 0)
		error = read_mode(reader, group, port);
	port->seqpacket = type == 1;
	port->reads = port->writes = true;
	return error;
}

static int read_kind(const struct manifest_reader *reader, const config_setting_t *group,
                     const struct manifest *manifest, struct manifest_port *port)
{
	static const char *const streams[] = {"both", "in", "out"};
	static const char *const accesses[] = {"read", "append"};
	size_t which = 0;
	int error;

	if (port->kind == PORT_LISTEN || port->kind == PORT_CONNECT)
		return read_socket(reader, group, manifest, port);
	if (port->kind == PORT_STDIO) {
		error = read_word(reader, group, "streams", streams, 3, &which);
		port->reads = which != 2;
		port->writes = which != 1;
		return error;
	}
	error = read_place(reader, group, "file", port);
	if (error == 0)
		error = read_word(reader, group, "access", accesses, 2, &which);
	port->reads = which == 0;
	port->writes = which == 1;
	return error;
}

static int read_limits(const struct manifest_reader *reader, const config_setting_t *group,
                       struct manifest_port *port)
{
	uint64_t most = port->kind == PORT_FILE ? MAX_FILE_CONNECTIONS : MAX_SLOTS;
	uint64_t connections = port->kind == PORT_STDIO || (port->kind == PORT_FILE && port->to[0])
	                               ? 1
	                               : DEFAULT_CONNECTIONS;
	uint64_t per_client;
	int error = read_number(reader, group, "connections", 1, most, &connections);

	per_client = connections;
	if (error == 0)
		error = read_number(reader, group, "per_client", 1, connections, &per_client);
	port->connections = (uint32_t)connections;
	port->per_client = (uint32_t)per_client;
	return error;
}

/* ---- one, and all ---- */

static int read_identity(const struct manifest_reader *reader, const config_setting_t *group,
                         const struct manifest *manifest, struct manifest_port *port)
{
	size_t kind = N_KINDS;
	const char *name, *context;
	char needed[160];
	int error = read_member(reader, group, "name", "a port needs a name", &name);

	if (error == 0)
		error = read_name(reader, config_setting_get_member(group, "name"), "port", name, port->name);
	for (uint32_t i = 0; error == 0 && i < manifest->n_ports; i++)
		if (strcmp(manifest->ports[i].name, name) == 0)
			error = read_fail(reader, group, "a second port \"%s\": the first is in line %u",
			                  name, manifest->ports[i].line);
	if (error == 0)
		error = read_word(reader, group, "kind", kinds, N_KINDS, &kind);
	if (error == 0 && kind == N_KINDS)
		error = read_fail(reader, group, "port \"%s\" needs a kind: listen, connect, stdio or file",
		                  port->name);
	if (error < 0)
		return error;
	port->kind = (enum port_kind)kind;
	snprintf(needed, sizeof(needed),
	         "port \"%s\" needs a context: context = \"system_u:system_r:web_port_t:s0\";", port->name);
	error = read_member(reader, group, "context", needed, &context);
	if (error == 0)
		error = read_context(reader, config_setting_get_member(group, "context"), context,
		                     port->context);
	return error;
}

static int read_port(const struct manifest_reader *reader, const config_setting_t *group,
                     const struct manifest *manifest, struct manifest_port *port)
{
	char where[64];
	int error;

	if (!config_setting_is_group(group))
		return read_fail(reader, group, "ports: expected { name = \"...\"; kind = \"...\"; ... }");
	port->manifest = manifest->path;
	port->line = config_setting_source_line(group);
	error = read_identity(reader, group, manifest, port);
	if (error < 0)
		return error;
	snprintf(where, sizeof(where), "a port of kind %s", kinds[port->kind]);
	error = read_check_keys(reader, group, where, keys[port->kind], n_keys(port->kind));
	if (error == 0)
		error = read_kind(reader, group, manifest, port);
	if (error == 0)
		error = read_ends(reader, group, port);
	if (error == 0)
		error = read_limits(reader, group, port);
	if (error == 0)
		error = manifest_read_clients(reader, group, &port->clients, &port->n_clients);
	return error;
}

int manifest_read_ports(const struct manifest_reader *reader, const config_setting_t *root,
                        struct manifest *manifest)
{
	config_setting_t *list;
	int error = read_list(reader, root, "ports", MAX_DOMAINS, &list);
	int n = error == 0 && list ? config_setting_length(list) : 0;

	if (error < 0 || n == 0)
		return error;
	if (reader->options->guests_only)
		return read_fail(
			reader, list,
			"ports are opened when the monitor starts: name them in a manifest of run or "
			"serve");
	manifest->ports = calloc((size_t)n, sizeof(*manifest->ports));
	if (!manifest->ports)
		return read_fail(reader, list, "out of memory");
	for (int i = 0; error == 0 && i < n; i++) {
		error = read_port(reader, config_setting_get_elem(list, (unsigned)i), manifest,
		                  &manifest->ports[i]);
		manifest->n_ports++; /* also one that failed: it may hold a path */
	}
	return error;
}

void manifest_free_ports(struct manifest *manifest)
{
	for (uint32_t i = 0; i < manifest->n_ports; i++) {
		free(manifest->ports[i].path);
		free(manifest->ports[i].clients);
	}
	free(manifest->ports);
}
