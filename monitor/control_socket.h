/*
 * The place of a control or libvirt socket in the file system: one monitor per path.
 *
 * PATH.lock is held for the life of the monitor; who holds it may take over a
 * socket that was left behind. Both are gone after control_socket_close.
 * Loop thread only.
 */
#ifndef PORTCULLIS_MONITOR_CONTROL_SOCKET_H
#define PORTCULLIS_MONITOR_CONTROL_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "guest/abi/limits.h"

struct control_socket {
	char *path, *lock_path;
	int fd; /* listens, does not block */
	int lock_fd;
	dev_t device; /* of the socket that we made */
	ino_t inode;
};

/* Errors as control_open; the line names the socket and, where that is at fault, its folder. type:
 * SOCK_SEQPACKET or SOCK_STREAM. mode: of the socket's file. */
int control_socket_open(const char *path, int type, mode_t mode, struct control_socket *socket,
                        char why[static WHY_BYTES]);
void control_socket_close(struct control_socket *socket);

#endif
