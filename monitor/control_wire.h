/*
 * Datagrams of the control socket: a request in, a reply out. Neither blocks.
 *
 * What comes in is a stranger's: length, descriptors and JSON are checked
 * here, what the members mean is checked by each verb. No state.
 */
#ifndef PORTCULLIS_MONITOR_CONTROL_WIRE_H
#define PORTCULLIS_MONITOR_CONTROL_WIRE_H

#include <jansson.h>
#include <stddef.h>

#include "guest/abi/limits.h"

struct control_message {
	json_t *json; /* an object */
	int fds[MAX_CONTROL_FILES];
	size_t bytes[MAX_CONTROL_FILES]; /* of the sealed memfd */
	size_t n_fds;
};

/*
 * 1: a message, which is the caller's; 0: the peer has gone; -EAGAIN: nothing
 * there; -EBADMSG: why says what is wrong with it, and nothing is left of it; -errno.
 */
int control_receive(int fd, struct control_message *message, char why[static WHY_BYTES]);
void control_message_clear(struct control_message *message);

/* A reply. body_fd -1: none; not consumed. 0; -EAGAIN: the peer does not read; -errno. */
int control_send(int fd, int status, const char *error, int body_fd, size_t body_bytes);

/* The JSON text in a sealed memfd; -errno. */
int control_seal_json(const json_t *json, size_t *bytes);

#endif
