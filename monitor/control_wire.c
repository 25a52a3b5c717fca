#include "monitor/control_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEEDED_SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)
#define ALL_SEALS (NEEDED_SEALS | F_SEAL_SEAL)

_Static_assert(MAX_CONTROL_FILES < 253, "SCM_MAX_FD");

/* ---- in ---- */

static void take_descriptors(struct msghdr *header, struct control_message *message)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
		size_t n = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
			if (message->n_fds < MAX_CONTROL_FILES)
				message->fds[message->n_fds++] = fd;
			else
				close(fd);
		}
	}
}

/* Sealed, so what is checked later cannot change under the check. */
static int check_descriptor(struct control_message *message, size_t i, char why[static WHY_BYTES])
{
	int seals = fcntl(message->fds[i], F_GET_SEALS);
	struct stat status;

	if (seals < 0 || (seals & NEEDED_SEALS) != NEEDED_SEALS) {
		snprintf(why, WHY_BYTES,
		         "descriptor %zu is not a memfd sealed against writing, growing and shrinking",
		         i + 1);
		return -EBADMSG;
	}
	if (fstat(message->fds[i], &status) || status.st_size < 0 ||
	    (uint64_t)status.st_size > MAX_DATA_BYTES) {
		snprintf(why, WHY_BYTES, "descriptor %zu holds %lld bytes; at most %u are possible", i + 1,
		         (long long)status.st_size, MAX_DATA_BYTES);
		return -EBADMSG;
	}
	message->bytes[i] = (size_t)status.st_size;
	return 0;
}

static int check_message(struct control_message *message, const char *text, size_t bytes, int flags,
                         char why[static WHY_BYTES])
{
	json_error_t error;

	if (flags & MSG_TRUNC) {
		snprintf(why, WHY_BYTES, "a request has at most %u bytes", MAX_CONTROL_REQUEST_BYTES);
		return -EBADMSG;
	}
	if (flags & MSG_CTRUNC) {
		snprintf(why, WHY_BYTES,
		         "its descriptors did not all arrive: a request has at most %u, or no more files can "
		         "be open here",
		         MAX_CONTROL_FILES);
		return -EBADMSG;
	}
	for (size_t i = 0; i < message->n_fds; i++)
		if (check_descriptor(message, i, why))
			return -EBADMSG;
	message->json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	if (!message->json) {
		snprintf(why, WHY_BYTES, "no JSON: column %d: %s", error.column, error.text);
		return -EBADMSG;
	}
	if (!json_is_object(message->json)) {
		snprintf(why, WHY_BYTES, "a request is a JSON object: {\"verb\": \"status\"}");
		return -EBADMSG;
	}
	return 0;
}

int control_receive(int fd, struct control_message *message, char why[static WHY_BYTES])
{
	static char text[MAX_CONTROL_REQUEST_BYTES]; /* the loop is one thread */
	union {
		char bytes[CMSG_SPACE(MAX_CONTROL_FILES * sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec part = {text, sizeof(text)};
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = ancillary.bytes,
		.msg_controllen = sizeof(ancillary.bytes),
	};
	ssize_t n = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int error;

	*message = (struct control_message){.n_fds = 0};
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	take_descriptors(&header, message);
	if (n == 0) {
		control_message_clear(message);
		return 0;
	}
	error = check_message(message, text, (size_t)n, header.msg_flags, why);
	if (error < 0)
		control_message_clear(message);
	return error < 0 ? error : 1;
}

void control_message_clear(struct control_message *message)
{
	json_decref(message->json);
	for (size_t i = 0; i < message->n_fds; i++)
		close(message->fds[i]);
	*message = (struct control_message){.n_fds = 0};
}

/* ---- out ---- */

static int send_text(int fd, char *text, int body_fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec part = {text, strlen(text)};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	if (body_fd >= 0) {
		memset(&ancillary, 0, sizeof(ancillary));
		ancillary.align.cmsg_level = SOL_SOCKET;
		ancillary.align.cmsg_type = SCM_RIGHTS;
		ancillary.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&ancillary.align), &body_fd, sizeof(int));
		header.msg_control = ancillary.bytes;
		header.msg_controllen = sizeof(ancillary.bytes);
	}
	return sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* An error may quote a file of a stranger, which need not be UTF-8. */
static json_t *reply_json(int status, const char *error, size_t body_bytes)
{
	json_t *reply = json_pack("{s:i s:s s:I}", "status", status, "error", error, "body_bytes",
	                          (json_int_t)body_bytes);
	char *ascii;

	if (reply)
		return reply;
	ascii = strdup(error);
	if (!ascii)
		return NULL;
	for (char *c = ascii; *c; c++)
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	reply = json_pack("{s:i s:s s:I}", "status", status, "error", ascii, "body_bytes",
	                  (json_int_t)body_bytes);
	free(ascii);
	return reply;
}

int control_send(int fd, int status, const char *error, int body_fd, size_t body_bytes)
{
	json_t *reply = reply_json(status, error, body_bytes);
	char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
	int result;

	json_decref(reply);
	if (!text)
		return -ENOMEM;
	result = send_text(fd, text, body_fd);
	free(text);
	return result;
}

static int write_text(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0)
			return -1;
		text += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int control_seal_json(const json_t *json, size_t *bytes)
{
	int fd = memfd_create("portcullis-reply", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
	int error = fd < 0 ? -errno : !text ? -ENOMEM : 0;

	*bytes = text ? strlen(text) : 0;
	if (error == 0 && (write_text(fd, text, *bytes) || fcntl(fd, F_ADD_SEALS, ALL_SEALS)))
		error = -errno;
	free(text);
	if (error < 0 && fd >= 0)
		close(fd);
	return error < 0 ? error : fd;
}
