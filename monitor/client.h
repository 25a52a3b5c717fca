/*
 * The other end of the control socket: one request, one reply.
 *
 * Used by the command line and by tests; knows the protocol and no verb.
 * Any thread; blocks until its deadline at most.
 */
#ifndef PORTCULLIS_MONITOR_CLIENT_H
#define PORTCULLIS_MONITOR_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/abi/limits.h"

#define SOCKET_PATH_BYTES 108u /* sockaddr_un.sun_path */

struct client_reply {
	int status;  /* 0, or 1: error says why */
	char *error; /* "" if there is none; may have several lines */
	int body_fd; /* sealed memfd; -1: none */
	size_t body_bytes;
};

/*
 * Where a monitor's socket is if nothing else is said: $PORTCULLIS_SOCKET;
 * /run/portcullis/control.sock for root; $XDG_RUNTIME_DIR/portcullis/control.sock;
 * /tmp/portcullis-UID/control.sock. With `make` the folder is made, and must
 * then be ours alone. -EPERM (somebody else's folder), -ENAMETOOLONG, -errno.
 */
int client_default_path(bool make, char path[static SOCKET_PATH_BYTES], char why[static WHY_BYTES]);

/*
 * Sends the request with n_fds descriptors (not consumed) and waits for the
 * reply until deadline_ns (CLOCK_MONOTONIC). 0 and *reply, also if the monitor
 * refused (reply->status); -ENOENT, -ECONNREFUSED: no monitor there; -ETIMEDOUT;
 * -E2BIG; -EPROTO: no reply of ours; -ECONNRESET: dropped; -errno.
 */
int client_call(const char *path, const json_t *request, const int *fds, size_t n_fds, uint64_t deadline_ns,
                struct client_reply *reply, char why[static WHY_BYTES]);

/* The two halves of client_call, for callers with something to do meanwhile; a socket, readable when the
 * reply is there. */
int client_send(const char *path, const json_t *request, const int *fds, size_t n_fds, uint64_t deadline_ns,
                char why[static WHY_BYTES]);
int client_receive(int fd, uint64_t deadline_ns, struct client_reply *reply,
                   char why[static WHY_BYTES]); /* closes fd */

/* The body as JSON; NULL if there is none or it is no JSON. The caller's. */
json_t *client_body(const struct client_reply *reply);

/* Frees what a reply holds. */
void client_reply_clear(struct client_reply *reply);

#endif
