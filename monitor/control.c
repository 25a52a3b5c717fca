#include "monitor/control.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/audit.h"
#include "monitor/change.h"
#include "monitor/control_request.h"
#include "monitor/control_socket.h"
#include "monitor/loop.h"
#include "monitor/peer.h"
#include "monitor/posture.h"
#include "monitor/registry.h"
#include "monitor/suggest.h"

#define IDLE_NS 30000000000ull       /* a connected client that asks nothing */
#define ACCEPT_PAUSE_NS 100000000ull /* after descriptors ran out */
#define NOTICE_NS 1000000000ull      /* between two notices about strangers */
#define ACCEPTS_PER_ROUND 16

/* Of MAX_CONTROL_CLIENTS so many are kept for operators, and one other uid gets at most so many. */
#define KEPT_FOR_OPERATORS 16u
#define MAX_CLIENTS_PER_UID 16u

struct control_client {
	struct control *control;
	int fd;
	uid_t uid;
	policy_sid sid; /* by the manifest; SID_NONE: the operator, whose SID may change with the policy */
	struct loop_timer idle;
	struct control_request *request; /* under way; NULL: none. Nothing is read meanwhile */
	struct control_client *next;
};

struct control {
	struct monitor *monitor;
	struct control_socket socket;
	struct peers *peers;
	struct control_client *first;
	uint32_t n_clients;
	struct loop_timer accept_again;
	uint64_t last_notice_ns;
};

/* ---- requests ---- */

static void request_free(struct control_request *request)
{
	control_message_clear(&request->message);
	free(request->scratch);
	free(request);
}

static void drop_client(struct control *control, struct control_client *client)
{
	struct control_request *request = client->request;
	struct control_client **link = &control->first;

	while (*link != client)
		link = &(*link)->next;
	*link = client->next;
	control->n_clients--;
	loop_remove(control->monitor->loop, client->fd);
	loop_disarm(control->monitor->loop, &client->idle);
	close(client->fd);
	if (request && request->changing) {
		change_abandon(control->monitor, request);
		request_free(request);
	} else if (request) {
		request->client = NULL; /* the answer that it waits for frees it */
	}
	free(client);
}

/* The reply is on its way, or the client is dropped: one that does not read costs nothing. */
static void finish(struct control_request *request, int send_error)
{
	struct control_client *client = request->client;

	client->request = NULL;
	request_free(request);
	if (send_error < 0 || loop_modify(client->control->monitor->loop, client->fd, EPOLLIN) < 0) {
		drop_client(client->control, client);
		return;
	}
	loop_arm(client->control->monitor->loop, &client->idle, loop_now() + IDLE_NS);
}

bool request_orphaned(struct control_request *request)
{
	if (request->client)
		return false;
	request_free(request);
	return true;
}

void request_reply(struct control_request *request, int status, const char *error, json_t *body)
{
	size_t bytes = 0;
	int fd = body ? control_seal_json(body, &bytes) : -1;

	json_decref(body);
	if (request_orphaned(request)) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (body && fd < 0)
		finish(request, control_send(request->client->fd, 1, strerror(-fd), -1, 0));
	else
		finish(request, control_send(request->client->fd, status, error, fd, bytes));
	if (fd >= 0)
		close(fd);
}

void request_fail(struct control_request *request, const char *format, ...)
{
	va_list arguments;
	char *text;
	int n;

	va_start(arguments, format);
	n = vasprintf(&text, format, arguments);
	va_end(arguments);
	request_reply(request, 1, n < 0 ? "out of memory" : text, NULL);
	if (n >= 0)
		free(text);
}

void request_reply_json(struct control_request *request, json_t *body)
{
	if (body)
		request_reply(request, 0, "", body);
	else
		request_fail(request, "out of memory");
}

void request_reply_fd(struct control_request *request, int body_fd, size_t body_bytes)
{
	if (!request_orphaned(request))
		finish(request, control_send(request->client->fd, 0, "", body_fd, body_bytes));
}

static void permission_answered(void *opaque, bool allowed, const char *text)
{
	struct control_request *request = opaque;

	if (request_orphaned(request))
		return;
	if (allowed)
		request->verb->run(request);
	else
		request_fail(request, "access denied: %s", text);
}

/* Checks the form of what came, then asks the policy. */
static void request_begin(struct control_request *request)
{
	const char *name = json_string_value(json_object_get(request->message.json, "verb"));
	char suggestion[SUGGESTION_BYTES];

	if (!name) {
		request_fail(request, "the request has no verb: {\"verb\": \"status\"}");
		return;
	}
	request->verb = control_verb_find(name, suggestion);
	if (!request->verb)
		request_fail(request, "there is no verb \"%.64s\"%s", name, suggestion);
	else if (request->message.n_fds > request->verb->most_fds)
		request_fail(request, "%s takes at most %zu descriptors", name, request->verb->most_fds);
	else if (request->verb->permission == 0)
		request->verb->run(request);
	else
		posture_ask(request->monitor, request->subject, posture_self(request->monitor),
		            request->verb->tclass, request->verb->permission, permission_answered, request);
}

static policy_sid client_subject(const struct control_client *client)
{
	return client->sid != SID_NONE ? client->sid : client->control->monitor->posture->operator_sid;
}

