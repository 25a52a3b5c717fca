/*
 * Consoles: the log lines of a guest's domains as a stream to a client.
 *
 * Whoever opens one needs the permission console of every domain of the guest, and needs it for as long as
 * lines come: when the policy number has changed, all are asked again before the next line, and the lines
 * wait. What a client types goes nowhere: domains have no input.
 */
#include <errno.h>
#include <inttypes.h>
#include <libvirt/virterror.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "monitor/guest.h"
#include "monitor/libvirt/server.h"
#include "monitor/libvirt/state.h"
#include "monitor/libvirt/tap.h"
#include "monitor/posture.h"

#define HELD_BYTES (64u << 10) /* of lines that wait for the policy's word */
#define LINES_PER_ROUND 64

struct console {
	struct console *next;
	struct rpc_client *client; /* NULL: it has gone, and the answer that is awaited frees this */
	struct rpc_call *call;     /* that opens it; NULL: it is open */
	struct rpc_header header;
	struct monitor *monitor;
	policy_sid subject;
	uint8_t uuid[RPC_UUID_BYTES];
	int32_t id; /* of the guest's run */
	bool asking;
	uint32_t n_granted;     /* domains, while asking */
	uint64_t policy_number; /* under which all were granted; 0: never */
	struct xdr_writer held;
	uint64_t n_lost;
};

static void check(struct console *console);

static void console_free(struct console *console)
{
	free(console->held.bytes);
	free(console);
}

static void put_stream(struct rpc_client *client, const struct rpc_header *of, enum rpc_status status,
                       const void *bytes, size_t n)
{
	struct rpc_header header = *of;
	size_t at;

	header.type = RPC_STREAM;
	header.status = status;
	at = frame_begin(&client->out, &header);
	xdr_put_raw(&client->out, bytes, n);
	frame_end(&client->out, at);
}

static void put_packet(struct console *console, enum rpc_status status, const void *bytes, size_t n)
{
	put_stream(console->client, &console->header, status, bytes, n);
}

static void put_error_packet(struct console *console, int32_t code, const char *text)
{
	struct rpc_header header = console->header;
	struct xdr_writer *out = &console->client->out;
	size_t at;

	header.type = RPC_STREAM;
	header.status = RPC_ERROR;
	at = frame_begin(out, &header);
	frame_put_error(out, code, VIR_FROM_ACCESS, text);
	frame_end(out, at);
}

/* Out of its client's list; the tap rests when nobody listens. */
static void unlink_console(struct console *console)
{
	struct console **link = &console->client->consoles;
	const struct libvirt *server = console->client->server;
	bool any = false;

	while (*link != console)
		link = &(*link)->next;
	*link = console->next;
	console->client = NULL;
	for (const struct rpc_client *client = server->first; client; client = client->next)
		any = any || client->consoles;
	if (!any)
		tap_listen(server->tap, false);
	if (!console->asking)
		console_free(console);
}

void consoles_forget(struct rpc_client *client)
{
	while (client->consoles)
		unlink_console(client->consoles);
}

/* ---- permission ---- */

static struct definition *run_of(const struct console *console)
{
	struct definition *definition = definition_of(console->monitor, console->uuid);

	return definition && state_is_active(definition) && definition->id == console->id && definition->guest
	               ? definition
	               : NULL;
}

static void send_held(struct console *console)
{
	if (client_backlog(console->client) > RPC_PAUSE_QUEUE_BYTES)
		return; /* it reads slowly: lines wait, then are lost; the connection stays */
	if (console->held.n)
		put_packet(console, RPC_CONTINUE, console->held.bytes, console->held.n);
	console->held.n = 0;
	client_update(console->client);
}

static void granted(struct console *console)
{
	struct rpc_call *call = console->call;

	console->policy_number = console->monitor->posture->policy_number;
	console->call = NULL;
	if (call)
		call_done(call);
	send_held(console);
}

static void denied(struct console *console, int32_t code, const char *text)
{
	struct rpc_client *client = console->client;
	struct rpc_call *call = console->call;
	char why[WHY_BYTES + 32];

	snprintf(why, sizeof(why), "%s%s", code == VIR_ERR_ACCESS_DENIED ? "access denied: " : "", text);
	if (!call)
		put_error_packet(console, code, why);
	unlink_console(console);
	if (call)
		call_fail_access(call, code, why);
	else
		client_update(client);
}

static void answered(void *opaque, bool allowed, const char *text)
{
	struct console *console = opaque;

	console->asking = false;
	if (!console->client) {
		if (console->call)
			call_orphaned(console->call);
		console_free(console);
		return;
	}
	if (!allowed) {
		denied(console, VIR_ERR_ACCESS_DENIED, text);
		return;
	}
	console->n_granted++;
	check(console);
}

static void check(struct console *console)
{
	const struct definition *definition = run_of(console);
	struct registry *registry;
	policy_sid target;

	if (!definition) {
		denied(console, VIR_ERR_OPERATION_INVALID, "the guest does not run");
		return;
	}
	if (console->n_granted == definition->guest->n_domains) {
		granted(console);
		return;
	}
	registry = registry_lock(console->monitor);
	target = definition->guest->domains[console->n_granted].sid;
	registry_unlock(registry);
	console->asking = true;
	posture_ask(console->monitor, console->subject, target, CLASS_DOMAIN, DOMAIN_CONSOLE, answered,
	            console);
}

