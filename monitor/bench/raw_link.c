#include "monitor/bench/raw_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <x86intrin.h>

#include "guest/abi/ring.h"
#include "monitor/loop.h"

#define DEADLINE_NS 10000000000ull
#define LOOKS_PER_CLOCK 65536u /* a spinning end reads the clock so rarely */
#define IN_FLIGHT (128u << 10) /* bytes under way at most, two messages at least: as in a channel */

/* ---- shared memory ---- */

static uint64_t *buffer_of(struct raw_link *link, unsigned side, uint64_t number)
{
	return (uint64_t *)(link->buffers[side] + number % link->n_buffers * link->stride);
}

/* Spins until *word is at least wanted. */
static int spin(struct raw_link *link, unsigned peer, const uint64_t *word, uint64_t wanted)
{
	uint64_t deadline = 0;

	for (uint32_t looks = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) < wanted; looks++) {
		_mm_pause();
		if (looks % LOOKS_PER_CLOCK)
			continue;
		if (__atomic_load_n(&link->lane[peer].hung_up, __ATOMIC_ACQUIRE))
			return __atomic_load_n(word, __ATOMIC_ACQUIRE) < wanted ? -EPIPE : 0;
		if (deadline == 0)
			deadline = loop_now() + DEADLINE_NS;
		if (loop_now() > deadline)
			return -ETIMEDOUT;
	}
	return 0;
}

static int memory_send(struct raw_link *link, unsigned side, const void *message, size_t bytes)
{
	uint64_t number = link->private[side].sent + 1;
	uint64_t *buffer = buffer_of(link, side, number);
	int error = 0;

	if (number > link->n_buffers)
		error = spin(link, 1 - side, &link->lane[side].read, number - link->n_buffers);
	if (error < 0)
		return error;
	memcpy(buffer + 1, message, bytes);
	__atomic_store_n(buffer, number, __ATOMIC_RELEASE);
	link->private[side].sent = number;
	return 0;
}

static int memory_receive(struct raw_link *link, unsigned side, void *message, size_t bytes)
{
	uint64_t number = link->private[side].taken + 1;
	uint64_t *buffer = buffer_of(link, 1 - side, number);
	int error = spin(link, 1 - side, buffer, number);

	if (error < 0)
		return error;
	memcpy(message, buffer + 1, bytes);
	__atomic_store_n(&link->lane[1 - side].read, number, __ATOMIC_RELEASE);
	link->private[side].taken = number;
	return 0;
}

static int memory_open(struct raw_link *link, uint32_t bytes)
{
	uint32_t most = bytes <= RING_INLINE_BYTES ? RING_CELLS : IN_FLIGHT / bytes;

	link->n_buffers = most < 2 ? 2 : most > RING_CELLS ? RING_CELLS : most;
	link->stride = (bytes + sizeof(uint64_t) + 63) & ~63ul;
	for (unsigned side = 0; side < 2; side++) {
		link->buffers[side] = aligned_alloc(4096, (link->n_buffers * link->stride + 4095) & ~4095ul);
		if (!link->buffers[side])
			return -ENOMEM;
		memset(link->buffers[side], 0, link->n_buffers * link->stride);
	}
	return 0;
}

/* ---- descriptors ---- */

static int fd_send(int fd, const char *message, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, message, bytes);

		if (n < 0 && errno != EINTR)
			return -errno;
		message += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int fd_receive(int fd, char *message, size_t bytes)
{
	while (bytes) {
		ssize_t n = read(fd, message, bytes);

		if (n == 0)
			return -EPIPE;
		if (n < 0 && errno != EINTR)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		message += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int pipes_open(struct raw_link *link)
{
	for (unsigned side = 0; side < 2; side++) {
		int fds[2];

		if (pipe2(fds, O_CLOEXEC) < 0)
			return -errno;
		link->write_fd[side] = fds[1];
		link->read_fd[1 - side] = fds[0];
	}
	return 0;
}

static int sockets_open(struct raw_link *link)
{
	struct timeval patience = {.tv_sec = DEADLINE_NS / 1000000000u};
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	for (unsigned side = 0; side < 2; side++) {
		setsockopt(fds[side], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		link->write_fd[side] = fds[side];
		link->read_fd[side] = dup(fds[side]);
		if (link->read_fd[side] < 0)
			return -errno;
	}
	return 0;
}

/* ---- all ---- */

int raw_open(struct raw_link *link, enum raw_kind kind, uint32_t bytes)
{
	*link = (struct raw_link){.kind = kind, .read_fd = {-1, -1}, .write_fd = {-1, -1}};
	if (kind == RAW_SHARED_MEMORY)
		return memory_open(link, bytes);
	return kind == RAW_PIPE ? pipes_open(link) : sockets_open(link);
}

void raw_close(struct raw_link *link)
{
	for (unsigned side = 0; side < 2; side++) {
		free(link->buffers[side]);
		if (link->read_fd[side] >= 0)
			close(link->read_fd[side]);
		if (link->write_fd[side] >= 0)
			close(link->write_fd[side]);
	}
}

int raw_send(struct raw_link *link, unsigned side, const void *message, size_t bytes)
{
	if (link->kind == RAW_SHARED_MEMORY)
		return memory_send(link, side, message, bytes);
	return fd_send(link->write_fd[side], message, bytes);
}

int raw_receive(struct raw_link *link, unsigned side, void *message, size_t bytes)
{
	if (link->kind == RAW_SHARED_MEMORY)
		return memory_receive(link, side, message, bytes);
	return fd_receive(link->read_fd[side], message, bytes);
}

void raw_hang_up(struct raw_link *link, unsigned side)
{
	__atomic_store_n(&link->lane[side].hung_up, 1, __ATOMIC_RELEASE);
	if (link->kind == RAW_SHARED_MEMORY)
		return;
	if (link->kind == RAW_SEQPACKET)
		shutdown(link->write_fd[side], SHUT_WR);
	close(link->write_fd[side]);
	link->write_fd[side] = -1;
}
