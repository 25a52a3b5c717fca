#include "tests/monitor/world_proxy.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "policy/launcher.h"
#include "policy/protocol.h"

#define ROOM (PROTOCOL_PACKET_BYTES + 4096u)

static struct {
	/* The test's thread. */
	bool armed;
	unsigned n_servers;
	int latest_pidfd;

	/* Set before the proxy's thread is made. */
	enum proxy_harm harm;
	unsigned n;
	bool (*now)(void); /* instead of n */
	int monitor_fd, server_fd, pidfd, go_fd, fired_fd;

	/* Atomic: written by the proxy's thread. */
	bool fired;
	unsigned n_answers;
} proxy = {.latest_pidfd = -1, .go_fd = -1, .fired_fd = -1};

struct piece {
	size_t bytes;
	int fd;
	uint8_t data[ROOM];
};

static ssize_t take(int from, struct piece *piece)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {piece->data, sizeof(piece->data)};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	piece->fd = -1;
	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(&piece->fd, CMSG_DATA(header), sizeof(int));
	piece->bytes = n > 0 ? (size_t)n : 0;
	return n;
}

static void pass(int to, const struct piece *piece)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {(void *)piece->data, piece->bytes};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (piece->fd >= 0) {
		struct cmsghdr *header;

		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &piece->fd, sizeof(int));
	}
	sendmsg(to, &message, MSG_NOSIGNAL);
}

static void drop(struct piece *piece)
{
	if (piece->fd >= 0)
		close(piece->fd);
	piece->fd = -1;
}

static void fire(void)
{
	uint64_t one = 1;
	ssize_t n;

	__atomic_store_n(&proxy.fired, true, __ATOMIC_SEQ_CST);
	n = write(proxy.fired_fd, &one, sizeof(one));
	(void)n;
}

/* False: the connection is to end. */
static bool pass_question(struct piece *piece, unsigned number)
{
	if (number == proxy.n && proxy.harm == PROXY_KILL) {
		syscall(SYS_pidfd_send_signal, proxy.pidfd, SIGKILL, NULL, 0);
		fire();
		return false;
	}
	if (number == proxy.n && proxy.harm == PROXY_STOP) {
		syscall(SYS_pidfd_send_signal, proxy.pidfd, SIGSTOP, NULL, 0);
		fire();
	}
	pass(proxy.server_fd, piece);
	return true;
}

static void await_release(void)
{
	struct pollfd go = {.fd = proxy.go_fd, .events = POLLIN};

	fire();
	poll(&go, 1, 60000);
}

static bool pass_answer(struct piece *piece, unsigned number)
{
	bool now = proxy.now ? !proxy.fired && proxy.now() : number == proxy.n;

	if (now && proxy.harm == PROXY_CLOSE) {
		fire();
		return false;
	}
	if (now && proxy.harm == PROXY_HOLD)
		await_release();
	if (now && proxy.harm == PROXY_GARBAGE)
		for (size_t i = 0; i < piece->bytes; i++)
			piece->data[i] = (uint8_t)(i * 167 + 91);
	if (now && proxy.harm == PROXY_TRUNCATE)
		piece->bytes -= piece->bytes / 4 + 1;
	if (now &&
	    (proxy.harm == PROXY_GARBAGE || proxy.harm == PROXY_TRUNCATE || proxy.harm == PROXY_REPEAT))
		fire();
	pass(proxy.monitor_fd, piece);
	if (now && proxy.harm == PROXY_REPEAT)
		pass(proxy.monitor_fd, piece);
	__atomic_store_n(&proxy.n_answers, number, __ATOMIC_SEQ_CST);
	return true;
}

static void *run(void *opaque)
{
	static struct piece piece;
	unsigned n_questions = 0, n_answers = 0;
	bool open = true;

	(void)opaque;
	while (open) {
		struct pollfd ends[] = {{.fd = proxy.monitor_fd, .events = POLLIN},
		                        {.fd = proxy.server_fd, .events = POLLIN}};

		if (poll(ends, 2, -1) < 0)
			continue;
		if (ends[0].revents) {
			open = take(proxy.monitor_fd, &piece) > 0 && pass_question(&piece, ++n_questions);
			drop(&piece);
		} else if (ends[1].revents) {
			open = take(proxy.server_fd, &piece) > 0 && pass_answer(&piece, ++n_answers);
			drop(&piece);
		}
	}
	close(proxy.monitor_fd);
	close(proxy.server_fd);
	close(proxy.pidfd);
	return NULL;
}

