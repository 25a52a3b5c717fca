/*
 * Between an open ring and descriptors, a bounded number of messages at a time.
 *
 * What stands in the way of nobody: a full ring stops reading the descriptor, a full descriptor stops taking
 * from the ring, and neither is looked at again until its other side says that there is room.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "monitor/port_internal.h"

#define MESSAGE_COST 256u /* bytes of a turn that a message counts besides its own */
#define STREAM_PARTS 4u   /* of the bulk area: so that one is written while another is read */

static size_t longest(const struct connection *connection)
{
	uint64_t bulk = connection->ring.bulk_bytes;

	return bulk > RING_INLINE_BYTES ? bulk : RING_INLINE_BYTES;
}

static size_t stream_chunk(const struct connection *connection)
{
	size_t part = longest(connection) / STREAM_PARTS;

	return part > RING_INLINE_BYTES ? part : RING_INLINE_BYTES;
}

static void forget_pending(struct connection *connection)
{
	free(connection->pending);
	connection->pending = NULL;
	connection->n_pending = connection->pending_at = 0;
}

/* The direction's own descriptor goes; of a socket, its half. */
static void shut(struct connection *connection, struct port_io **io, int how)
{
	if (!*io)
		return;
	if ((*io)->is_socket && connection->reads == connection->writes)
		port_io_shut(*io, how);
	else
		port_io_close(*io);
	if (!(*io)->is_socket || connection->reads != connection->writes)
		*io = NULL;
}

static void stop_filling(struct connection *connection, bool cut)
{
	connection->fill_over = true;
	if (cut)
		shut(connection, &connection->reads, SHUT_RD);
}

/* What was taken from the ring and not written is dropped if the flow is cut. */
static void stop_draining(struct connection *connection, bool cut)
{
	connection->drain_over = true;
	if (!cut)
		return;
	forget_pending(connection);
	shut(connection, &connection->writes, SHUT_WR);
}

static bool is_over(struct connection *connection)
{
	return connection->fill_over && connection->drain_over && !connection->n_pending &&
	       (!connection->writes || port_io_is_flushed(connection->writes));
}

/* ---- ends ---- */

/* There is no client to notice: whoever started the monitor learns from its exit status that bytes are
 * missing. */
static void fail_stream(struct port *port, int error)
{
	const char *path = port->from->path;
	struct registry *registry = registry_lock(port->ports->monitor);

	port->domain->exit_status = 1;
	registry_unlock(registry);
	port_tell(port, "%s%s%s", path ? path : "", path ? ": " : "", strerror(-error));
}

/* The descriptor has failed, or what it holds can not be delivered. */
static void fail(struct connection *connection, int error)
{
	const struct manifest_port *from = connection->port->from;

	if (error == -EMSGSIZE)
		port_tell(connection->port, "a packet cannot be delivered: it has at most %zu bytes",
		          longest(connection));
	else if (from->kind == PORT_STDIO || from->kind == PORT_FILE)
		fail_stream(connection->port, error);
	connection_end(connection, END_DIED);
}

/* All is written, or the last of it could not be. */
static void finish(struct connection *connection)
{
	int error = connection->writes ? port_io_error(connection->writes) : 0;

	if (error < 0)
		fail(connection, error);
	else
		connection_end(connection, END_CLOSED);
}

void connection_look(struct connection *connection)
{
	uint64_t word = connection_word(connection);
	int out = ring_out_state(&connection->ring, word), in = ring_in_state(&connection->ring, word);
	bool ours = word >> RECORD_GENERATION_SHIFT == connection->generation && (word & RECORD_LIVE);

	connection->last_word = word;
	if (out != CALL_OK && !connection->fill_over)
		stop_filling(connection, out == CALL_REVOKED || !ours);
	if (in == CALL_REVOKED || !ours) {
		if (!connection->drain_over || connection->n_pending)
			stop_draining(connection, true);
	} else if (in != CALL_OK && !connection->drain_over) {
		stop_draining(connection, false);
	}
	if (in == CALL_BROKEN || out == CALL_BROKEN) {
		port_tell(connection->port, "channel %llu: the peer's memory breaks the ring's rules",
		          (unsigned long long)machine_record(connection->port->domain->guest->machine,
		                                             connection->slot)
		                  ->channel);
		connection_end(connection, END_DIED);
	} else if (is_over(connection)) {
		finish(connection);
	}
}

