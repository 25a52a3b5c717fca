/*
 * A connection of a port: from a client, or from a connect of a domain, to an open ring; and its end.
 *
 * A port is a client like a domain: one connect at a time, decided by mediation, at once or later. Its
 * connections wait in line meanwhile, with nothing read from them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "monitor/audit.h"
#include "monitor/mediation.h"
#include "monitor/port_internal.h"
#include "vmm/check.h"
#include "vmm/window.h"

void port_tell(struct port *port, const char *format, ...)
{
	struct audit *audit = port->ports->monitor->audit;
	char text[WHY_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	audit_notice_of(audit, "host", port->from->name, "PORTCULLIS_PORT", "guest=\"host\" domain=\"%s\" %s",
	                port->from->name, text);
}

static struct machine *machine_of(const struct connection *connection)
{
	return connection->port->domain->guest->machine;
}

uint64_t connection_word(const struct connection *connection)
{
	return __atomic_load_n(&machine_record(machine_of(connection), connection->slot)->word,
	                       __ATOMIC_ACQUIRE);
}

bool connection_is_waiting(const struct connection *connection)
{
	uint64_t word = connection_word(connection);

	return (word & RECORD_CONNECTING) && !(word & (RECORD_PEER_CLOSED | RECORD_PEER_DIED));
}

/* ---- free and taken ---- */

struct connection *connection_take(struct port *port)
{
	for (uint32_t i = 0; i < port->from->connections; i++) {
		struct connection *connection = &port->connections[i];

		if (connection->state != CONNECTION_FREE || connection->queued)
			continue;
		*connection = (struct connection){.port = port, .state = CONNECTION_WAITING};
		connection->io[0].fd = connection->io[1].fd = -1;
		port->n_used++;
		return connection;
	}
	return NULL;
}

/* Nobody knows it any more. */
void connection_drop(struct connection *connection)
{
	struct port *port = connection->port;

	port_io_close(&connection->io[0]);
	port_io_close(&connection->io[1]);
	free(connection->pending);
	connection->pending = NULL;
	connection->n_pending = 0;
	connection->state = CONNECTION_FREE;
	port->n_used--;
	registry_kick(port->ports->monitor->registry);
}

static void on_ready(void *opaque, uint32_t events)
{
	struct connection *connection = opaque;

	connection->hung_up = connection->hung_up || (events & EPOLLHUP);
	if (connection->state == CONNECTION_OPEN)
		connection_queue(connection);
}

static int attach(struct connection *connection, unsigned which, int fd, bool reads)
{
	const struct manifest_port *from = connection->port->from;
	int64_t begin = from->kind == PORT_FILE && reads ? 0 : -1;

	return port_io_open(&connection->io[which], connection->port->ports->monitor->loop, fd, reads, begin,
	                    on_ready, connection);
}

int connection_attach(struct connection *connection, int reads, int writes)
{
	bool both = reads == writes;
	int error = 0;

	if (reads >= 0) {
		error = attach(connection, 0, reads, true);
		connection->reads = &connection->io[0];
	}
	if (both) {
		connection->writes = connection->reads;
	} else if (writes >= 0) {
		if (error == 0)
			error = attach(connection, 1, writes, false);
		else
			close(writes);
		connection->writes = &connection->io[1];
	}
	connection->fill_over = !connection->reads;
	if (error < 0)
		connection_drop(connection);
	return error;
}

void connection_end(struct connection *connection, enum end_fate fate)
{
	struct port *port = connection->port;
	struct domain *domain = port->domain;
	struct registry *registry = registry_lock(port->ports->monitor);
	enum channel_side side;
	struct channel *channel = channel_at(domain, connection->slot, &side);

	CHECK(connection->state == CONNECTION_OPENING || connection->state == CONNECTION_OPEN);
	port->by_slot[connection->slot - domain->first_slot] = NULL;
	if (channel && channel->end[side].generation == connection->generation)
		channel_end(registry, channel, side, fate);
	registry_unlock(registry);
	connection_drop(connection);
}

/* ---- a ring ---- */

/* Registry lock. */
static void bind(struct connection *connection, const struct channel *channel, enum channel_side side)
{
	const struct endpoint *end = &channel->end[side];

	connection->slot = end->slot;
	connection->generation = end->generation;
	connection->state = CONNECTION_OPENING;
	connection->port->by_slot[end->slot - end->domain->first_slot] = connection;
}

void connection_open(struct connection *connection)
{
	struct machine *machine = machine_of(connection);
	struct slot_record *record = machine_record(machine, connection->slot);

	ring_open(&connection->ring, window_outbox(machine, connection->slot),
	          window_inbox(machine, connection->slot), &record->word, record->bulk_bytes);
	connection->last_word = 0;
	connection->state = CONNECTION_OPEN;
	connection_queue(connection);
}

/* ---- as client ---- */

static void line_up(struct connection *connection)
{
	struct port *port = connection->port;

	connection->state = CONNECTION_WAITING;
	connection->next = NULL;
	if (port->waiting_last)
		port->waiting_last->next = connection;
	else
		port->waiting_first = connection;
	port->waiting_last = connection;
}

static struct connection *next_in_line(struct port *port)
{
	struct connection *connection = port->waiting_first;

	port->waiting_first = connection->next;
	if (!port->waiting_first)
		port->waiting_last = NULL;
	connection->next = NULL;
	return connection;
}

