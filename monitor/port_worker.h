/*
 * A thread for a descriptor that blocks: one read or one write at a time (port_io.h).
 *
 *	loop                                  worker
 *	writes: buffer := bytes, GIVEN
 *	                                      BUSY, write(2) without the lock
 *	                                      DONE, event
 *	closes: quit; what is GIVEN and not done is dropped
 *	                                      (in write(2): returns, sees quit, frees)
 *
 * The lock is never held across a system call that can block. A worker that is stuck in one outlives its
 * connection and keeps its own memory; it ends with the call, or with the process.
 */
#ifndef PORTCULLIS_MONITOR_PORT_WORKER_H
#define PORTCULLIS_MONITOR_PORT_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct port_worker;

/* Takes fd if it succeeds. from: offset where reading begins; -1: read(2). -ENOMEM, -errno. */
int port_worker_start(int fd, bool reads, int64_t from, struct port_worker **worker);

/* Never waits. */
void port_worker_leave(struct port_worker *worker);

/* Becomes readable when a read or a write is done; the worker's own. */
int port_worker_event(const struct port_worker *worker);

/* As port_io_read and port_io_write. */
ssize_t port_worker_read(struct port_worker *worker, void *buffer, size_t bytes);
ssize_t port_worker_write(struct port_worker *worker, const void *bytes, size_t n);
bool port_worker_is_idle(struct port_worker *worker);
/* Of the last write, once it is idle: -errno or 0. */
int port_worker_error(struct port_worker *worker);

#endif
