#include "monitor/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "monitor/loop.h"

#define MAX_REPLY_BYTES (256u << 10)

/* ---- where the socket is ---- */

/* A folder that others may write in would let them put their own socket there. */
static int own_folder(const char *folder, char why[static WHY_BYTES])
{
	struct stat status;

	if (mkdir(folder, 0700) && errno != EEXIST) {
		int error = -errno;

		snprintf(why, WHY_BYTES, "%s: %s", folder, strerror(errno));
		return error;
	}
	if (lstat(folder, &status) || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
	    (status.st_mode & 022)) {
		snprintf(why, WHY_BYTES, "%s: must be a folder of uid %u that nobody else can write in",
		         folder, (unsigned)geteuid());
		return -EPERM;
	}
	return 0;
}

int client_default_path(bool make, char path[static SOCKET_PATH_BYTES], char why[static WHY_BYTES])
{
	const char *given = getenv("PORTCULLIS_SOCKET");
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char folder[SOCKET_PATH_BYTES];
	int n, error = 0;

	if (given && *given) {
		n = snprintf(path, SOCKET_PATH_BYTES, "%s", given);
	} else {
		if (geteuid() == 0)
			n = snprintf(folder, sizeof(folder), "/run/portcullis");
		else if (runtime && *runtime == '/')
			n = snprintf(folder, sizeof(folder), "%s/portcullis", runtime);
		else
			n = snprintf(folder, sizeof(folder), "/tmp/portcullis-%u", (unsigned)geteuid());
		if (n < (int)sizeof(folder)) {
			if (make)
				error = own_folder(folder, why);
			n = snprintf(path, SOCKET_PATH_BYTES, "%s/control.sock", folder);
		}
	}
	if (error == 0 && n >= (int)SOCKET_PATH_BYTES) {
		snprintf(why, WHY_BYTES,
		         "the socket's path has more than %u bytes; give a shorter one with --socket",
		         SOCKET_PATH_BYTES - 1);
		error = -ENAMETOOLONG;
	}
	return error;
}

/* ---- the call ---- */

static int fail(int error, const char *path, char why[static WHY_BYTES])
{
	if (error == -ENOENT || error == -ECONNREFUSED)
		snprintf(why, WHY_BYTES, "no monitor serves %s; \"portcullis run\" or \"serve\" starts one",
		         path);
	else if (error == -EACCES || error == -EPERM)
		snprintf(why, WHY_BYTES, "%s: access denied: the monitor is another user's", path);
	else if (error == -ETIMEDOUT)
		snprintf(why, WHY_BYTES, "%s: the monitor did not answer in time", path);
	else
		snprintf(why, WHY_BYTES, "%s: %s", path, strerror(-error));
	return error;
}

/* The kernel's own time-outs: also for connect, which has nothing to poll for. */
static void set_patience(int fd, int option, uint64_t deadline_ns)
{
	uint64_t now = loop_now();
	uint64_t left = deadline_ns > now ? deadline_ns - now : 1000;
	struct timeval patience = {(time_t)(left / 1000000000u), (suseconds_t)(left % 1000000000u / 1000u)};

	if (!patience.tv_sec && !patience.tv_usec)
		patience.tv_usec = 1; /* zero means for ever */
	setsockopt(fd, SOL_SOCKET, option, &patience, sizeof(patience));
}

static int timed_errno(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINPROGRESS ? -ETIMEDOUT : -errno;
}

static int send_request(int fd, const json_t *request, const int *fds, size_t n_fds)
{
	union {
		char bytes[CMSG_SPACE(MAX_CONTROL_FILES * sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	char *text = json_dumps(request, JSON_COMPACT);
	struct iovec part = {text, text ? strlen(text) : 0};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	int error = 0;

	if (!text)
		return -ENOMEM;
	if (part.iov_len > MAX_CONTROL_REQUEST_BYTES || n_fds > MAX_CONTROL_FILES)
		error = -E2BIG;
	if (error == 0 && n_fds) {
		memset(&ancillary, 0, sizeof(ancillary));
		ancillary.align.cmsg_level = SOL_SOCKET;
		ancillary.align.cmsg_type = SCM_RIGHTS;
		ancillary.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(&ancillary.align), fds, n_fds * sizeof(int));
		header.msg_control = ancillary.bytes;
		header.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	}
	/* EPIPE: it has let us go already; the reply says why. */
	if (error == 0 && sendmsg(fd, &header, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		error = timed_errno();
	free(text);
	return error;
}

int client_send(const char *path, const json_t *request, const int *fds, size_t n_fds, uint64_t deadline_ns,
                char why[static WHY_BYTES])
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, error = 0;

	if (!*path || strlen(path) >= sizeof(address.sun_path))
		return fail(-ENAMETOOLONG, path, why);
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(-errno, path, why);
	set_patience(fd, SO_SNDTIMEO, deadline_ns);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)))
		error = timed_errno();
	if (error == 0)
		error = send_request(fd, request, fds, n_fds);
	if (error < 0) {
		close(fd);
		return fail(error, path, why);
	}
	return fd;
}

