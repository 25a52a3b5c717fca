#include "monitor/port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "monitor/host.h"
#include "monitor/port_internal.h"
#include "vmm/check.h"

/* ---- turns ---- */

void connection_queue(struct connection *connection)
{
	struct ports *ports = connection->port->ports;

	if (connection->queued)
		return;
	connection->queued = true;
	connection->next = NULL;
	if (ports->last)
		ports->last->next = connection;
	else
		ports->first = connection;
	ports->last = connection;
	loop_arm(ports->monitor->loop, &ports->turn, loop_now());
}

static struct connection *next_in_queue(struct ports *ports)
{
	struct connection *connection = ports->first;

	ports->first = connection->next;
	if (!ports->first)
		ports->last = NULL;
	connection->next = NULL;
	connection->queued = false;
	return connection;
}

static void look_at(struct connection *connection)
{
	if (connection->state == CONNECTION_OPENING && !connection_is_waiting(connection))
		connection_open(connection);
	else if (connection->state == CONNECTION_OPEN)
		connection_copy(connection);
}

/* Those that queue themselves again meanwhile wait for the next turn: everything else of the loop comes
 * before. */
static void on_turn(void *opaque)
{
	struct ports *ports = opaque;
	const struct connection *last = ports->last;

	ports->turn_bytes = TURN_BYTES;
	for (unsigned n = 0; n < TURN_CONNECTIONS && ports->first && ports->turn_bytes; n++) {
		struct connection *connection = next_in_queue(ports);

		look_at(connection);
		if (connection == last)
			break;
	}
	if (ports->first)
		loop_arm(ports->monitor->loop, &ports->turn, loop_now());
}

static void on_wake(void *opaque, uint32_t events)
{
	struct ports *ports = opaque;
	uint64_t count;
	ssize_t n = read(machine_wake_fd(ports->host->machine), &count, sizeof(count));

	(void)n;
	(void)events;
	for (uint32_t p = 0; p < ports->n_ports; p++) {
		struct port *port = &ports->ports[p];

		port_advance(port);
		for (uint32_t c = 0; c < port->from->connections; c++)
			if (connection_has_work(&port->connections[c]))
				connection_queue(&port->connections[c]);
	}
}

static void on_retry(void *opaque)
{
	struct port *port = opaque;

	port_listen(port);
	port_advance(port);
	port_tell_refused(port);
}

/* ---- set-up ---- */

static int port_init(struct ports *ports, uint32_t p, char *why)
{
	struct port *port = &ports->ports[p];
	int error;

	port->domain = &ports->host->domains[p];
	port->retry = (struct loop_timer){.fn = on_retry, .opaque = port};
	port->connections = calloc(port->from->connections, sizeof(*port->connections));
	port->by_slot = calloc(port->from->connections, sizeof(struct connection *));
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	error = port->connections && port->by_slot ? port_map_clients(port, why) : -ENOMEM;
	return error < 0 ? error : port_open(port, why);
}

/* The ports of all manifests. */
static int collect(struct ports *ports, struct manifest *const *manifests, size_t n_manifests,
                   const struct manifest_port *all[MAX_DOMAINS], char *why)
{
	for (size_t m = 0; m < n_manifests; m++)
		for (uint32_t p = 0; p < manifests[m]->n_ports; p++) {
			const struct manifest_port *from = &manifests[m]->ports[p];

			for (uint32_t o = 0; o < ports->n_ports; o++)
				if (strcmp(all[o]->name, from->name) == 0 || ports->n_ports == MAX_DOMAINS) {
					snprintf(why, WHY_BYTES, "%.200s:%u: %s \"%s\"", from->manifest,
					         from->line,
					         ports->n_ports == MAX_DOMAINS ? "too many ports with"
					                                       : "a second port",
					         from->name);
					return -EINVAL;
				}
			all[ports->n_ports++] = from;
		}
	return 0;
}

/* So that clients do not take what a push, a guest or an operator needs. */
static int most_fd(void)
{
	struct rlimit limit;
	rlim_t kept;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > INT_MAX)
		return INT_MAX;
	kept = limit.rlim_cur / 2 < KEPT_DESCRIPTORS ? limit.rlim_cur / 2 : KEPT_DESCRIPTORS;
	return (int)(limit.rlim_cur - kept);
}

static int ports_open(struct ports *ports, const struct manifest_port *const *all, char *why)
{
	struct loop *loop = ports->monitor->loop;
	int error;

	ports->ports = calloc(ports->n_ports, sizeof(*ports->ports));
	if (!ports->ports)
		return -ENOMEM;
	for (uint32_t p = 0; p < ports->n_ports; p++)
		ports->ports[p] = (struct port){.ports = ports, .from = all[p], .fd = -1, .out_fd = -1};
	error = host_create(ports->monitor, all, ports->n_ports, &ports->host, why);
	if (error < 0)
		return error;
	ports->scratch_bytes = machine_bulk_bytes(ports->host->machine);
	ports->scratch = malloc(ports->scratch_bytes);
	if (!ports->scratch)
		return -ENOMEM;
	for (uint32_t p = 0; p < ports->n_ports && error == 0; p++)
		error = port_init(ports, p, why);
	return error < 0 ? error
	                 : loop_add(loop, machine_wake_fd(ports->host->machine), EPOLLIN, on_wake, ports);
}

