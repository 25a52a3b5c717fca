#include "policy/protocol.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/abi/limits.h"

#define MAX_FDS 2u

struct header {
	uint32_t kind;
	uint32_t bytes; /* of the fields */
	uint64_t id;
};

/* The promises of protocol.h about what fits, each with room for the counts before it. */
static_assert(PROTOCOL_BOOLEANS_PER_PACKET * (8 + PROTOCOL_BOOLEAN_BYTES) + 64 <= PROTOCOL_PACKET_BYTES,
              "booleans fit");
static_assert(PROTOCOL_CONTEXTS_PER_PACKET * (4 + MAX_CONTEXT_BYTES) + PROTOCOL_QUESTIONS_PER_PACKET * 12 +
                              64 <=
                      PROTOCOL_PACKET_BYTES,
              "decisions fit");
static_assert(PROTOCOL_TEXT_BYTES + MAX_CONTEXT_BYTES + 64 <= PROTOCOL_PACKET_BYTES, "a text fits");
static_assert(PROTOCOL_SOURCE_NAME_BYTES + 64 <= PROTOCOL_PACKET_BYTES, "a name fits");

void packet_begin(struct packet *packet, enum protocol_kind kind, uint64_t id)
{
	packet->kind = kind;
	packet->id = id;
	packet->fd = -1;
	packet->bad = false;
	packet->used = 0;
	packet->cursor = 0;
}

static void put_bytes(struct packet *packet, const void *bytes, size_t n)
{
	if (packet->bad || n > sizeof(packet->bytes) - packet->used) {
		packet->bad = true;
		return;
	}
	memcpy(packet->bytes + packet->used, bytes, n);
	packet->used += n;
}

void packet_put(struct packet *packet, uint32_t number)
{
	put_bytes(packet, &number, sizeof(number));
}

void packet_put_text(struct packet *packet, const char *text)
{
	size_t n = strnlen(text, PROTOCOL_TEXT_BYTES) + 1;

	if (n > PROTOCOL_TEXT_BYTES)
		packet->bad = true;
	packet_put(packet, (uint32_t)n);
	put_bytes(packet, text, n);
}

void packet_patch(struct packet *packet, size_t offset, uint32_t number)
{
	if (offset + sizeof(number) <= packet->used)
		memcpy(packet->bytes + offset, &number, sizeof(number));
	else
		packet->bad = true;
}

/* n bytes of what was received, or NULL. */
static const void *get_bytes(struct packet *packet, size_t n)
{
	const void *bytes = packet->bytes + packet->cursor;

	if (packet->bad || n > packet->used - packet->cursor) {
		packet->bad = true;
		return NULL;
	}
	packet->cursor += n;
	return bytes;
}

uint32_t packet_get(struct packet *packet)
{
	const void *bytes = get_bytes(packet, sizeof(uint32_t));
	uint32_t number = 0;

	if (bytes)
		memcpy(&number, bytes, sizeof(number));
	return number;
}

const char *packet_get_text(struct packet *packet, size_t max_bytes)
{
	uint32_t n = packet_get(packet);
	const char *text = n && n <= max_bytes ? get_bytes(packet, n) : NULL;

	if (!text || memchr(text, '\0', n) != text + n - 1) {
		packet->bad = true;
		return "";
	}
	return text;
}

bool packet_done(const struct packet *packet)
{
	return !packet->bad && packet->cursor == packet->used;
}

static void attach_fds(struct msghdr *message, const int *fds, size_t n_fds)
{
	struct cmsghdr *control;

	message->msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	control = CMSG_FIRSTHDR(message);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	memcpy(CMSG_DATA(control), fds, n_fds * sizeof(int));
}

static void close_fds(const int *fds, size_t n_fds)
{
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
}

/* Every descriptor that came, up to MAX_FDS; the rest is closed and reported by -EPROTO. */
static int detach_fds(struct msghdr *message, int *fds, size_t *n_fds)
{
	int error = message->msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EPROTO : 0;

	*n_fds = 0;
	for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control;
	     control = CMSG_NXTHDR(message, control)) {
		size_t n = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) {
			error = -EPROTO;
			continue;
		}
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(fd));
			if (*n_fds < MAX_FDS)
				fds[(*n_fds)++] = fd;
			else
				close(fd);
		}
	}
	if (error)
		close_fds(fds, *n_fds);
	return error;
}

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
};

static int send_message(int socket_fd, struct iovec *iov, size_t n_iov, const int *fds, size_t n_fds,
                        int flags)
{
	union control control = {0};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = n_iov, .msg_control = control.bytes};
	ssize_t sent;

	if (n_fds)
		attach_fds(&message, fds, n_fds);
	else
		message.msg_control = NULL;
	do
		sent = sendmsg(socket_fd, &message, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

/* The bytes received, 0 at the end, or -errno. */
static ssize_t receive_message(int socket_fd, struct iovec *iov, size_t n_iov, int *fds, size_t *n_fds,
                               int flags)
{
	union control control = {0};
	struct msghdr message = {.msg_iov = iov,
	                         .msg_iovlen = n_iov,
	                         .msg_control = control.bytes,
	                         .msg_controllen = sizeof(control.bytes)};
	ssize_t received;
	int error;

	*n_fds = 0;
	do
		received = recvmsg(socket_fd, &message, flags | MSG_CMSG_CLOEXEC);
	while (received < 0 && errno == EINTR);
	if (received < 0)
		return -errno;
	error = detach_fds(&message, fds, n_fds);
	if (!error && !received)
		close_fds(fds, *n_fds); /* an empty packet reads like the end: it is one */
	return error ? error : received;
}

int packet_send(int socket_fd, const struct packet *packet, int flags)
{
	struct header header = {.kind = packet->kind, .bytes = (uint32_t)packet->used, .id = packet->id};
	struct iovec iov[2] = {{&header, sizeof(header)}, {(void *)packet->bytes, packet->used}};

	if (packet->bad)
		return -EMSGSIZE;
	return send_message(socket_fd, iov, 2, &packet->fd, packet->fd >= 0, flags);
}

int packet_receive(int socket_fd, struct packet *packet, int flags)
{
	struct header header = {0};
	struct iovec iov[2] = {{&header, sizeof(header)}, {packet->bytes, sizeof(packet->bytes)}};
	int fds[MAX_FDS];
	size_t n_fds;
	ssize_t received = receive_message(socket_fd, iov, 2, fds, &n_fds, flags);

	if (received <= 0)
		return (int)received;
	if ((size_t)received < sizeof(header) || header.bytes != (size_t)received - sizeof(header) ||
	    n_fds > 1 || header.kind == 0 || header.kind >= PROTOCOL_KINDS) {
		close_fds(fds, n_fds);
		return -EPROTO;
	}
	packet_begin(packet, header.kind, header.id);
	packet->used = header.bytes;
	packet->fd = n_fds ? fds[0] : -1;
	return 1;
}

int protocol_send_fds(int socket_fd, uint64_t number, const int *fds, size_t n_fds)
{
	struct iovec iov = {&number, sizeof(number)};

	return send_message(socket_fd, &iov, 1, fds, n_fds, MSG_DONTWAIT);
}

int protocol_receive_fds(int socket_fd, uint64_t *number, int *fds, size_t *n_fds, int flags)
{
	struct iovec iov = {number, sizeof(*number)};
	ssize_t received = receive_message(socket_fd, &iov, 1, fds, n_fds, flags);

	if (received <= 0)
		return (int)received;
	if (received != sizeof(*number)) {
		close_fds(fds, *n_fds);
		return -EPROTO;
	}
	return 1;
}
