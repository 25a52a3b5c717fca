#include "policy/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "policy/protocol.h"
#include "policy/security_server.h"

#define LAUNCHER_FD 3
#define ANSWER_MS 2000
#define CHILD_STACK_BYTES 65536u /* up to exec; a sanitizer's interceptors want some */

/* The lowest bit of a request's number says what to start. */
enum child_kind {
	CHILD_SECURITY_SERVER,
	CHILD_XML_READER,
};

struct launcher {
	int socket_fd;
	int pidfd;
	uint64_t n_asked; /* numbers the requests: an answer that comes too late is recognised */
	bool prepared;    /* the last request was for a security server that nobody has taken yet */
};

static int open_pidfd(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

/* What follows up to run_launcher is the launcher's process. */

/* Of the environment only what steers a sanitizer's runtime. */
static void clean_environment(char *kept[static 4])
{
	static const char *const names[] = {"ASAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS="};
	size_t n = 0;

	for (char **variable = environ; variable && *variable; variable++)
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (n < 3 && strncmp(*variable, names[i], strlen(names[i])) == 0)
				kept[n++] = *variable;
	kept[n] = NULL;
}

/* What the launcher hands to its child, whose memory is the launcher's own until exec. */
struct birth {
	enum child_kind kind;
	int socket_fd;
	pid_t launcher;
	char **environment;
	int error; /* errno of a failed exec */
};

/* In the child. Returns only to fail. */
static int exec_child(void *opaque)
{
	static char server[] = SECURITY_SERVER_ARGV0, reader[] = XML_READER_ARGV0;
	struct birth *birth = opaque;
	char *argv[] = {birth->kind == CHILD_XML_READER ? reader : server, NULL};
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != birth->launcher)
		return 1; /* it died before the signal was ordered */
	if (dup2(birth->socket_fd, SECURITY_SERVER_FD) == SECURITY_SERVER_FD)
		execve("/proc/self/exe", argv, birth->environment);
	birth->error = errno;
	return 1;
}

/*
 * The child's pidfd, or -errno. Only this process reaps, so the pid can not have been used again. The
 * launcher stands still until exec has succeeded or failed: no page is copied for a child that throws all
 * away, which here takes longer than the exec.
 */
static int start_child(enum child_kind kind, int socket_fd)
{
	static _Alignas(16) char stack[CHILD_STACK_BYTES];
	char *environment[4];
	struct birth birth = {
		.kind = kind, .socket_fd = socket_fd, .launcher = getpid(), .environment = environment};
	int pidfd = -1;
	pid_t pid;

	clean_environment(environment);
	pid = clone(exec_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &birth,
	            &pidfd);
	if (pid < 0)
		return -errno;
	if (birth.error) {
		close(pidfd);
		pidfd = -birth.error;
	}
	return pidfd;
}

/* Answers with the monitor's end of the socket and the pidfd, or with the errno and none. */
static void launch(int control_fd, uint64_t number)
{
	int pair[2];
	int fds[2];
	int error = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		protocol_send_fds(control_fd, number << 16 | (uint64_t)errno, NULL, 0);
		return;
	}
	fds[0] = pair[0];
	fds[1] = start_child((enum child_kind)(number & 1), pair[1]);
	if (fds[1] < 0)
		error = -fds[1];
	protocol_send_fds(control_fd, number << 16 | (uint64_t)error, fds, error ? 0 : 2);
	close(pair[0]);
	close(pair[1]);
	if (fds[1] >= 0)
		close(fds[1]);
}

/* SIGKILL is how the monitor ends one; any other signal is news, and nobody else hears of it. */
static void tell_end(int status)
{
	char text[WHY_BYTES];
	int bytes;
	ssize_t ignored;

	if (!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL)
		return;
	bytes = snprintf(text, sizeof(text), "portcullis: a sandboxed child was killed by signal %d (%s)\n",
	                 WTERMSIG(status), strsignal(WTERMSIG(status)));
	ignored = write(STDERR_FILENO, text, (size_t)bytes);
	(void)ignored;
}

static void reap(int signal_fd)
{
	struct signalfd_siginfo info;
	int status;

	while (read(signal_fd, &info, sizeof(info)) > 0)
		;
	while (waitpid(-1, &status, WNOHANG) > 0)
		tell_end(status);
}

static int open_child_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_SETMASK, &signals, NULL);
	signal(SIGCHLD, SIG_DFL);
	/* The terminal's signals are the monitor's business; this process ends with the monitor. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void serve(int control_fd, int signal_fd)
{
	for (;;) {
		struct pollfd polls[] = {{.fd = control_fd, .events = POLLIN},
		                         {.fd = signal_fd, .events = POLLIN}};
		uint64_t number;
		size_t n_fds;
		int fds[2];

		if (poll(polls, 2, -1) < 0 && errno != EINTR)
			return;
		if (polls[1].revents)
			reap(signal_fd);
		if (!polls[0].revents)
			continue;
		if (protocol_receive_fds(control_fd, &number, fds, &n_fds, 0) != 1)
			return;
		launch(control_fd, number);
	}
}

/*
 * Of the monitor's standard descriptors only standard error is of use here. The
 * others would keep pipes open: whoever reads the monitor's output waits for its end.
 */
static int drop_standard_streams(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int error = null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0;

	return error ? -errno : 0;
}

