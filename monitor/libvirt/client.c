/*
 * A client of the libvirt sockets: bytes in, bytes out, and how much of either it may have.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/libvirt/server.h"
#include "monitor/posture.h"
#include "vmm/check.h"

#define PATIENCE_NS 10000000000ull /* from connect to OPEN */
#define FRAMES_PER_ROUND 8
#define KEPT_ROOM_BYTES (16u << 10) /* an empty queue keeps no more memory */

policy_sid client_subject(const struct rpc_client *client)
{
	return client->sid != SID_NONE ? client->sid : client->server->monitor->posture->operator_sid;
}

size_t client_backlog(const struct rpc_client *client)
{
	return client->out.n - client->n_sent;
}

/* ---- the end ---- */

void client_doom(struct rpc_client *client)
{
	struct libvirt *server = client->server;
	struct loop *loop = server->monitor->loop;

	if (client->fd < 0)
		return;
	loop_remove(loop, client->fd);
	loop_disarm(loop, &client->patience);
	close(client->fd);
	client->fd = -1;
	loop_arm(loop, &server->sweep, loop_now());
}

static void client_free(struct rpc_client *client)
{
	while (client->calls) {
		struct rpc_call *call = client->calls;

		client->calls = call->next;
		call_abandon(call);
	}
	events_forget(client);
	consoles_forget(client);
	client->server->held_bytes -= client->held_bytes;
	client->server->n_clients--;
	free(client->frame);
	free(client->out.bytes);
	free(client);
}

void server_sweep(void *opaque)
{
	struct libvirt *server = opaque;
	struct rpc_client **link = &server->first;

	while (*link) {
		struct rpc_client *client = *link;

		if (client->fd >= 0) {
			link = &client->next;
			continue;
		}
		*link = client->next;
		client_free(client);
	}
}

/* ---- out ---- */

/* What all clients hold together is bounded too: who asks for more when there is no more goes. */
static void account(struct rpc_client *client)
{
	struct libvirt *server = client->server;
	size_t held = client->out.room + client->call_bytes + (client->frame ? client->header.length : 0);

	server->held_bytes = server->held_bytes - client->held_bytes + held;
	client->held_bytes = held;
	if (server->held_bytes > MAX_RPC_HELD_BYTES)
		client_doom(client);
}

static void drop_sent(struct rpc_client *client)
{
	struct xdr_writer *out = &client->out;

	if (client->n_sent == out->n) {
		out->n = 0;
		client->n_sent = 0;
		if (out->room > KEPT_ROOM_BYTES) {
			free(out->bytes);
			out->bytes = NULL;
			out->room = 0;
		}
	} else if (client->n_sent > out->n / 2) {
		memmove(out->bytes, out->bytes + client->n_sent, out->n - client->n_sent);
		out->n -= client->n_sent;
		client->n_sent = 0;
	}
}

/* False: it has gone. */
static bool flush(struct rpc_client *client)
{
	while (client_backlog(client)) {
		ssize_t n = send(client->fd, client->out.bytes + client->n_sent, client_backlog(client),
		                 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0)
			client->n_sent += (size_t)n;
	}
	drop_sent(client);
	return true;
}

void client_update(struct rpc_client *client)
{
	uint32_t events = 0;

	if (client->fd < 0)
		return;
	if (client->out.bad || !flush(client) || (client->closing && !client_backlog(client))) {
		client_doom(client);
		return;
	}
	if (client_backlog(client))
		events |= EPOLLOUT;
	if (!client->closing && client->n_calls < MAX_RPC_CALLS &&
	    client_backlog(client) < RPC_PAUSE_QUEUE_BYTES)
		events |= EPOLLIN;
	account(client);
	if (client->fd >= 0 && loop_modify(client->server->monitor->loop, client->fd, events) < 0)
		client_doom(client);
}

/* ---- in ---- */

static void answer_ping(struct rpc_client *client, const struct rpc_header *header)
{
	struct rpc_header pong = *header;
	size_t at;

	if (header->procedure != KEEPALIVE_PING)
		return;
	pong.procedure = KEEPALIVE_PONG;
	at = frame_begin(&client->out, &pong);
	frame_end(&client->out, at);
	client_update(client);
}

