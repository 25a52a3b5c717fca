#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/loop.h"
#include "monitor/manifest.h"

#define PIPE_PATIENCE_NS 10000000000ull /* for one who writes into a pipe */
#define COPY_BYTES (64u << 10)

/* Waits until a pipe has something to read. */
static int wait_readable(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	int n;

	do
		n = poll(&wait, 1, (int)(PIPE_PATIENCE_NS / 1000000u));
	while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : n == 0 ? -ETIMEDOUT : -errno;
}

static int write_all(int fd, const char *bytes, size_t n)
{
	while (n) {
		ssize_t written = write(fd, bytes, n);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		bytes += written;
		n -= (size_t)written;
	}
	return 0;
}

/* -EFBIG: there is more than that. */
static int copy(int from, int to, size_t most_bytes, size_t *copied)
{
	char buffer[COPY_BYTES];
	int error;

	for (*copied = 0;;) {
		ssize_t n = read(from, buffer, sizeof(buffer));

		if (n == 0)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n < 0)
			error = wait_readable(from);
		else if ((size_t)n > most_bytes - *copied)
			error = -EFBIG;
		else
			error = write_all(to, buffer, (size_t)n);
		if (error < 0)
			return error;
		*copied += n > 0 ? (size_t)n : 0;
	}
}

/* 0, or -errno: only what has an end, and what cannot block for ever, is read. */
static int check_source(int fd)
{
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	if (S_ISDIR(status.st_mode))
		return -EISDIR;
	return S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode) ? 0 : -EINVAL;
}

static int open_source(const char *path, char why[static WHY_BYTES])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int error = fd < 0 ? -errno : check_source(fd);

	if (error == -EINVAL || error == -EISDIR)
		snprintf(why, WHY_BYTES, "%s: neither a file nor a pipe", path);
	else if (error < 0)
		snprintf(why, WHY_BYTES, "%s: %s", path, strerror(-error));
	if (error < 0 && fd >= 0)
		close(fd);
	return error < 0 ? error : fd;
}

int file_seal_from(int from, const char *path, size_t most_bytes, size_t *bytes, char why[static WHY_BYTES])
{
	int to, error;

	to = memfd_create("portcullis-file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	error = to < 0 ? -errno : copy(from, to, most_bytes, bytes);
	if (error == 0 && fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
		error = -errno;
	if (error == 0 && lseek(to, 0, SEEK_SET) == 0)
		return to;
	if (error == -EFBIG)
		snprintf(why, WHY_BYTES, "%s: longer than %zu bytes, which is the most possible", path,
		         most_bytes);
	else
		snprintf(why, WHY_BYTES, "%s: %s", path, strerror(-error));
	if (to >= 0)
		close(to);
	return error;
}

int file_seal(const char *path, size_t most_bytes, size_t *bytes, char why[static WHY_BYTES])
{
	int from = open_source(path, why);
	int to;

	if (from < 0)
		return from;
	to = file_seal_from(from, path, most_bytes, bytes, why);
	close(from);
	return to;
}
