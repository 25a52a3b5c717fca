#include "monitor/control_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64

static int fail(int error, char why[static WHY_BYTES], const char *path, const char *what)
{
	snprintf(why, WHY_BYTES, "%s: %s", path, what ? what : strerror(-error));
	return error;
}

/* The lock could not be made. What people asked for is the socket: it is named, and its folder. */
static int fail_place(const struct control_socket *sock, int error, char why[static WHY_BYTES])
{
	const char *slash = strrchr(sock->path, '/'), *folder = slash ? sock->path : ".";
	int length = slash && slash > sock->path ? (int)(slash - sock->path) : 1;
	struct stat status;

	if (lstat(sock->lock_path, &status) == 0)
		return fail(-error, why, sock->lock_path,
		            S_ISREG(status.st_mode)
		                    ? NULL
		                    : "the socket's lock is no regular file; it is left alone");
	if (error == ENOENT)
		snprintf(why, WHY_BYTES, "%s: there is no folder %.*s: make it first", sock->path, length,
		         folder);
	else if (error == ENOTDIR)
		snprintf(why, WHY_BYTES, "%s: %.*s is no folder", sock->path, length, folder);
	else
		snprintf(why, WHY_BYTES, "%s: no file can be made in %.*s: %s", sock->path, length, folder,
		         strerror(error));
	return -error;
}

static bool same_file(int fd, const char *path)
{
	struct stat ours, named;

	return fstat(fd, &ours) == 0 && lstat(path, &named) == 0 && ours.st_dev == named.st_dev &&
	       ours.st_ino == named.st_ino;
}

/*
 * Whoever held the lock removes the file before it lets go, so a lock that we got
 * may be on a file that is gone, while another monitor locks a new one:
 *
 *	open F		(held by a monitor that is ending)
 *			unlink F, unlock
 *	lock F: ours
 *			another monitor makes F', locks it
 *	F is not what the path names: again
 */
static int take_lock(struct control_socket *sock, char why[static WHY_BYTES])
{
	for (int tries = 0; tries < 16; tries++) {
		int fd = open(sock->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
		int error;

		if (fd < 0)
			return fail_place(sock, errno, why);
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			error = errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
			close(fd);
			return fail(error, why, sock->path,
			            error == -EADDRINUSE ? "another monitor serves this socket" : NULL);
		}
		if (same_file(fd, sock->lock_path)) {
			sock->lock_fd = fd;
			return 0;
		}
		close(fd);
	}
	return fail(-EADDRINUSE, why, sock->path, "other monitors come and go on this socket");
}

static struct sockaddr_un address_of(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memcpy(address.sun_path, path, strlen(path) + 1);
	return address;
}

/* Removes what a monitor left behind that did not end in order. */
static int take_over(const char *path, int type, char why[static WHY_BYTES])
{
	struct sockaddr_un address = address_of(path);
	struct stat status;
	bool refused;
	int fd;

	if (lstat(path, &status))
		return errno == ENOENT ? 0 : fail(-errno, why, path, NULL);
	if (!S_ISSOCK(status.st_mode))
		return fail(-EEXIST, why, path, "exists and is no socket; it is left alone");
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail(-errno, why, path, NULL);
	refused = connect(fd, (const struct sockaddr *)&address, sizeof(address)) && errno == ECONNREFUSED;
	close(fd);
	if (!refused)
		return fail(-EADDRINUSE, why, path, "another program serves this socket");
	return unlink(path) ? fail(-errno, why, path, NULL) : 0;
}

static int bind_socket(struct control_socket *sock, int type, mode_t mode, char why[static WHY_BYTES])
{
	struct sockaddr_un address = address_of(sock->path);
	struct stat status;

	sock->fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The mode of the descriptor becomes the file's: there is no moment at which others could connect. */
	if (sock->fd < 0 || fchmod(sock->fd, 0600) ||
	    bind(sock->fd, (const struct sockaddr *)&address, sizeof(address)))
		return fail(-errno, why, sock->path, NULL);
	if (lstat(sock->path, &status) || chmod(sock->path, mode) || listen(sock->fd, BACKLOG))
		return fail(-errno, why, sock->path, NULL);
	sock->device = status.st_dev;
	sock->inode = status.st_ino;
	return 0;
}

int control_socket_open(const char *path, int type, mode_t mode, struct control_socket *sock,
                        char why[static WHY_BYTES])
{
	struct sockaddr_un address;
	int error;

	*sock = (struct control_socket){.fd = -1, .lock_fd = -1};
	if (!*path || strlen(path) >= sizeof(address.sun_path))
		return fail(-ENAMETOOLONG, why, path, "a socket's path has 1 to 107 bytes");
	sock->path = strdup(path);
	if (asprintf(&sock->lock_path, "%s.lock", path) < 0)
		sock->lock_path = NULL;
	if (!sock->path || !sock->lock_path)
		error = fail(-ENOMEM, why, path, NULL);
	else
		error = take_lock(sock, why);
	if (error == 0)
		error = take_over(path, type, why);
	if (error == 0)
		error = bind_socket(sock, type, mode, why);
	if (error < 0)
		control_socket_close(sock);
	return error;
}

void control_socket_close(struct control_socket *sock)
{
	struct stat status;

	if (sock->fd >= 0)
		close(sock->fd);
	if (sock->path && sock->inode && lstat(sock->path, &status) == 0 && status.st_dev == sock->device &&
	    status.st_ino == sock->inode)
		unlink(sock->path);
	if (sock->lock_path && sock->lock_fd >= 0) {
		unlink(sock->lock_path);
		close(sock->lock_fd);
	}
	free(sock->path);
	free(sock->lock_path);
	*sock = (struct control_socket){.fd = -1, .lock_fd = -1};
}