int ports_create(struct monitor *monitor, struct manifest *const *manifests, size_t n_manifests,
                 char why[static WHY_BYTES])
{
	const struct manifest_port *all[MAX_DOMAINS];
	struct ports *ports = calloc(1, sizeof(*ports));
	int error;

	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (!ports)
		return -ENOMEM;
	ports->monitor = monitor;
	ports->most_fd = most_fd();
	ports->turn = (struct loop_timer){.fn = on_turn, .opaque = ports};
	error = collect(ports, manifests, n_manifests, all, why);
	if (error < 0 || !ports->n_ports) {
		free(ports);
		return error;
	}
	monitor->ports = ports; /* also when it fails: monitor_destroy takes all down in its order */
	return ports_open(ports, all, why);
}

/* A port that begins itself: standard input, a file. */
static void begin(struct port *port)
{
	struct connection *connection = connection_take(port);
	int reads = port->from->reads ? fcntl(port->fd, F_DUPFD_CLOEXEC, 3) : -1;
	int writes = port->from->writes ? fcntl(port->out_fd, F_DUPFD_CLOEXEC, 3) : -1;

	CHECK(connection);
	if (connection_attach(connection, reads, writes) < 0)
		port_tell(port, "its descriptors cannot be used");
	else
		connection_begin(connection);
}

void ports_start(struct monitor *monitor)
{
	struct ports *ports = monitor->ports;

	if (!ports)
		return;
	ports->started = true;
	for (uint32_t p = 0; p < ports->n_ports; p++) {
		struct port *port = &ports->ports[p];

		port_listen(port);
		if (port->from->kind != PORT_LISTEN && port->from->to[0])
			begin(port);
	}
}

/* ---- ends ---- */

/* A message of a domain is under way: in the monitor, in a worker, or in a ring that nobody fills any more.
 */
static bool is_busy(struct connection *connection)
{
	if (connection->state != CONNECTION_OPEN || !connection->writes)
		return false;
	return connection->n_pending || !port_io_is_flushed(connection->writes) ||
	       (!connection->drain_over && ring_can_receive(&connection->ring));
}

bool ports_are_busy(struct monitor *monitor)
{
	struct ports *ports = monitor->ports;

	for (uint32_t p = 0; ports && p < ports->n_ports; p++) {
		if (port_has_waiting(&ports->ports[p])) /* with what it had sent when it left */
			return true;
		for (uint32_t c = 0; c < ports->ports[p].from->connections; c++)
			if (is_busy(&ports->ports[p].connections[c]))
				return true;
	}
	return false;
}

void ports_inspect(struct monitor *monitor, const struct channel *channel, enum channel_side side,
                   struct flow_loss *loss)
{
	const struct endpoint *to = &channel->end[1 - side];
	struct ports *ports = monitor->ports;
	const struct connection *connection;

	if (!ports || to->domain->guest != ports->host)
		return;
	connection = ports->ports[to->domain->index].by_slot[to->slot - to->domain->first_slot];
	if (!connection || connection->generation != to->generation || connection->state != CONNECTION_OPEN)
		return;
	loss->bytes += connection->n_pending - connection->pending_at;
	loss->messages += connection->n_pending > 0;
	loss->to_host = true;
	loss->handed_over = connection->writes ? port_io_unread(connection->writes) : -1;
}

void ports_follow(struct monitor *monitor)
{
	struct ports *ports = monitor->ports;

	for (uint32_t p = 0; ports && p < ports->n_ports; p++) {
		struct port *port = &ports->ports[p];

		for (uint32_t c = 0; c < port->from->connections; c++) {
			struct connection *connection = &port->connections[c];

			if (!connection_has_work(connection))
				continue;
			if (connection->state == CONNECTION_OPENING)
				connection_open(connection);
			connection_look(connection);
			if (connection->state == CONNECTION_OPEN)
				connection_queue(connection);
		}
	}
}

static void port_stop(struct port *port)
{
	port_unlisten(port);
	loop_disarm(port->ports->monitor->loop, &port->retry);
	for (uint32_t c = 0; port->connections && c < port->from->connections; c++) {
		struct connection *connection = &port->connections[c];

		if (connection->state == CONNECTION_OPENING || connection->state == CONNECTION_OPEN)
			connection_end(connection, END_CLOSED);
		else if (connection->state != CONNECTION_FREE)
			connection_drop(connection);
	}
	port->waiting_first = port->waiting_last = port->asking = NULL;
	port_close(port);
}

void ports_stop(struct monitor *monitor)
{
	struct ports *ports = monitor->ports;

	if (!ports)
		return;
	loop_disarm(monitor->loop, &ports->turn);
	if (ports->host)
		loop_remove(monitor->loop, machine_wake_fd(ports->host->machine));
	for (uint32_t p = 0; ports->ports && p < ports->n_ports; p++)
		port_stop(&ports->ports[p]);
}

void ports_destroy(struct monitor *monitor)
{
	struct ports *ports = monitor->ports;

	if (!ports)
		return;
	for (uint32_t p = 0; ports->ports && p < ports->n_ports; p++) {
		free(ports->ports[p].connections);
		free(ports->ports[p].by_slot);
		free(ports->ports[p].identities);
	}
	free(ports->ports);
	free(ports->scratch);
	free(ports);
	monitor->ports = NULL;
}
