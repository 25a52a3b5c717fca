#include "monitor/libvirt/xml_child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "monitor/audit_format.h"
#include "monitor/libvirt/text.h"
#include "monitor/loop.h"
#include "policy/launcher.h"

#define PATIENCE_NS 2000000000ull

struct xml_child {
	struct monitor *monitor;
	int socket_fd, pidfd;
	struct loop_timer timer;
	xml_answered_fn *done;
	void *opaque;
	struct xml_answer answer;
};

void xml_child_cancel(struct xml_child *child)
{
	loop_remove(child->monitor->loop, child->socket_fd);
	loop_disarm(child->monitor->loop, &child->timer);
	syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0); /* it may have ended already */
	close(child->socket_fd);
	close(child->pidfd);
	free(child);
}

/* Terminated within its room, and plain. */
static bool is_text(const char *text, size_t room)
{
	size_t n = strnlen(text, room);

	return n < room && text_is_plain(text, n);
}

#define IS_TEXT(array) is_text(array, sizeof(array))

static bool is_sound(const struct xml_answer *answer)
{
	return answer->magic == XML_MAGIC && answer->good <= 1 && answer->has_uuid <= 1 &&
	       IS_TEXT(answer->why) && IS_TEXT(answer->name) && IS_TEXT(answer->manifest) &&
	       IS_TEXT(answer->title) && IS_TEXT(answer->description);
}

static void finish(struct xml_child *child, const struct xml_answer *answer, const char *why)
{
	xml_answered_fn *done = child->done;
	void *opaque = child->opaque;
	struct xml_answer copy;
	char line[WHY_BYTES];

	if (answer)
		copy = *answer;
	snprintf(line, sizeof(line), "%s", why);
	xml_child_cancel(child);
	done(opaque, answer ? &copy : NULL, line);
}

static void on_answer(void *opaque, uint32_t events)
{
	struct xml_child *child = opaque;
	struct xml_answer *answer = &child->answer;
	struct iovec part = {answer, sizeof(*answer)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t n = recvmsg(child->socket_fd, &message, MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(*answer) || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !is_sound(answer)) {
		finish(child, NULL, "the XML could not be read: its reader ended without an answer");
		return;
	}
	audit_clean(answer->why);
	if (answer->good)
		finish(child, answer, "");
	else
		finish(child, NULL, answer->why);
}

static void on_late(void *opaque)
{
	finish(opaque, NULL, "the XML could not be read in time");
}

static int send_question(struct xml_child *child, enum xml_kind kind, const char *xml, size_t bytes)
{
	struct xml_question question = {kind};
	struct iovec parts[] = {{&question, sizeof(question)}, {(void *)xml, bytes}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	return sendmsg(child->socket_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int xml_child_ask(struct monitor *monitor, enum xml_kind kind, const char *xml, size_t bytes,
                  xml_answered_fn *done, void *opaque, struct xml_child **out, char why[static WHY_BYTES])
{
	struct xml_child *child;
	int error;

	if (bytes > MAX_XML_BYTES) {
		snprintf(why, WHY_BYTES, "XML of at most %u bytes is read", MAX_XML_BYTES);
		return -EMSGSIZE;
	}
	child = calloc(1, sizeof(*child));
	if (!child)
		return -ENOMEM;
	child->monitor = monitor;
	child->done = done;
	child->opaque = opaque;
	child->timer = (struct loop_timer){.fn = on_late, .opaque = child};
	error = launcher_spawn_xml_reader(monitor->launcher, &child->socket_fd, &child->pidfd, why);
	if (error < 0) {
		free(child);
		return error;
	}
	error = send_question(child, kind, xml, bytes);
	if (error == 0)
		error = loop_add(monitor->loop, child->socket_fd, EPOLLIN, on_answer, child);
	if (error < 0) {
		snprintf(why, WHY_BYTES, "the reader of XML: %s", strerror(-error));
		xml_child_cancel(child);
		return error;
	}
	loop_arm(monitor->loop, &child->timer, loop_now() + PATIENCE_NS);
	*out = child;
	return 0;
}