static void check_again(struct console *console)
{
	if (console->asking)
		return;
	console->n_granted = 0;
	check(console);
}

/* ---- lines ---- */

static void add_line(struct console *console, const struct tap_line *line)
{
	char text[sizeof(line->text) + 2 * MAX_NAME_BYTES + 64];
	int n = 0;

	if (console->held.n > HELD_BYTES - sizeof(text)) {
		console->n_lost++;
		return;
	}
	if (console->n_lost || line->n_lost)
		n = snprintf(text, sizeof(text), "(%" PRIu64 " lines lost)\r\n",
		             console->n_lost + line->n_lost);
	console->n_lost = 0;
	n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%s%s\r\n", line->domain,
	              *line->domain ? ": " : "", line->text);
	xdr_put_raw(&console->held, text, (size_t)n);
}

/* All consoles; a callback may end some, so each time the search begins anew. */
static struct console *find_unsent(struct libvirt *server)
{
	for (struct rpc_client *client = server->first; client; client = client->next)
		for (struct console *console = client->consoles; console; console = console->next)
			if (client->fd >= 0 && console->held.n && !console->asking && !console->call &&
			    client_backlog(client) <= RPC_PAUSE_QUEUE_BYTES)
				return console;
	return NULL;
}

static void add_to_all(struct libvirt *server, const struct tap_line *line)
{
	const struct definition *definition = lifecycle_find(server->monitor, line->guest);

	if (!definition)
		return;
	for (struct rpc_client *client = server->first; client; client = client->next)
		for (struct console *console = client->consoles; console; console = console->next)
			if (memcmp(console->uuid, definition->uuid, RPC_UUID_BYTES) == 0)
				add_line(console, line);
}

static void take_lines(struct libvirt *server, int most)
{
	struct tap_line line;

	while (most-- > 0 && tap_next(server->tap, &line))
		add_to_all(server, &line);
}

/* Each is sent, or asks, or ends: none is found twice. */
void consoles_send(struct libvirt *server)
{
	struct console *console;

	while ((console = find_unsent(server))) {
		if (console->policy_number == server->monitor->posture->policy_number)
			send_held(console);
		else
			check_again(console);
	}
}

static void on_lines(void *opaque, uint32_t events)
{
	struct libvirt *server = opaque;

	(void)events;
	take_lines(server, LINES_PER_ROUND);
	consoles_send(server);
}

int consoles_open(struct libvirt *server)
{
	return server->tap ? loop_add(server->monitor->loop, tap_fd(server->tap), EPOLLIN, on_lines, server)
	                   : 0;
}

void consoles_close(struct libvirt *server)
{
	if (server->tap)
		loop_remove(server->monitor->loop, tap_fd(server->tap));
}

/* ---- the client's side ---- */

static uint32_t n_consoles(const struct rpc_client *client)
{
	uint32_t n = 0;

	for (const struct console *console = client->consoles; console; console = console->next)
		n++;
	return n;
}

void run_console(struct rpc_call *call)
{
	struct definition *definition = call_definition(call);
	struct console *console;

	if (!definition)
		return;
	if (!call->server->tap || n_consoles(call->client) >= MAX_RPC_CONSOLES) {
		call_fail(call, VIR_ERR_OPERATION_FAILED, "a client has at most %u consoles",
		          MAX_RPC_CONSOLES);
		return;
	}
	console = calloc(1, sizeof(*console));
	if (!console) {
		call_fail(call, VIR_ERR_NO_MEMORY, "out of memory");
		return;
	}
	console->client = call->client;
	console->call = call;
	console->header = call->header;
	console->monitor = call->monitor;
	console->subject = call->subject;
	memcpy(console->uuid, definition->uuid, RPC_UUID_BYTES);
	console->id = definition->id;
	console->held.most = HELD_BYTES;
	console->next = call->client->consoles;
	call->client->consoles = console;
	tap_listen(call->server->tap, true);
	check(console);
}

void console_packet(struct rpc_client *client, const struct rpc_header *header)
{
	struct console *console = client->consoles;

	while (console && (console->header.serial != header->serial || console->call))
		console = console->next;
	/* Input is taken and goes nowhere. */
	if (header->status == RPC_CONTINUE)
		return;
	/* The client ends it, in order or not, and waits for a word that this was heard: also if it had
	 * ended. */
	put_stream(client, header, RPC_OK, NULL, 0);
	if (console)
		unlink_console(console);
	client_update(client);
}

/* What it said last is still shown, if that may be. An empty packet is the end of what is sent; the client
 * confirms it. */
static void end_console(struct console *console)
{
	if (console->held.n && console->policy_number == console->monitor->posture->policy_number)
		put_packet(console, RPC_CONTINUE, console->held.bytes, console->held.n);
	put_packet(console, RPC_CONTINUE, NULL, 0);
	unlink_console(console);
}

void consoles_ended(struct libvirt *server, const struct definition *definition)
{
	if (server->tap)
		take_lines(server, INT32_MAX);
	for (struct rpc_client *client = server->first; client; client = client->next) {
		struct console *next;

		for (struct console *console = client->consoles; console; console = next) {
			next = console->next;
			if (!console->call && memcmp(console->uuid, definition->uuid, RPC_UUID_BYTES) == 0)
				end_console(console);
		}
		client_update(client);
	}
}