/* ---- descriptor to ring ---- */

/* How much to read now, so that it fits the ring: a packet is looked at first. */
static ssize_t next_bytes(struct connection *connection)
{
	ssize_t n;

	if (!connection->reads->is_seqpacket)
		return (ssize_t)stream_chunk(connection);
	n = port_io_look(connection->reads);
	return n > (ssize_t)longest(connection) ? -EMSGSIZE : n;
}

static bool has_room(struct connection *connection, size_t bytes)
{
	connection->wants_room = false;
	if (ring_can_send(&connection->ring, bytes))
		return true;
	ring_want_room(&connection->ring);
	connection->wants_room = !ring_can_send(&connection->ring, bytes);
	return !connection->wants_room;
}

/* One message; false: not now, or never again (then fill_over), or the connection has failed. */
static bool fill_one(struct connection *connection)
{
	struct ports *ports = connection->port->ports;
	ssize_t n = next_bytes(connection);
	int result;

	if (n >= 0 && !has_room(connection, (size_t)n))
		return false;
	if (n > 0)
		n = port_io_read(connection->reads, ports->scratch, (size_t)n);
	if (n == -EAGAIN)
		return false;
	if (n < 0) {
		fail(connection, (int)n);
		return false;
	}
	result = ring_send(&connection->ring, ports->scratch, (size_t)n, &connection->notify);
	if (result != CALL_OK) {
		stop_filling(connection, result == CALL_REVOKED);
		return false;
	}
	ports->turn_bytes -=
		(size_t)n + MESSAGE_COST < ports->turn_bytes ? (size_t)n + MESSAGE_COST : ports->turn_bytes;
	if (n == 0) /* the end, and the peer has been told by the empty message */
		stop_filling(connection, false);
	if (n == 0 && !connection->writes) /* nothing else can come of it */
		stop_draining(connection, false);
	return n > 0;
}

/* ---- ring to descriptor ---- */

/* Keeps what the descriptor did not take. */
static int keep(struct connection *connection, const uint8_t *bytes, size_t n)
{
	connection->pending = malloc(n);
	if (!connection->pending)
		return -ENOMEM;
	memcpy(connection->pending, bytes, n);
	connection->n_pending = n;
	connection->pending_at = 0;
	return 0;
}

/* 0: all is written. -EAGAIN, -errno. */
static int flush(struct connection *connection)
{
	while (connection->pending_at < connection->n_pending) {
		ssize_t n = port_io_write(connection->writes, connection->pending + connection->pending_at,
		                          connection->n_pending - connection->pending_at);

		if (n < 0)
			return (int)n;
		connection->pending_at += (size_t)n;
	}
	forget_pending(connection);
	return 0;
}

static int deliver(struct connection *connection, const uint8_t *bytes, size_t n)
{
	ssize_t written = port_io_write(connection->writes, bytes, n);

	if (written < 0 && written != -EAGAIN)
		return (int)written;
	if (written < 0)
		written = 0;
	return (size_t)written < n ? keep(connection, bytes + written, n - (size_t)written) : 0;
}

/* Nothing there: asks the peer to notify. True: something came meanwhile. */
static bool await_message(struct connection *connection)
{
	ring_want_message(&connection->ring);
	return ring_can_receive(&connection->ring);
}

/* As fill_one. */
static bool drain_one(struct connection *connection)
{
	struct ports *ports = connection->port->ports;
	int64_t n =
		ring_receive(&connection->ring, ports->scratch, ports->scratch_bytes, &connection->notify);
	int error = 0;

	if (n == CALL_AGAIN)
		return await_message(connection);
	if (n < 0) {
		stop_draining(connection, n == CALL_REVOKED);
		return false;
	}
	ports->turn_bytes -=
		(size_t)n + MESSAGE_COST < ports->turn_bytes ? (size_t)n + MESSAGE_COST : ports->turn_bytes;
	if (n == 0) {
		stop_draining(connection, false);
		if (connection->writes)
			port_io_shut(connection->writes, SHUT_WR);
	} else if (connection->writes) {
		error = deliver(connection, ports->scratch, (size_t)n);
	}
	if (error < 0)
		fail(connection, error);
	return error == 0 && n > 0 && !connection->n_pending;
}

