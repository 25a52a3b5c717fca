/*
 * What ports name on the host, opened before the process is confined.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "monitor/port_internal.h"

static int fail(const struct port *port, int error, const char *path, const char *what, char *why)
{
	snprintf(why, WHY_BYTES, "%.120s:%u: port \"%s\": %.120s%s%.200s", port->from->manifest,
	         port->from->line, port->from->name, path ? path : "", path ? ": " : "",
	         what ? what : strerror(-error));
	return error;
}

/*
 * A pipe or a terminal is opened anew, so that O_NONBLOCK is not set for everybody who shares the
 * descriptor. Where that is not allowed it gets a worker (port_io.h).
 */
static int open_standard(int standard, int mode)
{
	struct stat status;
	char path[32];
	int fd = -1, flags = fcntl(standard, F_GETFL);

	if (flags < 0 || fstat(standard, &status))
		return -1;
	if ((flags & O_ACCMODE) != mode && (flags & O_ACCMODE) != O_RDWR) {
		errno = EBADF; /* closed by whoever started us (main.c), or meant for the other direction */
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", standard);
	if (S_ISFIFO(status.st_mode) || isatty(standard))
		fd = open(path, mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 ? fd : fcntl(standard, F_DUPFD_CLOEXEC, 3);
}

static int fail_standard(const struct port *port, const char *which, const char *does, char *why)
{
	int error = -errno;
	char what[64];

	snprintf(what, sizeof(what), "is closed, or open the other way, and this port %s it", does);
	return fail(port, error, which, error == -EBADF ? what : NULL, why);
}

static int open_stdio(struct port *port, char *why)
{
	if (port->from->reads)
		port->fd = open_standard(STDIN_FILENO, O_RDONLY);
	if (port->from->reads && port->fd < 0)
		return fail_standard(port, "standard input", "reads", why);
	if (port->from->writes)
		port->out_fd = open_standard(STDOUT_FILENO, O_WRONLY);
	if (port->from->writes && port->out_fd < 0)
		return fail_standard(port, "standard output", "writes", why);
	return 0;
}

static int open_file(struct port *port, char *why)
{
	const char *path = port->from->path;
	int mode = port->from->reads ? O_RDONLY : O_WRONLY | O_APPEND | O_CREAT;
	int fd = open(path, mode | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	struct stat status;

	if (fd < 0)
		return fail(port, -errno, path, NULL, why);
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		return fail(port, -EINVAL, path, "is no regular file; a port of kind file needs one", why);
	}
	*(port->from->reads ? &port->fd : &port->out_fd) = fd;
	return 0;
}

/* The folder stays open, not the socket: whoever serves there may start anew. */
static int open_folder(struct port *port, char *why)
{
	char *copy = strdup(port->from->path), *other = strdup(port->from->path);
	int error = 0;

	port->base = copy ? strdup(basename(copy)) : NULL;
	if (!other || !port->base) {
		error = fail(port, -ENOMEM, NULL, NULL, why);
	} else {
		port->fd = open(dirname(other), O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (port->fd < 0)
			error = fail(port, -errno, other, NULL, why);
	}
	free(copy);
	free(other);
	return error;
}

int port_dial(struct port *port)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int type = port->from->seqpacket ? SOCK_SEQPACKET : SOCK_STREAM;
	int fd, n = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", port->fd,
	                     port->base);

	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (fd >= port->ports->most_fd) {
		close(fd);
		return -EMFILE;
	}
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
		int error = -errno;

		close(fd);
		return error;
	}
	return fd;
}

static int open_listener(struct port *port, char *why)
{
	char reason[WHY_BYTES];
	int error =
		control_socket_open(port->from->path, port->from->seqpacket ? SOCK_SEQPACKET : SOCK_STREAM,
	                            port->from->mode, &port->socket, reason);

	if (error < 0)
		return fail(port, error, NULL, reason, why);
	port->fd = port->socket.fd;
	return 0;
}

int port_open(struct port *port, char why[static WHY_BYTES])
{
	switch (port->from->kind) {
	case PORT_LISTEN:
		return open_listener(port, why);
	case PORT_CONNECT:
		return open_folder(port, why);
	case PORT_STDIO:
		return open_stdio(port, why);
	case PORT_FILE:
		return open_file(port, why);
	}
	return -EINVAL;
}

void port_close(struct port *port)
{
	if (port->from->kind == PORT_LISTEN)
		control_socket_close(&port->socket);
	else if (port->fd >= 0)
		close(port->fd);
	if (port->out_fd >= 0)
		close(port->out_fd);
	free(port->base);
	port->base = NULL;
	port->fd = port->out_fd = -1;
}
