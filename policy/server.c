#include "policy/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "policy/question.h"

struct server {
	int socket_fd;
	int pidfd;    /* -1: whoever opened it has no process (tests) */
	int status;   /* 0 while alive; then what every later question gets */
	bool loading; /* a load was asked: the first question, and only once */
	bool waiting; /* the first of the queue has a packet under way */
	uint64_t n_packets;
	uint32_t sent_kind;
	struct question *first;
	struct question **last;
	struct packet packet; /* one at a time, in either direction */

	/* A callback may close the server that is calling it: then the outermost call frees it. */
	unsigned depth;
	bool closed;
};

struct server *server_open(int socket_fd, int pidfd)
{
	struct server *server = calloc(1, sizeof(*server));

	if (!server) {
		close(socket_fd);
		if (pidfd >= 0)
			close(pidfd);
		return NULL;
	}
	server->socket_fd = socket_fd;
	server->pidfd = pidfd;
	server->last = &server->first;
	return server;
}

static void enter(struct server *server)
{
	server->depth++;
}

static void leave(struct server *server)
{
	if (--server->depth || !server->closed)
		return;
	close(server->socket_fd);
	if (server->pidfd >= 0)
		close(server->pidfd);
	free(server);
}

static struct question *take_first(struct server *server)
{
	struct question *question = server->first;

	if (!question)
		return NULL;
	server->first = question->next;
	if (!server->first)
		server->last = &server->first;
	server->waiting = false;
	return question;
}

static void finish(struct question *question, int status)
{
	question->kind->report(question, status);
	question->kind->release(question);
}

static void finish_all(struct server *server, int status)
{
	struct question *question;

	while ((question = take_first(server)))
		finish(question, status);
}

/* The end of this server: the process is killed, and all that is pending hears of it. */
static void die(struct server *server, int status)
{
	if (server->status)
		return;
	server->status = status;
	if (server->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, server->pidfd, SIGKILL, NULL, 0);
	finish_all(server, status);
}

/*
 * Sends the next packet of the first question. At most one is under way, so the
 * socket always has room: what fails is memory, or the peer is gone.
 */
static int send_packet(struct server *server)
{
	struct question *question = server->first;
	int error;

	packet_begin(&server->packet, question->kind->first, ++server->n_packets);
	question->kind->encode(question, &server->packet);
	server->sent_kind = server->packet.kind;
	error = packet_send(server->socket_fd, &server->packet, MSG_DONTWAIT);
	if (error)
		return error == -EPIPE || error == -ECONNRESET ? -ECONNRESET : -ENOMEM;
	server->waiting = true;
	return 0;
}

static void take_answer(struct server *server)
{
	struct question *question = server->first;
	struct packet *answer = &server->packet;
	int result = -EPROTO;

	if (server->waiting && answer->id == server->n_packets && answer->kind == server->sent_kind)
		result = question->kind->accept(question, answer);
	if (answer->fd >= 0)
		close(answer->fd); /* whoever wanted it has taken it */
	if (result > 0) {
		server->waiting = false;
		return;
	}
	if (result != -EPROTO)
		finish(take_first(server), result);
	if (result)
		/* A server whose load was refused has nothing to answer from. */
		die(server, result == -EBADMSG ? -ECONNRESET : result);
}

static void dispatch(struct server *server)
{
	while (!server->status) {
		int received = packet_receive(server->socket_fd, &server->packet, MSG_DONTWAIT);
		int error = 0;

		if (received == -EAGAIN)
			break;
		if (received == 1)
			take_answer(server);
		else
			die(server, received == -EPROTO ? -EPROTO : -ECONNRESET);
		if (!server->status && !server->waiting && server->first)
			error = send_packet(server);
		if (error)
			die(server, error);
	}
}

void server_dispatch(struct server *server)
{
	enter(server);
	dispatch(server);
	leave(server);
}

void server_close(struct server *server)
{
	if (!server || server->closed)
		return;
	enter(server);
	server->closed = true;
	die(server, -ECANCELED);
	finish_all(server, -ECANCELED); /* called from a callback of a server that dies */
	leave(server);
}

int server_fd(const struct server *server)
{
	return server->socket_fd;
}

bool server_alive(const struct server *server)
{
	return !server->status;
}

