/* The launcher, and the walls around the servers that it starts. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policy/protocol.h"
#include "policy/sandbox.h"
#include "tests/policy/harness.h"

#define FAR_MS 120000

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

/* The number behind "name:" in /proc/PID/FILE, in that base; -1. */
static long long read_proc(const char *path, const char *name, int base)
{
	FILE *file = fopen(path, "re");
	char line[256];
	long long number = -1;

	while (file && number < 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0)
			number = strtoll(line + strlen(name) + 1, NULL, base);
	if (file)
		fclose(file);
	return number;
}

static pid_t pid_of(int pidfd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	return (pid_t)read_proc(path, "Pid", 10);
}

static long long status_of(pid_t pid, const char *name, int base)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return read_proc(path, name, base);
}

/* Processes whose parent that is. */
static unsigned n_children(long long parent)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	unsigned n = 0;

	cr_assert_not_null(directory);
	while ((entry = readdir(directory)))
		n += atoi(entry->d_name) > 0 && status_of(atoi(entry->d_name), "PPid", 10) == parent;
	closedir(directory);
	return n;
}

Test(launcher, starts_any_number)
{
	enum {
		N = 20
	};
	struct launcher *launcher;
	struct server *servers[N];
	char why[WHY_BYTES];
	int sockets[N];
	int pidfds[N];

	cr_assert_eq(launcher_start(&launcher, why), 0, "%s", why);
	for (unsigned i = 0; i < N; i++) {
		cr_assert_eq(launcher_spawn(launcher, &sockets[i], &pidfds[i], why), 0, "%s", why);
		cr_assert_eq(fcntl(sockets[i], F_GETFD), FD_CLOEXEC);
		cr_assert_eq(fcntl(pidfds[i], F_GETFD), FD_CLOEXEC);
		for (unsigned j = 0; j < i; j++)
			cr_assert_neq(pid_of(pidfds[i]), pid_of(pidfds[j]));
		servers[i] = server_open(sockets[i], pidfds[i]);
	}
	for (unsigned i = 0; i < N; i++)
		server_close(servers[i]);
	launcher_stop(launcher);
	launcher_stop(NULL);
}

/* The first that is wanted is the one that was ordered ahead; the next is another. */
Test(launcher, prepares_one)
{
	struct launcher *launcher;
	struct server *servers[2];
	pid_t pids[2];
	char why[WHY_BYTES];

	cr_assert_eq(launcher_start(&launcher, why), 0, "%s", why);
	launcher_prepare(launcher);
	launcher_prepare(launcher);
	for (unsigned i = 0; i < 2; i++) {
		int socket_fd, pidfd;

		cr_assert_eq(launcher_spawn(launcher, &socket_fd, &pidfd, why), 0, "%s", why);
		pids[i] = pid_of(pidfd);
		servers[i] = server_open(socket_fd, pidfd);
	}
	/* One order, one process: no third was started between them. */
	cr_assert_neq(pids[0], pids[1]);
	cr_assert_eq(status_of(pids[0], "PPid", 10), status_of(pids[1], "PPid", 10));
	cr_assert_eq(n_children(status_of(pids[0], "PPid", 10)), 2);
	server_close(servers[0]);
	server_close(servers[1]);
	launcher_stop(launcher);
}

/* A server that has ended is reaped: its pid can be used again. */
Test(launcher, reaps)
{
	struct harness *harness = harness_open();
	int ended = fcntl(harness->pidfd, F_DUPFD_CLOEXEC, 0);
	bool reaped = false;

	/* Each new server passes through the launcher's loop, which reaps first. */
	for (unsigned i = 0; i < 1000 && !reaped; i++) {
		harness_renew(harness);
		cr_assert(is_readable(ended, FAR_MS));
		reaped = syscall(SYS_pidfd_send_signal, ended, 0, NULL, 0) < 0 && errno == ESRCH;
	}
	cr_assert(reaped);
	close(ended);
	harness_close(harness);
}

Test(launcher, its_end_is_an_error)
{
	struct harness *harness = harness_open();
	pid_t launcher = (pid_t)status_of(pid_of(harness->pidfd), "PPid", 10);
	char why[WHY_BYTES];
	int socket_fd;
	int pidfd;

	cr_assert_gt(launcher, 1);
	kill(launcher, SIGKILL);
	cr_assert(is_readable(harness->pidfd, FAR_MS), "its servers end with it");
	cr_assert_eq(harness_load(harness, (struct harness_file[]){{"x", "(type", 0}, {0}}), -ECONNRESET);
	cr_assert_lt(launcher_spawn(harness->launcher, &socket_fd, &pidfd, why), 0);
	cr_assert_str_eq(why, "can not start a security server: the launcher has ended");
	harness_close(harness);
}

/* A launcher that does not answer holds the monitor up for 2 s, no longer. */
Test(launcher, silence_is_an_error)
{
	struct harness *harness = harness_open();
	pid_t launcher = (pid_t)status_of(pid_of(harness->pidfd), "PPid", 10);
	char why[WHY_BYTES];
	int socket_fd;
	int pidfd;

	kill(launcher, SIGSTOP);
	cr_assert_eq(launcher_spawn(harness->launcher, &socket_fd, &pidfd, why), -ETIMEDOUT);
	/* The late answer is not taken for the next one's. */
	kill(launcher, SIGCONT);
	harness_renew(harness);
	cr_assert_eq(harness_load(harness, (struct harness_file[]){{"base", harness_base, 0}, {0}}), 0);
	harness_close(harness);
}