static void on_client(void *opaque, uint32_t events)
{
	struct control_client *client = opaque;
	struct loop *loop = client->control->monitor->loop;
	struct control_request *request;
	char why[WHY_BYTES];
	int result;

	if (client->request || !(events & EPOLLIN)) { /* hung up: nothing else is listened to then */
		drop_client(client->control, client);
		return;
	}
	request = calloc(1, sizeof(*request));
	if (!request) {
		drop_client(client->control, client);
		return;
	}
	request->monitor = client->control->monitor;
	request->client = client;
	request->subject = client_subject(client);
	result = control_receive(client->fd, &request->message, why);
	if (result != 1 && result != -EBADMSG) {
		free(request);
		if (result != -EAGAIN)
			drop_client(client->control, client);
		return;
	}
	client->request = request;
	loop_disarm(loop, &client->idle);
	if (loop_modify(loop, client->fd, 0) < 0)
		drop_client(client->control, client);
	else if (result == -EBADMSG)
		request_fail(request, "bad request: %s", why);
	else
		request_begin(request);
}

/* ---- clients ---- */

static void on_idle(void *opaque)
{
	struct control_client *client = opaque;

	control_send(client->fd, 1, "nothing was asked for 30 seconds", -1, 0);
	drop_client(client->control, client);
}

/* Says why, as far as a stranger listens, and to the trail, not more than once a second. */
static void refuse(struct control *control, int fd, uid_t uid, const char *why)
{
	uint64_t now = loop_now();

	control_send(fd, 1, why, -1, 0);
	close(fd);
	if (now - control->last_notice_ns < NOTICE_NS)
		return;
	control->last_notice_ns = now;
	audit_notice(control->monitor->audit, "PORTCULLIS_CONTROL", "refused uid=%u: %s", (unsigned)uid, why);
}

static bool has_place(const struct control *control, uid_t uid, policy_sid sid)
{
	uint32_t n_same = 0, n_others = 0;

	for (const struct control_client *client = control->first; client; client = client->next) {
		n_same += client->uid == uid;
		n_others += client->sid != SID_NONE;
	}
	if (sid == SID_NONE)
		return control->n_clients < MAX_CONTROL_CLIENTS;
	return n_same < MAX_CLIENTS_PER_UID && n_others < MAX_CONTROL_CLIENTS - KEPT_FOR_OPERATORS &&
	       control->n_clients < MAX_CONTROL_CLIENTS;
}

static void add_client(struct control *control, int fd, uid_t uid, policy_sid sid)
{
	struct loop *loop = control->monitor->loop;
	struct control_client *client = calloc(1, sizeof(*client));

	if (!client || loop_add(loop, fd, EPOLLIN, on_client, client) < 0) {
		free(client);
		refuse(control, fd, uid, "out of memory");
		return;
	}
	client->control = control;
	client->fd = fd;
	client->uid = uid;
	client->sid = sid;
	client->idle.fn = on_idle;
	client->idle.opaque = client;
	loop_arm(loop, &client->idle, loop_now() + IDLE_NS);
	client->next = control->first;
	control->first = client;
	control->n_clients++;
}

static void admit(struct control *control, int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	char why[WHY_BYTES];
	policy_sid sid;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes)) {
		close(fd);
	} else if (!peers_identify(control->peers, peer.uid, &sid)) {
		peers_refuse(peer.uid, why);
		refuse(control, fd, peer.uid, why);
	} else if (!has_place(control, peer.uid, sid)) {
		refuse(control, fd, peer.uid, "too many clients; try again");
	} else {
		add_client(control, fd, peer.uid, sid);
	}
}

static void on_connect(void *opaque, uint32_t events)
{
	struct control *control = opaque;
	struct loop *loop = control->monitor->loop;

	(void)events;
	for (int i = 0; i < ACCEPTS_PER_ROUND; i++) {
		int fd = accept4(control->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			admit(control, fd);
			continue;
		}
		/* Out of descriptors: the socket stays readable, and the loop must not turn on it. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			loop_modify(loop, control->socket.fd, 0);
			loop_arm(loop, &control->accept_again, loop_now() + ACCEPT_PAUSE_NS);
		}
		return;
	}
}

static void on_accept_again(void *opaque)
{
	struct control *control = opaque;

	loop_modify(control->monitor->loop, control->socket.fd, EPOLLIN);
}

/* ---- life ---- */

int control_open(struct monitor *monitor, const char *path, char why[static WHY_BYTES])
{
	struct control *control = calloc(1, sizeof(*control));
	int error;

	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (!control)
		return -ENOMEM;
	control->monitor = monitor;
	control->socket = (struct control_socket){.fd = -1, .lock_fd = -1};
	control->accept_again.fn = on_accept_again;
	control->accept_again.opaque = control;
	error = peers_create(monitor, &control->peers, why);
	if (error == 0)
		error = control_socket_open(path, SOCK_SEQPACKET, peers_any(control->peers) ? 0666 : 0600,
		                            &control->socket, why);
	if (error == 0) {
		error = loop_add(monitor->loop, control->socket.fd, EPOLLIN, on_connect, control);
		if (error < 0)
			snprintf(why, WHY_BYTES, "%s: %s", path, strerror(-error));
	}
	if (error < 0) {
		control_socket_close(&control->socket);
		peers_destroy(control->peers);
		free(control);
		return error;
	}
	monitor->control = control;
	return 0;
}

void control_close(struct monitor *monitor)
{
	struct control *control = monitor->control;

	if (!control)
		return;
	monitor->control = NULL;
	while (control->first)
		drop_client(control, control->first);
	loop_disarm(monitor->loop, &control->accept_again);
	loop_remove(monitor->loop, control->socket.fd);
	control_socket_close(&control->socket);
	peers_destroy(control->peers);
	free(control);
}