uint64_t server_next_deadline(const struct server *server)
{
	uint64_t nearest = UINT64_MAX;

	for (const struct question *question = server->first; question; question = question->next)
		if (question->deadline_ns < nearest)
			nearest = question->deadline_ns;
	return nearest;
}

static void expire(struct server *server, uint64_t now_ns)
{
	if (server_next_deadline(server) <= now_ns)
		die(server, -ETIMEDOUT);
}

void server_expire(struct server *server, uint64_t now_ns)
{
	enter(server);
	expire(server, now_ns);
	leave(server);
}

static uint64_t read_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* poll's timeout, rounded up so that it does not end just before the deadline. */
static int timeout_ms(uint64_t deadline_ns)
{
	uint64_t now = read_clock_ns();
	uint64_t left_ms = deadline_ns > now ? (deadline_ns - now + 999999) / 1000000 : 0;

	return left_ms < 60000 ? (int)left_ms : 60000;
}

void server_wait(struct server *server)
{
	enter(server);
	while (!server->closed && server->first) {
		struct pollfd poll_fd = {.fd = server->socket_fd, .events = POLLIN};

		if (poll(&poll_fd, 1, timeout_ms(server_next_deadline(server))) > 0)
			dispatch(server);
		expire(server, read_clock_ns());
	}
	leave(server);
}

/* Queues a question, and sends it if it is the only one. No callback runs in here. */
static int ask(struct server *server, struct question *question, uint64_t deadline_ns, void *opaque)
{
	int error;

	question->deadline_ns = deadline_ns;
	question->opaque = opaque;
	question->next = NULL;
	*server->last = question;
	server->last = &question->next;
	if (server->first != question)
		return 0;
	error = send_packet(server);
	if (!error)
		return 0;
	take_first(server);
	question->kind->release(question);
	if (error == -ECONNRESET)
		die(server, error); /* nothing is pending: nobody is called */
	return error;
}

/* Whether it is a question's turn at all: the load first, once. */
static int check_turn(const struct server *server, bool loading)
{
	if (server->status)
		return -ECONNRESET;
	return server->loading == loading ? -EINVAL : 0;
}

int server_load(struct server *server, const struct policy_source *sources, size_t n_sources,
                const struct policy_boolean *booleans, size_t n_booleans, uint64_t deadline_ns,
                server_loaded_fn *done, void *opaque)
{
	struct question *question;
	int error = check_turn(server, true);

	error = error ? error : question_load(sources, n_sources, booleans, n_booleans, done, &question);
	if (error)
		return error;
	server->loading = true;
	return ask(server, question, deadline_ns, opaque);
}

int server_decide(struct server *server, const char *const *contexts, size_t n_contexts,
                  const struct server_question *questions, size_t n_questions, uint64_t deadline_ns,
                  server_decided_fn *done, void *opaque)
{
	struct question *question;
	int error = check_turn(server, false);

	error = error ? error
	              : question_decide(contexts, n_contexts, questions, n_questions, done, &question);
	return error ? error : ask(server, question, deadline_ns, opaque);
}

int server_validate(struct server *server, const char *const *contexts, size_t n_contexts,
                    uint64_t deadline_ns, server_validated_fn *done, void *opaque)
{
	struct question *question;
	int error = check_turn(server, false);

	error = error ? error : question_validate(contexts, n_contexts, done, &question);
	return error ? error : ask(server, question, deadline_ns, opaque);
}

int server_member(struct server *server, const char *source, const char *target, enum policy_class tclass,
                  uint64_t deadline_ns, server_member_fn *done, void *opaque)
{
	struct question *question;
	int error = check_turn(server, false);

	error = error ? error : question_member(source, target, tclass, done, &question);
	return error ? error : ask(server, question, deadline_ns, opaque);
}

int server_explain(struct server *server, const char *source, const char *target, enum policy_class tclass,
                   uint32_t permission, uint64_t deadline_ns, server_explained_fn *done, void *opaque)
{
	struct question *question;
	int error = check_turn(server, false);

	error = error ? error : question_explain(source, target, tclass, permission, done, &question);
	return error ? error : ask(server, question, deadline_ns, opaque);
}

int server_booleans(struct server *server, uint64_t deadline_ns, server_booleans_fn *done, void *opaque)
{
	struct question *question;
	int error = check_turn(server, false);

	error = error ? error : question_booleans(done, &question);
	return error ? error : ask(server, question, deadline_ns, opaque);
}