/* What a monitor is to this test: it starts a server, hands out its pidfd and the launcher's, and dies. */
static void be_monitor(int report_fd)
{
	struct launcher *launcher;
	char why[WHY_BYTES];
	int fds[2];
	int socket_fd;

	if (launcher_start(&launcher, why) || launcher_spawn(launcher, &socket_fd, &fds[0], why))
		_exit(1);
	fds[1] = (int)syscall(SYS_pidfd_open, (pid_t)status_of(pid_of(fds[0]), "PPid", 10), 0);
	if (fds[1] < 0 || protocol_send_fds(report_fd, 0, fds, 2))
		_exit(1);
	raise(SIGKILL);
}

Test(launcher, dies_with_the_monitor)
{
	int pair[2];
	int fds[2];
	size_t n_fds;
	uint64_t number;
	pid_t monitor;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	monitor = fork();
	if (monitor == 0)
		be_monitor(pair[1]);
	cr_assert(is_readable(pair[0], FAR_MS));
	cr_assert_eq(protocol_receive_fds(pair[0], &number, fds, &n_fds, 0), 1);
	cr_assert_eq(n_fds, 2);
	cr_assert(is_readable(fds[0], FAR_MS), "the server ends");
	cr_assert(is_readable(fds[1], FAR_MS), "the launcher ends");
	waitpid(monitor, NULL, 0);
}

/* The descriptors of a process, as bits. */
static uint64_t list_fds(pid_t pid)
{
	char path[64];
	uint64_t fds = 0;
	struct dirent *entry;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	directory = opendir(path);
	if (!directory)
		return 0;
	while ((entry = readdir(directory)))
		if (entry->d_name[0] != '.' && atoi(entry->d_name) < 64)
			fds |= UINT64_C(1) << atoi(entry->d_name);
	closedir(directory);
	return fds;
}

/* H11: what a policy that takes over its server would find. */
Test(launcher, server_has_nothing)
{
	int leak = open("/dev/null", O_RDONLY); /* on purpose without close-on-exec */
	struct harness *harness = harness_open();
	pid_t pid = pid_of(harness->pidfd);

	cr_assert_geq(leak, 0);
	cr_assert_eq(harness_load(harness, (struct harness_file[]){{"base", harness_base, 0}, {0}}), 0);
	harness_ask(harness, "u:r:a_t:s0", "u:r:b_t:s0",
	            CLASS_CHANNEL); /* it has closed its sandbox by now */
	cr_assert_eq(status_of(pid, "NoNewPrivs", 10), 1);
	cr_assert_eq(status_of(pid, "Seccomp", 10), 2);
	cr_assert_eq(status_of(pid, "Seccomp_filters", 10), status_of(getpid(), "Seccomp_filters", 10) + 2);
	cr_assert_eq(status_of(pid, "CapEff", 16), 0);
	cr_assert_eq(status_of(pid, "CapPrm", 16), 0);
	cr_assert_eq(status_of(pid, "CapInh", 16), 0);
	if (geteuid() == 0) {
		cr_assert_eq(status_of(pid, "CapBnd", 16), 0);
		cr_assert_eq(list_fds(pid), 0xf, "standard descriptors and the socket: %lx",
		             (unsigned long)list_fds(pid));
	}
	close(leak);
	harness_close(harness);
}

enum deed {
	OPEN_FILE,
	OPEN_SOCKET,
	START_PROCESS,
	MAP_CODE,
	WRITE_ELSEWHERE,
	USE_OTHER_SOCKET,
	MAKE_MEMFD
};

/* Returns only if it was let through, or refused without harm. */
static bool do_deed(enum deed deed, int other_fd)
{
	switch (deed) {
	case OPEN_FILE:
		return open("/proc/self/status", O_RDONLY) >= 0; /* libraries try it: no reason to die */
	case OPEN_SOCKET:
		return socket(AF_INET, SOCK_STREAM, 0) >= 0;
	case START_PROCESS:
		return syscall(SYS_fork) >= 0;
	case MAP_CODE:
		return syscall(SYS_mmap, NULL, 4096, 7, 0x22, -1, 0) != -1;
	case WRITE_ELSEWHERE:
		return syscall(SYS_write, STDOUT_FILENO, "x", 1) == 1;
	case USE_OTHER_SOCKET:
		return syscall(SYS_sendmsg, other_fd, NULL, 0) >= 0;
	default:
		return syscall(SYS_memfd_create, "x", 0) >= 0;
	}
}

/* How a process ends that does that in the second stage of the sandbox. */
static int try_deed(enum deed deed)
{
	int pair[2];
	int status;
	pid_t pid;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		if (sandbox_enter_load(pair[0]) || sandbox_enter_serve(pair[0]))
			_exit(2);
		_exit(do_deed(deed, pair[1]));
	}
	close(pair[0]);
	close(pair[1]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

Test(sandbox, kills)
{
	static const enum deed deeds[] = {OPEN_SOCKET,     START_PROCESS,    MAP_CODE,
	                                  WRITE_ELSEWHERE, USE_OTHER_SOCKET, MAKE_MEMFD};

	for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
		int status = try_deed(deeds[i]);

		cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "deed %d: %x", deeds[i],
		          (unsigned)status);
	}
}

Test(sandbox, opens_no_file)
{
	int status = try_deed(OPEN_FILE);

	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", (unsigned)status);
}