__attribute__((noreturn)) static void run_launcher(int socket_fd, pid_t monitor)
{
	int signal_fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != monitor)
		_exit(1);
	prctl(PR_SET_NAME, "portcullis-lnch");
	if (dup2(socket_fd, LAUNCHER_FD) != LAUNCHER_FD || fcntl(LAUNCHER_FD, F_SETFD, FD_CLOEXEC) ||
	    drop_standard_streams() || close_range(LAUNCHER_FD + 1, ~0u, 0))
		_exit(1);
	signal_fd = open_child_signals();
	if (signal_fd >= 0)
		serve(LAUNCHER_FD, signal_fd);
	_exit(0);
}

int launcher_start(struct launcher **launcher, char why[static WHY_BYTES])
{
	struct launcher *made = calloc(1, sizeof(*made));
	pid_t monitor = getpid();
	int pair[2] = {-1, -1};
	int error = -ENOMEM;
	pid_t pid;

	if (!made || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		error = made ? -errno : error;
		goto out_free;
	}
	pid = fork();
	if (pid == 0)
		run_launcher(pair[1], monitor);
	error = pid < 0 ? -errno : 0;
	if (error)
		goto out_close;
	made->socket_fd = pair[0];
	made->pidfd = open_pidfd(pid);
	close(pair[1]);
	if (made->pidfd < 0) {
		error = made->pidfd;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(pair[0]);
		goto out_free;
	}
	*launcher = made;
	return 0;
out_close:
	close(pair[0]);
	close(pair[1]);
out_free:
	free(made);
	snprintf(why, WHY_BYTES, "can not start the launcher of security servers: %s", strerror(-error));
	return error;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits until fd is readable: 0, or -ETIMEDOUT. */
static int await_readable(int fd, int64_t deadline_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	for (;;) {
		int64_t left = deadline_ms - now_ms();
		int n = poll(&poll_fd, 1, left > 0 ? (int)left : 0);

		if (n > 0)
			return 0;
		if (n == 0 && left <= 0)
			return -ETIMEDOUT;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

/* The answer to the last request; answers to earlier ones, which were given up, are thrown away. */
static int await_answer(struct launcher *launcher, int fds[static 2])
{
	int64_t deadline_ms = now_ms() + ANSWER_MS;

	for (;;) {
		uint64_t number = 0;
		size_t n_fds = 0;
		int error = await_readable(launcher->socket_fd, deadline_ms);

		if (!error)
			error = protocol_receive_fds(launcher->socket_fd, &number, fds, &n_fds, MSG_DONTWAIT);
		if (error == -EAGAIN)
			continue;
		if (error <= 0)
			return error ? error : -ECONNRESET;
		if (number >> 16 == launcher->n_asked && n_fds == 2 && !(number & 0xffff))
			return 0;
		for (size_t i = 0; i < n_fds; i++)
			close(fds[i]);
		if (number >> 16 == launcher->n_asked)
			return number & 0xffff ? -(int)(number & 0xffff) : -EPROTO;
	}
}

static int order(struct launcher *launcher, enum child_kind kind)
{
	launcher->n_asked = (((launcher->n_asked >> 1) + 1) << 1) | (uint64_t)kind;
	return protocol_send_fds(launcher->socket_fd, launcher->n_asked, NULL, 0);
}

void launcher_prepare(struct launcher *launcher)
{
	if (!launcher->prepared)
		launcher->prepared = order(launcher, CHILD_SECURITY_SERVER) == 0;
}

/* One that was ordered ahead and is not what is wanted now is given up: await_answer closes it. */
static int spawn(struct launcher *launcher, enum child_kind kind, int *socket_fd, int *pidfd,
                 char why[static WHY_BYTES])
{
	static const char *const names[] = {"security server", "reader of XML"};
	bool ordered = launcher->prepared && kind == CHILD_SECURITY_SERVER;
	int fds[2];
	int error = ordered ? 0 : order(launcher, kind);

	launcher->prepared = false;
	if (!error)
		error = await_answer(launcher, fds);
	if (error) {
		snprintf(why, WHY_BYTES, "can not start a %s: %s", names[kind],
		         error == -EPIPE || error == -ECONNRESET ? "the launcher has ended"
		                                                 : strerror(-error));
		return error;
	}
	*socket_fd = fds[0];
	*pidfd = fds[1];
	return 0;
}

int launcher_spawn(struct launcher *launcher, int *socket_fd, int *pidfd, char why[static WHY_BYTES])
{
	return spawn(launcher, CHILD_SECURITY_SERVER, socket_fd, pidfd, why);
}

int launcher_spawn_xml_reader(struct launcher *launcher, int *socket_fd, int *pidfd,
                              char why[static WHY_BYTES])
{
	return spawn(launcher, CHILD_XML_READER, socket_fd, pidfd, why);
}

void launcher_stop(struct launcher *launcher)
{
	siginfo_t info;

	if (!launcher)
		return;
	close(launcher->socket_fd);
	if (await_readable(launcher->pidfd, now_ms() + ANSWER_MS))
		syscall(SYS_pidfd_send_signal, launcher->pidfd, SIGKILL, NULL, 0);
	waitid((idtype_t)P_PIDFD, (id_t)launcher->pidfd, &info, WEXITED);
	close(launcher->pidfd);
	free(launcher);
}