/* One descriptor at most; more would be a monitor that is none. */
static int take_body(struct msghdr *header)
{
	struct cmsghdr *part = CMSG_FIRSTHDR(header);
	int fd;

	if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS ||
	    part->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(part), sizeof(int));
	return fd;
}

static int read_reply(const char *text, size_t bytes, struct client_reply *reply)
{
	json_t *json = json_loadb(text, bytes, 0, NULL);
	const char *error = "";
	json_int_t status = -1, body_bytes = 0;
	struct stat body;

	if (json_unpack(json, "{s:I s?s s?I}", "status", &status, "error", &error, "body_bytes",
	                &body_bytes) == 0)
		reply->error = strdup(error);
	json_decref(json);
	if (!reply->error || status < 0 || status > 1 || body_bytes < 0)
		return -EPROTO;
	reply->status = (int)status;
	reply->body_bytes = (size_t)body_bytes;
	if (reply->body_fd >= 0 && (fstat(reply->body_fd, &body) || body.st_size < body_bytes))
		return -EPROTO;
	return 0;
}

static int receive(int fd, struct client_reply *reply)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	char *text = malloc(MAX_REPLY_BYTES);
	struct iovec part = {text, MAX_REPLY_BYTES};
	struct msghdr header = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = ancillary.bytes,
		.msg_controllen = sizeof(ancillary.bytes),
	};
	ssize_t n;
	int error;

	if (!text)
		return -ENOMEM;
	n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
	if (n < 0 &&
	    errno == ECONNRESET) /* closed without reading our request; its reply comes behind the error */
		n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
	if (n > 0)
		reply->body_fd = take_body(&header);
	if (n < 0)
		error = timed_errno();
	else if (n == 0)
		error = -ECONNRESET;
	else if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		error = -EPROTO;
	else
		error = read_reply(text, (size_t)n, reply);
	free(text);
	return error;
}

int client_receive(int fd, uint64_t deadline_ns, struct client_reply *reply, char why[static WHY_BYTES])
{
	int error;

	*reply = (struct client_reply){.status = 1, .body_fd = -1};
	set_patience(fd, SO_RCVTIMEO, deadline_ns);
	error = receive(fd, reply);
	close(fd);
	if (error == 0)
		return 0;
	client_reply_clear(reply);
	if (error == -ECONNRESET)
		snprintf(why, WHY_BYTES, "the monitor ended, or dropped the connection, without an answer");
	else if (error == -ETIMEDOUT)
		snprintf(why, WHY_BYTES, "the monitor did not answer in time");
	else
		snprintf(why, WHY_BYTES, "the monitor's answer: %s", strerror(-error));
	return error;
}

int client_call(const char *path, const json_t *request, const int *fds, size_t n_fds, uint64_t deadline_ns,
                struct client_reply *reply, char why[static WHY_BYTES])
{
	int fd = client_send(path, request, fds, n_fds, deadline_ns, why);

	return fd < 0 ? fd : client_receive(fd, deadline_ns, reply, why);
}

json_t *client_body(const struct client_reply *reply)
{
	json_t *json = NULL;
	void *text;

	if (reply->body_fd < 0 || reply->body_bytes == 0)
		return NULL;
	text = mmap(NULL, reply->body_bytes, PROT_READ, MAP_PRIVATE, reply->body_fd, 0);
	if (text == MAP_FAILED)
		return NULL;
	json = json_loadb(text, reply->body_bytes, JSON_DECODE_ANY, NULL);
	munmap(text, reply->body_bytes);
	return json;
}

void client_reply_clear(struct client_reply *reply)
{
	free(reply->error);
	if (reply->body_fd >= 0)
		close(reply->body_fd);
	*reply = (struct client_reply){.status = 1, .body_fd = -1};
}
