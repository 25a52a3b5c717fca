#include "monitor/port_io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/port_worker.h"

static int socket_type(int fd)
{
	int type = 0;
	socklen_t bytes = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) ? -1 : type;
}

/* Whether epoll can say when it is ready, and asking never blocks. */
static bool can_be_watched(int fd, const struct stat *status)
{
	int flags = fcntl(fd, F_GETFL);

	return S_ISSOCK(status->st_mode) ||
	       ((S_ISFIFO(status->st_mode) || isatty(fd)) && flags >= 0 && (flags & O_NONBLOCK));
}

static void on_event(void *opaque, uint32_t events)
{
	struct port_io *io = opaque;
	uint64_t count;
	ssize_t n = read(port_worker_event(io->worker), &count, sizeof(count));

	(void)n;
	io->ready(io->opaque, events);
}

static int add_worker(struct port_io *io, bool reads, int64_t from)
{
	int error = port_worker_start(io->fd, reads, from, &io->worker);

	if (error < 0)
		return error;
	io->fd = -1; /* the worker's */
	error = loop_add(io->loop, port_worker_event(io->worker), EPOLLIN, on_event, io);
	if (error < 0) {
		port_worker_leave(io->worker);
		io->worker = NULL;
	}
	return error;
}

int port_io_open(struct port_io *io, struct loop *loop, int fd, bool reads, int64_t from,
                 loop_ready_fn *ready, void *opaque)
{
	struct stat status;
	int error = 0;

	*io = (struct port_io){.loop = loop, .ready = ready, .opaque = opaque, .fd = fd};
	if (fstat(fd, &status))
		error = -errno;
	io->is_socket = error == 0 && S_ISSOCK(status.st_mode);
	io->is_pipe = error == 0 && S_ISFIFO(status.st_mode);
	io->is_seqpacket = io->is_socket && socket_type(fd) == SOCK_SEQPACKET;
	if (error == 0 && !can_be_watched(fd, &status))
		error = add_worker(io, reads, from);
	if (error < 0)
		port_io_close(io);
	return error;
}

void port_io_close(struct port_io *io)
{
	if (io->watched)
		loop_remove(io->loop, io->fd);
	if (io->fd >= 0)
		close(io->fd);
	if (io->worker) {
		loop_remove(io->loop, port_worker_event(io->worker));
		port_worker_leave(io->worker);
	}
	io->fd = -1;
	io->watched = 0;
	io->worker = NULL;
}

ssize_t port_io_read(struct port_io *io, void *buffer, size_t bytes)
{
	ssize_t n;

	if (io->worker)
		return port_worker_read(io->worker, buffer, bytes);
	do
		n = io->is_socket ? recv(io->fd, buffer, bytes, MSG_DONTWAIT) : read(io->fd, buffer, bytes);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t port_io_look(struct port_io *io)
{
	ssize_t n = recv(io->fd, NULL, 0, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);

	return n < 0 ? -errno : n;
}

ssize_t port_io_write(struct port_io *io, const void *bytes, size_t n_bytes)
{
	ssize_t n;

	if (io->worker)
		return port_worker_write(io->worker, bytes, n_bytes);
	do
		n = io->is_socket ? send(io->fd, bytes, n_bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
		                  : write(io->fd, bytes, n_bytes);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	io->written += (uint64_t)n;
	return n;
}

bool port_io_is_flushed(struct port_io *io)
{
	return !io->worker || port_worker_is_idle(io->worker);
}

int port_io_error(struct port_io *io)
{
	return io->worker ? port_worker_error(io->worker) : 0;
}

int port_io_want(struct port_io *io, uint32_t events)
{
	int error = 0;

	if (io->worker || io->fd < 0 || events == io->watched)
		return 0;
	if (!events)
		loop_remove(io->loop, io->fd);
	else if (io->watched)
		error = loop_modify(io->loop, io->fd, events);
	else
		error = loop_add(io->loop, io->fd, events, io->ready, io->opaque);
	if (error == 0)
		io->watched = events;
	return error;
}

void port_io_shut(struct port_io *io, int how)
{
	if (io->is_socket && io->fd >= 0)
		shutdown(io->fd, how);
}

int64_t port_io_unread(const struct port_io *io)
{
	int n = 0;

	if (io->worker || io->fd < 0 || (!io->is_socket && !io->is_pipe))
		return -1;
	if (ioctl(io->fd, io->is_socket ? SIOCOUTQ : FIONREAD, &n) < 0 || n < 0)
		return -1;
	return (uint64_t)n < io->written ? n : (int64_t)io->written;
}
