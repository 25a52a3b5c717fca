#include "monitor/cli_remote.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "monitor/loop.h"

#define PATIENCE_NS 120000000000ull /* the monitor has deadlines of its own, which are shorter */
#define AGAIN_MS 50

bool remote_path(const struct cli_call *call, char path[static SOCKET_PATH_BYTES])
{
	const char *given = cli_value(call, "--socket");
	char why[WHY_BYTES];

	if (given && strlen(given) < SOCKET_PATH_BYTES) {
		memcpy(path, given, strlen(given) + 1);
		return true;
	}
	if (given)
		fprintf(stderr, "portcullis: --socket: a socket's path has at most %u bytes\n",
		        SOCKET_PATH_BYTES - 1);
	else if (client_default_path(false, path, why) == 0)
		return true;
	else
		fprintf(stderr, "portcullis: %s\n", why);
	return false;
}

/* Waits for the reply; on a terminal a line appears after a second and goes away at the end. */
static void wait_with_sign(int fd, uint64_t deadline_ns)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	bool terminal = isatty(STDERR_FILENO), shown = false;
	uint64_t begun = loop_now();

	while (poll(&wait, 1, 1000) == 0 && loop_now() < deadline_ns) {
		if (!terminal)
			continue;
		shown = true;
		fprintf(stderr, "\rwaiting for the monitor, %llu s ",
		        (unsigned long long)((loop_now() - begun) / 1000000000u));
	}
	if (shown)
		fprintf(stderr, "\r\033[K");
}

/* 0 and a reply, or -errno and why. */
static int exchange(const char *path, const json_t *request, const int *fds, size_t n_fds,
                    struct client_reply *reply, char why[static WHY_BYTES])
{
	uint64_t deadline = loop_now() + PATIENCE_NS;
	int fd = client_send(path, request, fds, n_fds, deadline, why);

	if (fd < 0)
		return fd;
	wait_with_sign(fd, deadline);
	return client_receive(fd, deadline, reply, why);
}

/* A policy's errors begin with their place; nothing stands before them. */
static void print_refusal(const struct client_reply *reply)
{
	fprintf(stderr, "%s\n", reply->error[0] ? reply->error : "the monitor refused");
}

int remote_ask(const struct cli_call *call, json_t *request, const int *fds, size_t n_fds, json_t **body)
{
	char path[SOCKET_PATH_BYTES], why[WHY_BYTES];
	struct client_reply reply;
	int error, status;

	if (body)
		*body = NULL;
	if (!remote_path(call, path)) {
		json_decref(request);
		return CLI_FAILED;
	}
	error = exchange(path, request, fds, n_fds, &reply, why);
	json_decref(request);
	if (error < 0) {
		fprintf(stderr, "portcullis: %s\n", why);
		return CLI_FAILED;
	}
	status = reply.status == 0 ? CLI_DONE : CLI_FAILED;
	if (status == CLI_FAILED)
		print_refusal(&reply);
	if (body)
		*body = client_body(&reply);
	if (body && !*body && status == CLI_DONE) {
		fprintf(stderr, "portcullis: the monitor's answer is no JSON\n");
		status = CLI_FAILED;
	}
	client_reply_clear(&reply);
	return status;
}

int remote_ask_bytes(const struct cli_call *call, json_t *request, int *body_fd, size_t *bytes)
{
	char path[SOCKET_PATH_BYTES], why[WHY_BYTES];
	struct client_reply reply;
	int error = -EINVAL;

	if (remote_path(call, path)) {
		error = exchange(path, request, NULL, 0, &reply, why);
		if (error < 0)
			fprintf(stderr, "portcullis: %s\n", why);
	}
	json_decref(request);
	if (error < 0)
		return CLI_FAILED;
	if (reply.status != 0) {
		print_refusal(&reply);
		client_reply_clear(&reply);
		return CLI_FAILED;
	}
	*body_fd = reply.body_fd;
	*bytes = reply.body_bytes;
	reply.body_fd = -1;
	client_reply_clear(&reply);
	return *body_fd >= 0 ? CLI_DONE : CLI_FAILED;
}

static bool is_absent(int error)
{
	return error == -ENOENT || error == -ECONNREFUSED || error == -ECONNRESET;
}

int remote_ask_until(const struct cli_call *call, const json_t *request, uint64_t deadline_ns,
                     bool (*enough)(void *opaque, const json_t *body), void *opaque, const char *what,
                     json_t **body)
{
	char path[SOCKET_PATH_BYTES], why[WHY_BYTES];
	struct client_reply reply;

	*body = NULL;
	if (!remote_path(call, path))
		return CLI_FAILED;
	for (;;) {
		int error = client_call(path, request, NULL, 0, loop_now() + PATIENCE_NS, &reply, why);

		if (error < 0 && !is_absent(error))
			break;
		if (error == 0) {
			json_decref(*body);
			*body = client_body(&reply);
			if (reply.status != 0)
				snprintf(why, sizeof(why), "%s", reply.error);
			error = reply.status;
			client_reply_clear(&reply);
			if (error != 0)
				break;
			if (enough(opaque, *body))
				return CLI_DONE;
			snprintf(why, sizeof(why), "waited in vain: %s", what);
		}
		if (loop_now() >= deadline_ns)
			break;
		poll(NULL, 0, AGAIN_MS);
	}
	fprintf(stderr, "portcullis: %s\n", why);
	return CLI_FAILED;
}