void connection_begin(struct connection *connection)
{
	line_up(connection);
	port_advance(connection->port);
}

static const char *why_refused(int result)
{
	switch (result) {
	case CALL_DENIED:
		return "the policy says no";
	case CALL_NO_SERVICE:
		return "no domain offers it, or none to this port";
	case CALL_NO_SLOT:
		return "no slot is free, or it has as many channels of this client as it may";
	case CALL_PEER_DIED:
		return "its domain has ended";
	case CALL_QUARANTINED:
		return "the port is quarantined";
	default:
		return "it failed";
	}
}

static void refuse(struct connection *connection, int result)
{
	struct port *port = connection->port;

	if (port->from->kind != PORT_LISTEN)
		port_tell(port, "connect to %s: %s", port->from->to, why_refused(result));
	else
		port_refuse(port, why_refused(result));
	connection_drop(connection);
}

static void retry_later(struct port *port)
{
	loop_arm(port->ports->monitor->loop, &port->retry, loop_now() + RETRY_NS);
}

/* The outcome of the connect that was asked; false: there is none yet. */
static bool take_outcome(struct port *port)
{
	struct connection *connection = port->asking;
	struct domain *domain = port->domain;
	struct registry *registry = registry_lock(port->ports->monitor);
	const struct domain_page *page = machine_domain_page(domain->guest->machine, domain->index);
	bool done = !domain->pending.active;
	int result = done ? page->connect_result : CALL_PENDING;
	enum channel_side side;
	const struct channel *channel =
		result == CALL_OK ? channel_at(domain, page->connect_slot, &side) : NULL;

	if (channel)
		bind(connection, channel, side);
	registry_unlock(registry);
	if (!done)
		return false;
	port->asking = NULL;
	if (result == CALL_BUSY) {
		line_up(connection); /* the next in line may get another instance, which has room */
		retry_later(port);
		return false;
	}
	if (channel)
		connection_queue(connection);
	else
		refuse(connection, result == CALL_OK ? CALL_PEER_DIED : result);
	return true;
}

/* False: it has to wait. */
static bool ask(struct port *port)
{
	struct connection *connection = next_in_line(port);
	struct guest_request request = {
		.call = HYPERCALL_CONNECT,
		.domain = port->domain->index,
		.argument = {strlen(port->from->to), UINT64_MAX},
	};
	int64_t ticket;

	snprintf(request.text, sizeof(request.text), "%s", port->from->to);
	ticket = mediation_connect_for(port->domain, &request, connection->identity);
	if (ticket < 0) {
		refuse(connection, (int)ticket);
		return true;
	}
	connection->state = CONNECTION_ASKING;
	port->asking = connection;
	return take_outcome(port);
}

/* ---- as server ---- */

/* Descriptors for a connect of a domain, as the port's kind has them. */
static int connect_host(struct connection *connection)
{
	struct port *port = connection->port;
	int reads = -1, writes = -1;

	if (port->from->kind == PORT_CONNECT) {
		reads = writes = port_dial(port);
		if (reads < 0)
			return reads;
	}
	if (port->from->kind != PORT_CONNECT && port->from->reads)
		reads = fcntl(port->fd, F_DUPFD_CLOEXEC, 3);
	if (port->from->kind != PORT_CONNECT && port->from->writes)
		writes = fcntl(port->out_fd, F_DUPFD_CLOEXEC, 3);
	if (reads < 0 && writes < 0)
		return -errno;
	return connection_attach(connection, reads, writes);
}

/* The oldest connect that waits at the port, as a channel; NULL: a change cut it meanwhile. */
static struct channel *accept_channel(struct port *port, struct connection *connection)
{
	struct registry *registry = registry_lock(port->ports->monitor);
	struct channel *channel = channel_accept(registry, port->domain);

	if (channel && connection)
		bind(connection, channel, SIDE_SERVER);
	else if (channel)
		channel_end(registry, channel, SIDE_SERVER, END_DIED);
	registry_unlock(registry);
	return channel;
}

bool port_has_waiting(const struct port *port)
{
	const struct domain *domain = port->domain;

	return __atomic_load_n(&machine_domain_page(domain->guest->machine, domain->index)->accepts_waiting,
	                       __ATOMIC_SEQ_CST) != 0;
}

/* One connect of a domain; false: not now. */
static bool serve(struct port *port)
{
	struct connection *connection = port_has_waiting(port) ? connection_take(port) : NULL;
	int error;

	if (!connection)
		return false;
	error = connect_host(connection);
	if (error == -EAGAIN) {
		connection_drop(connection);
		retry_later(port);
		return false;
	}
	if (error < 0) {
		if (connection->state != CONNECTION_FREE)
			connection_drop(connection);
		port_tell(port, "%s: %s", port->from->path ? port->from->path : "connect", strerror(-error));
		accept_channel(port, NULL);
		return true;
	}
	if (accept_channel(port, connection))
		connection_open(connection);
	else
		connection_drop(connection);
	return true;
}

void port_advance(struct port *port)
{
	bool go_on = true;

	for (unsigned n = 0; n < TURN_ACCEPTS && go_on; n++) {
		if (port->asking)
			go_on = take_outcome(port);
		else if (port->waiting_first)
			go_on = ask(port);
		else
			go_on = serve(port);
	}
	if (go_on)
		loop_arm(port->ports->monitor->loop, &port->retry, loop_now());
}
