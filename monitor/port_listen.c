/*
 * Clients of a listening port: who is let in, and how many.
 *
 * Whoever comes is accepted and, past a limit, closed at once: a client that floods the backlog keeps nobody
 * out, and is told. A turn accepts a bounded number.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/port_internal.h"
#include "monitor/posture.h"

void port_refuse(struct port *port, const char *why)
{
	port->refused++;
	port->refused_why = why;
	port_tell_refused(port);
}

void port_tell_refused(struct port *port)
{
	uint64_t now = loop_now(), n = port->refused - port->refused_told;

	if (n == 0)
		return;
	if (now - port->told_ns < REFUSALS_NS) {
		if (!port->retry.armed)
			loop_arm(port->ports->monitor->loop, &port->retry, port->told_ns + REFUSALS_NS);
		return;
	}
	port_tell(port, "%llu %s refused, the last because %s", (unsigned long long)n,
	          n == 1 ? "client was" : "clients were", port->refused_why);
	port->refused_told = port->refused;
	port->told_ns = now;
}

static uint32_t connections_of(const struct port *port, uid_t uid)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < port->from->connections; i++)
		n += port->connections[i].state != CONNECTION_FREE && port->connections[i].uid == uid;
	return n;
}

int port_map_clients(struct port *port, char why[static WHY_BYTES])
{
	const struct manifest_port *from = port->from;
	struct posture *posture = port->ports->monitor->posture;
	struct registry *registry;
	int error = 0;

	port->identities = calloc(from->n_clients + 1, sizeof(*port->identities));
	if (!port->identities) {
		snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	registry = registry_lock(port->ports->monitor);
	for (size_t i = 0; error == 0 && i < from->n_clients; i++) {
		const struct manifest_client *client = &from->clients[i];

		error = sid_intern(posture->sids, client->context, &port->identities[i]);
		if (error == 0 && !sid_known(posture->sids, port->identities[i]))
			error = -EINVAL;
		if (error < 0)
			snprintf(why, WHY_BYTES,
			         "%.120s:%u: the policy does not know the context %s of uid %u",
			         from->manifest, client->line, client->context, (unsigned)client->uid);
	}
	registry_unlock(registry);
	return error;
}

static policy_sid identity_of(const struct port *port, uid_t uid)
{
	for (size_t i = 0; i < port->from->n_clients; i++)
		if (port->from->clients[i].uid == uid)
			return port->identities[i];
	return SID_NONE;
}

/* Takes fd. */
static void let_in(struct port *port, int fd)
{
	struct ucred who = {.uid = (uid_t)-1};
	socklen_t bytes = sizeof(who);
	struct connection *connection = NULL;
	const char *why = "all connections are in use";

	if (fd >= port->ports->most_fd)
		why = "too many files are open";
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes))
		why = "nobody knows who it is";
	else if (connections_of(port, who.uid) >= port->from->per_client)
		why = "its uid has as many connections as it may";
	else
		connection = connection_take(port);
	if (!connection) {
		port_refuse(port, why);
		close(fd);
		return;
	}
	connection->uid = who.uid;
	connection->identity = identity_of(port, who.uid);
	if (connection_attach(connection, fd, fd) < 0)
		port_refuse(port, "its socket cannot be used");
	else
		connection_begin(connection);
}

/* Descriptors are short: the socket stays readable, so it is left alone for a while. */
static void pause_listening(struct port *port)
{
	port_unlisten(port);
	port_tell(port, "accept: too many open files; trying again");
	loop_arm(port->ports->monitor->loop, &port->retry, loop_now() + RETRY_NS);
}

static void on_client(void *opaque, uint32_t events)
{
	struct port *port = opaque;

	(void)events;
	for (unsigned n = 0; n < TURN_ACCEPTS; n++) {
		int fd = accept4(port->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			let_in(port, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			pause_listening(port);
		if (errno != ECONNABORTED && errno != EINTR)
			break;
	}
}

void port_listen(struct port *port)
{
	if (port->from->kind == PORT_LISTEN && !port->listening && port->fd >= 0)
		port->listening =
			loop_add(port->ports->monitor->loop, port->fd, EPOLLIN, on_client, port) == 0;
}

void port_unlisten(struct port *port)
{
	if (port->listening)
		loop_remove(port->ports->monitor->loop, port->fd);
	port->listening = false;
}
