/*
 * The host's side of a connection: one descriptor, of which the loop is never held up.
 *
 * Sockets are asked with MSG_DONTWAIT, other descriptors that epoll can watch are O_NONBLOCK. What it cannot
 * watch (regular files), or what would block whatever we ask (a terminal or pipe that could not be opened
 * anew, whose flags belong to others too), gets a worker: a thread that does one read or one write at a time.
 * Closing drops what the worker has not begun; a write that it has begun is the host's, like bytes in a
 * socket. Loop thread.
 */
#ifndef PORTCULLIS_MONITOR_PORT_IO_H
#define PORTCULLIS_MONITOR_PORT_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "monitor/loop.h"

struct port_worker;

/* A message between descriptor and ring is not longer. */
#define PORT_CHUNK_BYTES (1u << 20)

struct port_io {
	struct loop *loop;
	loop_ready_fn *ready;
	void *opaque;
	int fd;
	bool is_socket, is_seqpacket, is_pipe;
	uint64_t written; /* bytes */
	uint32_t watched; /* epoll events */
	struct port_worker *worker;
};

/*
 * Takes the descriptor, also when it fails. from: where a reader of a regular file begins, -1: where the
 * descriptor stands. ready is called when what was wanted is possible. -ENOMEM, -errno of a thread's start.
 */
int port_io_open(struct port_io *io, struct loop *loop, int fd, bool reads, int64_t from,
                 loop_ready_fn *ready, void *opaque);

/* Drops what no system call has begun to write. Idempotent. */
void port_io_close(struct port_io *io);

/* Bytes; 0: the end; -EAGAIN: want EPOLLIN; -errno. A packet that is longer than bytes is lost: look first.
 */
ssize_t port_io_read(struct port_io *io, void *buffer, size_t bytes);

/* Length of the next packet of a seqpacket socket; 0: the end, or an empty packet; as above. */
ssize_t port_io_look(struct port_io *io);

/* Bytes that were taken; -EAGAIN: want EPOLLOUT; -EPIPE, -errno. A packet is taken whole. */
ssize_t port_io_write(struct port_io *io, const void *bytes, size_t n);

/* Whether all that was taken is the host's now. */
bool port_io_is_flushed(struct port_io *io);

/* Once it is: what became of the last bytes that were taken: 0, -errno. */
int port_io_error(struct port_io *io);

/* Exactly these of EPOLLIN, EPOLLOUT and EPOLLHUP are waited for; a hang-up comes with each of them; 0:
 * nothing, not even that. -errno of epoll_ctl. */
int port_io_want(struct port_io *io, uint32_t events);

/* Ends one direction of a socket (SHUT_RD, SHUT_WR); elsewhere nothing. */
void port_io_shut(struct port_io *io, int how);

/*
 * What the host has been handed and the reader has not taken: exact for a pipe, 0 or an upper bound for a
 * socket (the kernel counts its own book-keeping; never more than was written); -1: nobody can know.
 */
int64_t port_io_unread(const struct port_io *io);

#endif