static void frame_complete(struct rpc_client *client)
{
	struct rpc_header header = client->header;
	uint8_t *payload = client->frame;

	client->frame = NULL;
	client->n_read = 0;
	if (header.program == RPC_PROGRAM_REMOTE && header.type == RPC_CALL) {
		call_received(client, &header, payload, header.length - RPC_HEADER_BYTES);
		return;
	}
	free(payload);
	if (header.program == RPC_PROGRAM_KEEPALIVE && header.type == RPC_MESSAGE)
		answer_ping(client, &header);
	else if (header.program == RPC_PROGRAM_REMOTE && header.type == RPC_STREAM && client->opened)
		console_packet(client, &header);
	else
		client_doom(client); /* not a client of this protocol */
}

static bool begin_payload(struct rpc_client *client)
{
	size_t most = client->opened ? RPC_MAX_FRAME_BYTES : RPC_MAX_EARLY_FRAME_BYTES;

	if (!frame_read_header(client->head, most, &client->header))
		return false;
	if (client->header.length > RPC_HEADER_BYTES) {
		client->frame = malloc(client->header.length - RPC_HEADER_BYTES);
		if (!client->frame)
			return false;
	}
	account(client);
	return client->fd >= 0;
}

/* Where the next bytes go, and how many may: never beyond this frame. */
static size_t next_room(struct rpc_client *client, uint8_t **at)
{
	if (client->n_read < RPC_HEADER_BYTES) {
		*at = client->head + client->n_read;
		return RPC_HEADER_BYTES - client->n_read;
	}
	*at = client->frame + (client->n_read - RPC_HEADER_BYTES);
	return client->header.length - client->n_read;
}

/* One read. False: nothing there, or the client has gone. */
static bool read_some(struct rpc_client *client)
{
	uint8_t *at;
	size_t room = next_room(client, &at);
	ssize_t n = recv(client->fd, at, room, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return false;
	if (n <= 0) {
		client_doom(client);
		return false;
	}
	client->n_read += (size_t)n;
	if (client->n_read == RPC_HEADER_BYTES && !begin_payload(client)) {
		client_doom(client);
		return false;
	}
	return true;
}

static void on_client(void *opaque, uint32_t events)
{
	struct rpc_client *client = opaque;

	if (!(events & (EPOLLIN | EPOLLOUT))) {
		client_doom(client); /* hung up: nothing else is listened to while it is not read */
		return;
	}
	for (int n_frames = 0; events & EPOLLIN && n_frames < FRAMES_PER_ROUND;) {
		if (client->fd < 0 || client->closing || client->n_calls >= MAX_RPC_CALLS ||
		    !read_some(client))
			break;
		if (client->n_read >= RPC_HEADER_BYTES && client->n_read == client->header.length) {
			n_frames++;
			frame_complete(client);
		}
	}
	client_update(client);
	if (events & EPOLLOUT && client->consoles)
		consoles_send(client->server);
}

/* ---- the beginning ---- */

static void on_patience(void *opaque)
{
	client_doom(opaque);
}

void client_admit(struct rpc_door *door, int fd, uid_t uid, policy_sid sid)
{
	struct libvirt *server = door->server;
	struct loop *loop = server->monitor->loop;
	struct rpc_client *client = calloc(1, sizeof(*client));

	if (!client || loop_add(loop, fd, EPOLLIN, on_client, client) < 0) {
		free(client);
		close(fd);
		return;
	}
	client->server = server;
	client->fd = fd;
	client->uid = uid;
	client->sid = sid;
	client->read_only = door->read_only;
	client->out.most = MAX_RPC_QUEUE_BYTES;
	client->patience.fn = on_patience;
	client->patience.opaque = client;
	loop_arm(loop, &client->patience, loop_now() + PATIENCE_NS);
	client->next = server->first;
	server->first = client;
	server->n_clients++;
}
