#include "tests/monitor/cli_child.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor/loop.h"

#define FINISH_MS 60000
#define AWAIT_NS 30000000000ull
#define MOST_ARGUMENTS 32

extern char **environ;

/* ---- the folder ---- */

static char folder[64];
static pid_t folder_owner;

static void remove_folder(void)
{
	DIR *dir = getpid() == folder_owner ? opendir(folder) : NULL;
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	if (getpid() == folder_owner)
		rmdir(folder);
}

const char *test_folder(void)
{
	if (!folder[0]) {
		snprintf(folder, sizeof(folder), "/tmp/portcullis-test.XXXXXX");
		cr_assert_not_null(mkdtemp(folder));
		folder_owner = getpid();
		atexit(remove_folder);
	}
	return folder;
}

const char *test_path(const char *format, ...)
{
	static char paths[32][256];
	static unsigned next;
	char *path = paths[next++ % 32];
	int n = snprintf(path, sizeof(paths[0]), "%s/", test_folder());
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(path + n, sizeof(paths[0]) - (size_t)n, format, arguments);
	va_end(arguments);
	return path;
}

const char *test_file(const char *name, const char *text)
{
	const char *path = test_path("%s", name);
	FILE *file = fopen(path, "we");

	cr_assert_not_null(file, "%s: %m", path);
	fputs(text, file);
	cr_assert_eq(fclose(file), 0);
	return path;
}

/* ---- the child ---- */

/* DIR/tests/SUITE is the test, DIR/portcullis the program. */
static const char *portcullis(void)
{
	static char path[PATH_MAX + 16];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	cr_assert_gt(n, 0);
	path[n] = '\0';
	for (int i = 0; i < 2; i++) {
		slash = strrchr(path, '/');
		cr_assert_not_null(slash);
		*slash = '\0';
	}
	strcat(path, "/portcullis");
	return path;
}

struct child child_start(const char *const *arguments)
{
	return child_start_program(portcullis(), arguments);
}

struct child child_start_program(const char *program, const char *const *arguments)
{
	struct child child = {.status = -1};
	char *argv[MOST_ARGUMENTS + 2] = {(char *)program};
	posix_spawn_file_actions_t actions;

	for (int i = 0; arguments[i]; i++) {
		cr_assert_lt(i, MOST_ARGUMENTS);
		argv[i + 1] = (char *)arguments[i];
	}
	child.out_fd = memfd_create("stdout", MFD_CLOEXEC);
	child.err_fd = memfd_create("stderr", MFD_CLOEXEC);
	cr_assert(child.out_fd >= 0 && child.err_fd >= 0);
	/* As a shell would: each write goes behind what is there. */
	fcntl(child.err_fd, F_SETFL, O_APPEND);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, child.out_fd, 1);
	posix_spawn_file_actions_adddup2(&actions, child.err_fd, 2);
	cr_assert_eq(posix_spawnp(&child.pid, argv[0], &actions, NULL, argv, environ), 0, "%s", argv[0]);
	posix_spawn_file_actions_destroy(&actions);
	child.pidfd = (int)syscall(SYS_pidfd_open, child.pid, 0);
	cr_assert_geq(child.pidfd, 0);
	return child;
}

static char *read_text(int fd)
{
	char *text = calloc(1, CHILD_TEXT_BYTES + 1);

	cr_assert_not_null(text);
	cr_assert_geq(pread(fd, text, CHILD_TEXT_BYTES, 0), 0);
	return text;
}

void child_finish(struct child *child)
{
	struct pollfd wait = {.fd = child->pidfd, .events = POLLIN};
	bool ended = poll(&wait, 1, FINISH_MS) == 1;
	int status;

	if (!ended)
		kill(child->pid, SIGKILL);
	waitpid(child->pid, &status, 0);
	child->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	child->out = read_text(child->out_fd);
	child->err = read_text(child->err_fd);
	close(child->pidfd);
	close(child->out_fd);
	close(child->err_fd);
	cr_assert(ended, "still there after a minute; it said: %s", child->err);
}

void child_await(struct child *child, const char *text)
{
	uint64_t deadline = loop_now() + AWAIT_NS;
	struct pollfd wait = {.fd = child->pidfd, .events = POLLIN};
	bool found = false;

	while (!found && loop_now() < deadline) {
		bool ended = poll(&wait, 1, 10) == 1;
		char *err = read_text(child->err_fd);

		found = strstr(err, text) != NULL;
		cr_assert(found || !ended, "ended without saying \"%s\": %s", text, err);
		free(err);
	}
	cr_assert(found, "did not say \"%s\"", text);
}

void child_signal(const struct child *child, int signal)
{
	cr_assert_eq(kill(child->pid, signal), 0);
}

void child_free(struct child *child)
{
	free(child->out);
	free(child->err);
}

struct child child_run(const char *const *arguments)
{
	struct child child = child_start(arguments);

	child_finish(&child);
	return child;
}

void child_expect(struct child *child, int status, const char *err_holds, const char *file, int line)
{
	cr_expect_eq(child->status, status, "%s:%d: status %d, not %d; stderr: %s", file, line, child->status,
	             status, child->err);
	cr_expect(strstr(child->err, err_holds), "%s:%d: \"%s\" is not in: %s", file, line, err_holds,
	          child->err);
	child_free(child);
}

void need_kvm(void)
{
	const char *ci = getenv("CI");

	if (access("/dev/kvm", R_OK | W_OK) == 0)
		return;
	cr_assert_not(ci && strcmp(ci, "true") == 0, "CI has to have /dev/kvm");
	cr_skip_test("no /dev/kvm");
}