/* ---- both ---- */

static void wake_peer(struct connection *connection)
{
	struct domain *domain = connection->port->domain;
	struct registry *registry = registry_lock(domain->guest->monitor);
	enum channel_side side;
	struct channel *channel = channel_at(domain, connection->slot, &side);

	connection->notify = false;
	if (channel && channel->end[side].generation == connection->generation &&
	    !channel->end[1 - side].domain->guest->gone && channel->end[1 - side].fate == END_HELD)
		domain_wake(registry, channel->end[1 - side].domain);
	registry_unlock(registry);
}

/*
 * Nothing more is read from the client, so that no read finds out when it has left: a hang-up is waited for.
 * While the ring is full it is not: what the client has sent before it left is still delivered.
 */
static bool is_deaf_socket(const struct connection *connection)
{
	return connection->fill_over && connection->reads && connection->reads == connection->writes;
}

/* And there is nothing to write to it, which would find out that it failed. */
static bool has_left(const struct connection *connection)
{
	return connection->hung_up && is_deaf_socket(connection) && !connection->n_pending &&
	       (connection->drain_over || !ring_can_receive(&connection->ring));
}

static void want(struct connection *connection)
{
	uint32_t reads = is_deaf_socket(connection)                                               ? EPOLLHUP
	                 : connection->reads && !connection->fill_over && !connection->wants_room ? EPOLLIN
	                                                                                          : 0;
	uint32_t writes = connection->writes && connection->n_pending ? EPOLLOUT : 0;
	int error = 0;

	if (connection->reads == connection->writes && connection->reads) {
		error = port_io_want(connection->reads, reads | writes);
	} else {
		if (connection->reads)
			error = port_io_want(connection->reads, reads);
		if (connection->writes && error == 0)
			error = port_io_want(connection->writes, writes);
	}
	if (error < 0)
		fail(connection, error);
}

/* What is pending goes first. False: it cannot go on. */
static bool flush_first(struct connection *connection)
{
	int error = connection->n_pending ? flush(connection) : 0;

	if (error < 0 && error != -EAGAIN)
		fail(connection, error);
	return error == 0;
}

static bool is_open(const struct connection *connection)
{
	return connection->state == CONNECTION_OPEN;
}

void connection_copy(struct connection *connection)
{
	size_t *left = &connection->port->ports->turn_bytes;
	bool fills = true, drains;

	connection_look(connection);
	if (!is_open(connection))
		return;
	drains = flush_first(connection);
	for (unsigned n = 0; n < CONNECTION_MESSAGES && *left && is_open(connection) && (fills || drains);
	     n++) {
		if (drains && !connection->drain_over)
			drains = drain_one(connection);
		else
			drains = false;
		if (is_open(connection) && fills && !connection->fill_over && connection->reads)
			fills = fill_one(connection);
		else
			fills = false;
	}
	if (is_open(connection) && has_left(connection))
		connection_end(connection, END_CLOSED);
	if (is_open(connection) && connection->notify)
		wake_peer(connection);
	if (is_open(connection) && (connection->ring.broken || is_over(connection)))
		connection_look(connection); /* ends it */
	if (is_open(connection))
		want(connection);
	if (is_open(connection) && (fills || drains))
		connection_queue(connection);
}

bool connection_has_work(struct connection *connection)
{
	struct ring *ring = &connection->ring;

	if (connection->state == CONNECTION_OPENING)
		return !connection_is_waiting(connection);
	if (!is_open(connection))
		return false;
	if (connection_word(connection) != connection->last_word)
		return true;
	if (!connection->drain_over && !connection->n_pending && ring_can_receive(ring))
		return true;
	return !connection->fill_over && connection->wants_room && ring_can_send(ring, RING_INLINE_BYTES);
}
