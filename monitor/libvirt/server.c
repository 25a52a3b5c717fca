/*
 * The two libvirt sockets: who comes in.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/audit.h"
#include "monitor/libvirt/server.h"
#include "monitor/peer.h"
#include "monitor/workers.h"

#define ACCEPTS_PER_ROUND 16
#define ACCEPT_PAUSE_NS 100000000ull /* after descriptors ran out */
#define NOTICE_NS 1000000000ull      /* between two notices about strangers */

/* The protocol has no word for a stranger before its first call: the trail says why. */
static void refuse(struct libvirt *server, int fd, uid_t uid, const char *why)
{
	uint64_t now = loop_now();

	close(fd);
	if (now - server->last_notice_ns < NOTICE_NS)
		return;
	server->last_notice_ns = now;
	audit_notice(server->monitor->audit, "PORTCULLIS_CONTROL", "libvirt socket: refused uid=%u: %s",
	             (unsigned)uid, why);
}

static bool has_place(const struct libvirt *server, uid_t uid, policy_sid sid)
{
	uint32_t n_same = 0, n_others = 0;

	for (const struct rpc_client *client = server->first; client; client = client->next) {
		n_same += client->uid == uid;
		n_others += client->sid != SID_NONE;
	}
	if (sid == SID_NONE)
		return server->n_clients < MAX_RPC_CLIENTS;
	return n_same < MAX_RPC_CLIENTS_PER_UID && n_others < MAX_RPC_CLIENTS - RPC_KEPT_FOR_OPERATORS &&
	       server->n_clients < MAX_RPC_CLIENTS;
}

/* Who has connected and not said a word has to give way: the oldest of them, of that uid if it has too many.
 */
static bool make_place(struct libvirt *server, uid_t uid, policy_sid sid)
{
	struct rpc_client *oldest = NULL;

	for (struct rpc_client *client = server->first; client; client = client->next)
		if (!client->opened && client->fd >= 0 && (sid == SID_NONE || client->uid == uid))
			oldest = client;
	if (!oldest)
		return false;
	client_doom(oldest);
	server_sweep(server);
	return has_place(server, uid, sid);
}

static void admit(struct rpc_door *door, int fd)
{
	struct libvirt *server = door->server;
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	char why[WHY_BYTES];
	policy_sid sid;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes)) {
		close(fd);
	} else if (!peers_identify(server->peers, peer.uid, &sid)) {
		peers_refuse(peer.uid, why);
		refuse(server, fd, peer.uid, why);
	} else if (!has_place(server, peer.uid, sid) && !make_place(server, peer.uid, sid)) {
		refuse(server, fd, peer.uid, "too many clients");
	} else {
		client_admit(door, fd, peer.uid, sid);
	}
}

