/*
 * The monitor's own sandbox: what it has no use for is gone once guests run (design: 7, "Sandbox").
 */
#include "monitor/confine.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/monitor/cli_child.h"
#include "vmm/priority.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void skip_if_sanitized(void)
{
	if (SANITIZED)
		cr_skip_test("sanitized builds are not confined");
}

/* How a confined process that does this ends: its status, or 128 + signal. */
static int confined_status(void (*does)(void))
{
	char why[WHY_BYTES];
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (confine_process(-1, why) < 0)
			_exit(99);
		does();
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void run_a_program(void)
{
	char *arguments[] = {"true", NULL};

	execv("/bin/true", arguments);
}

static void *open_socket(void *opaque)
{
	confine_thread();
	return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? NULL : opaque;
}

static void in_a_thread(void *(*does)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, does, NULL) != 0)
		_exit(1);
	pthread_join(thread, NULL);
}

static void use_a_socket_in_a_thread(void)
{
	in_a_thread(open_socket);
}

static void *take_priority(void *opaque)
{
	confine_thread();
	return priority_raise() ? opaque : NULL;
}

static void *give_priority_back(void *opaque)
{
	confine_thread();
	priority_give_back();
	return opaque;
}

static void raise_in_a_thread(void)
{
	in_a_thread(take_priority);
}

static void lower_in_a_thread(void)
{
	in_a_thread(give_priority_back);
}

/* Each line is one reason to leave with its number. */
static void try_the_rest(void)
{
	int fd = memfd_create("t", MFD_CLOEXEC);
	char path[64];

	if (open("/etc/passwd", O_RDONLY) >= 0 || errno != EACCES)
		_exit(1);
	if (open("/tmp/portcullis-confine", O_WRONLY | O_CREAT, 0600) >= 0)
		_exit(2);
	if (socket(AF_INET, SOCK_STREAM, 0) >= 0)
		_exit(3);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		_exit(4);
	if (fork() >= 0)
		_exit(5);
	/* And what it needs: a memory file opened again for reading alone. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || open(path, O_RDONLY) < 0)
		_exit(6);
	if (socket(AF_UNIX, SOCK_STREAM, 0) < 0)
		_exit(7);
}

Test(confine, an_intruder_ends_the_process)
{
	skip_if_sanitized();
	cr_expect_eq(confined_status(run_a_program), 128 + SIGSYS);
	cr_expect_eq(confined_status(use_a_socket_in_a_thread), 128 + SIGSYS);
}

/* A thread that enters a guest gives back a priority that was lent to it, and takes none. */
Test(confine, priority_only_goes_down)
{
	skip_if_sanitized();
	cr_expect_eq(confined_status(lower_in_a_thread), 0);
	cr_expect_eq(confined_status(raise_in_a_thread), 128 + SIGSYS);
}

Test(confine, what_is_not_needed_is_refused)
{
	skip_if_sanitized();
	cr_expect_eq(confined_status(try_the_rest), 0);
}

/* The number behind a word in /proc/PID/task/TID/status. */
static long status_of(pid_t pid, const char *thread, const char *word)
{
	char path[320], line[256];
	long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, thread);
	file = fopen(path, "re");
	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, word, strlen(word)) == 0)
			value = strtol(line + strlen(word), NULL, 10);
	fclose(file);
	return value;
}

/* Each thread of a monitor that serves a guest: the loop under one filter, vCPUs and writer under two. */
Test(confine, every_thread_of_a_monitor_is)
{
	const char *path = test_path("s");
	struct child server;
	struct dirent *entry;
	int n_threads = 0, n_tight = 0;
	char tasks[64];
	DIR *dir;

	skip_if_sanitized();
	need_kvm();
	server = START("run", "examples/demo/demo.conf", "--programs", "build/domains", "--socket", path);
	child_await(&server, "connected to relay");
	snprintf(tasks, sizeof(tasks), "/proc/%d/task", server.pid);
	dir = opendir(tasks);
	cr_assert_not_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		n_threads++;
		cr_expect_eq(status_of(server.pid, entry->d_name, "Seccomp:"), 2);
		cr_expect_eq(status_of(server.pid, entry->d_name, "NoNewPrivs:"), 1);
		n_tight += status_of(server.pid, entry->d_name, "Seccomp_filters:") == 2;
	}
	closedir(dir);
	cr_expect_geq(n_threads, 3, "%d", n_threads); /* loop, writer, vCPUs */
	cr_expect_eq(n_tight, n_threads - 1, "%d", n_tight);
	child_signal(&server, SIGTERM);
	child_finish(&server);
	EXPECT(server, 0, "");
}