/* The monitor gets one end of a socket pair, the proxy's thread stands between. */
static int interpose(int *socket_fd, int pidfd)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int pair[2], error;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	proxy.monitor_fd = pair[1];
	proxy.server_fd = *socket_fd;
	proxy.pidfd = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
	*socket_fd = pair[0];
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attributes, run, NULL);
	pthread_attr_destroy(&attributes);
	return -error;
}

/*
 * The launcher executes this program's own file, which a suite would load with all of
 * Criterion's libraries, and thousands of times. The program that people run stands
 * beside the suites and is a security server as good.
 */
int __real_execve(const char *path, char *const *argv, char *const *environment);
int __wrap_execve(const char *path, char *const *argv, char *const *environment);

int __wrap_execve(const char *path, char *const *argv, char *const *environment)
{
	char beside[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", beside, sizeof(beside) - 32);
	char *tests;

	if (strcmp(path, "/proc/self/exe") == 0 && n > 0) {
		beside[n] = '\0';
		tests = strstr(beside, "/tests/");
		if (tests) {
			strcpy(tests, "/portcullis");
			__real_execve(beside, argv, environment);
		}
	}
	return __real_execve(path, argv, environment);
}

int __real_launcher_spawn(struct launcher *launcher, int *socket_fd, int *pidfd, char why[static WHY_BYTES]);
int __wrap_launcher_spawn(struct launcher *launcher, int *socket_fd, int *pidfd, char why[static WHY_BYTES]);

int __wrap_launcher_spawn(struct launcher *launcher, int *socket_fd, int *pidfd, char why[static WHY_BYTES])
{
	bool armed = proxy.armed;
	int error;

	proxy.armed = false;
	if (armed && proxy.harm == PROXY_NO_SPAWN) {
		fire();
		snprintf(why, WHY_BYTES, "the test does not let it start");
		return -EAGAIN;
	}
	error = __real_launcher_spawn(launcher, socket_fd, pidfd, why);
	if (error < 0)
		return error;
	proxy.n_servers++;
	if (proxy.latest_pidfd >= 0)
		close(proxy.latest_pidfd);
	proxy.latest_pidfd = fcntl(*pidfd, F_DUPFD_CLOEXEC, 0);
	return armed ? interpose(socket_fd, *pidfd) : 0;
}

void proxy_arm(enum proxy_harm harm, unsigned n)
{
	if (proxy.go_fd >= 0) {
		close(proxy.go_fd);
		close(proxy.fired_fd);
	}
	proxy.go_fd = eventfd(0, EFD_CLOEXEC);
	proxy.fired_fd = eventfd(0, EFD_CLOEXEC);
	proxy.harm = harm;
	proxy.n = n;
	proxy.now = NULL;
	proxy.fired = false;
	proxy.n_answers = 0;
	proxy.armed = true;
}

void proxy_arm_when(enum proxy_harm harm, bool (*now)(void))
{
	proxy_arm(harm, 0);
	proxy.now = now;
}

void proxy_disarm(void)
{
	proxy.armed = false;
}

bool proxy_fired(void)
{
	return __atomic_load_n(&proxy.fired, __ATOMIC_SEQ_CST);
}

bool proxy_await_harm(void)
{
	struct pollfd fired = {.fd = proxy.fired_fd, .events = POLLIN};

	return poll(&fired, 1, 60000) == 1;
}

unsigned proxy_answers(void)
{
	return __atomic_load_n(&proxy.n_answers, __ATOMIC_SEQ_CST);
}

void proxy_let_go(void)
{
	uint64_t one = 1;

	cr_assert_eq(write(proxy.go_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
}

unsigned proxy_n_servers(void)
{
	return proxy.n_servers;
}

void proxy_signal_latest(int signal)
{
	cr_assert_eq(syscall(SYS_pidfd_send_signal, proxy.latest_pidfd, signal, NULL, 0), 0);
}