static void on_connect(void *opaque, uint32_t events)
{
	struct rpc_door *door = opaque;
	struct libvirt *server = door->server;

	(void)events;
	for (int i = 0; i < ACCEPTS_PER_ROUND; i++) {
		int fd = accept4(door->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			admit(door, fd);
			continue;
		}
		/* Out of descriptors: the socket stays readable, and the loop must not turn on it. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			loop_modify(server->monitor->loop, door->socket.fd, 0);
			loop_arm(server->monitor->loop, &server->accept_again, loop_now() + ACCEPT_PAUSE_NS);
		}
		return;
	}
}

static void on_accept_again(void *opaque)
{
	struct libvirt *server = opaque;

	for (int i = 0; i < 2; i++)
		loop_modify(server->monitor->loop, server->doors[i].socket.fd, EPOLLIN);
}

/* ---- life ---- */

/* On a system without libvirt's daemons nobody has made it, and /run is empty after each start. */
static int make_system_folder(const char *path, char why[static WHY_BYTES])
{
	if (strcmp(path, LIBVIRT_SYSTEM_SOCKET) != 0 || mkdir("/run/libvirt", 0755) == 0 || errno == EEXIST)
		return 0;
	snprintf(why, WHY_BYTES, "/run/libvirt: %s", strerror(errno));
	return -errno;
}

static int open_door(struct libvirt *server, int i, const char *path, char why[static WHY_BYTES])
{
	struct rpc_door *door = &server->doors[i];
	mode_t mode = peers_any(server->peers) ? 0666 : 0600;
	char name[108];
	int error = 0;

	door->server = server;
	door->read_only = i == 1;
	if (snprintf(name, sizeof(name), "%s%s", path, i ? "-ro" : "") >= (int)sizeof(name)) {
		snprintf(why, WHY_BYTES, "%s: too long for a socket's path", path);
		return -ENAMETOOLONG;
	}
	error = control_socket_open(name, SOCK_STREAM, mode, &door->socket, why);
	if (error == 0) {
		error = loop_add(server->monitor->loop, door->socket.fd, EPOLLIN, on_connect, door);
		if (error < 0)
			snprintf(why, WHY_BYTES, "%s: %s", name, strerror(-error));
	}
	return error;
}

static int open_images(struct libvirt *server, const char *path, char why[static WHY_BYTES])
{
	if (!path)
		return 0;
	server->images_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (server->images_fd >= 0)
		return 0;
	snprintf(why, WHY_BYTES, "--images %s: %s", path, strerror(errno));
	return -errno;
}

static int open_all(struct libvirt *server, const struct libvirt_options *options, char why[static WHY_BYTES])
{
	int error = peers_create(server->monitor, &server->peers, why);

	if (error == 0)
		error = open_images(server, options->images, why);
	if (error == 0)
		error = make_system_folder(options->path, why);
	for (int i = 0; error == 0 && i < 2; i++)
		error = open_door(server, i, options->path, why);
	if (error == 0) {
		error = consoles_open(server);
		if (error < 0)
			snprintf(why, WHY_BYTES, "consoles: %s", strerror(-error));
	}
	return error;
}

static void server_free(struct libvirt *server)
{
	struct loop *loop = server->monitor->loop;

	for (struct rpc_client *client = server->first; client; client = client->next)
		client_doom(client);
	server_sweep(server);
	define_close(server);
	consoles_close(server);
	loop_disarm(loop, &server->sweep);
	loop_disarm(loop, &server->accept_again);
	for (int i = 0; i < 2; i++) {
		if (server->doors[i].socket.fd >= 0)
			loop_remove(loop, server->doors[i].socket.fd);
		control_socket_close(&server->doors[i].socket);
	}
	if (server->images_fd >= 0)
		close(server->images_fd);
	peers_destroy(server->peers);
	notes_destroy(server->notes);
	free(server);
}

int libvirt_open(struct monitor *monitor, const struct libvirt_options *options, char why[static WHY_BYTES])
{
	struct libvirt *server = calloc(1, sizeof(*server));
	int error = -ENOMEM;

	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (!server)
		return error;
	server->monitor = monitor;
	server->images_fd = -1;
	server->tap = options->tap;
	for (int i = 0; i < 2; i++)
		server->doors[i].socket = (struct control_socket){.fd = -1, .lock_fd = -1};
	server->sweep = (struct loop_timer){.fn = server_sweep, .opaque = server};
	server->accept_again = (struct loop_timer){.fn = on_accept_again, .opaque = server};
	server->notes = notes_create();
	server->workers = workers_create(monitor->loop);
	if (server->notes && server->workers)
		error = open_all(server, options, why);
	if (error < 0) {
		server_free(server);
		return error;
	}
	server->listener = (struct lifecycle_listener){.heard = events_heard, .opaque = server};
	lifecycle_listen(monitor, &server->listener);
	monitor->libvirt = server;
	return 0;
}

int libvirt_images(const struct monitor *monitor)
{
	return monitor->libvirt->images_fd;
}

void libvirt_close(struct monitor *monitor)
{
	struct libvirt *server = monitor->libvirt;

	if (!server)
		return;
	monitor->libvirt = NULL;
	lifecycle_unlisten(monitor, &server->listener);
	server_free(server);
}
