#include "monitor/bench/first.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor/loop.h"

#define PATIENCE_MS 20000
#define LINE ": first instruction\n" /* what guest/programs/first.c says, behind its name */
#define HEAP_KIB (FIRST_MIB * 1024 / FIRST_VCPUS - 1024)

extern const char base_cil[]; /* terminated: base_cil.S */

enum file {
	FILE_MANIFEST,
	FILE_POLICY,
	FILE_BASE,
	FILE_SOCKET, /* the program's own */
	N_FILES
};

struct first {
	const char *program_dir;
	char folder[64];
	char path[N_FILES][96];
};

/* ---- files ---- */

static int write_file(const char *path, const char *text, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int error = fd < 0 ? -errno : 0;

	if (error == 0 && write(fd, text, bytes) != (ssize_t)bytes)
		error = -EIO;
	if (fd >= 0)
		close(fd);
	return error;
}

static int write_files(const struct first *first)
{
	static const char policy[] = "(type first_t)\n(call a_domain (first_t))\n";
	char manifest[2048];
	int n = snprintf(manifest, sizeof(manifest),
	                 "name = \"bench\";\nvcpus = %u;\npolicy = (\"base.cil\", \"first.cil\");\n"
	                 "domains = (",
	                 FIRST_VCPUS);
	int error;

	for (unsigned d = 0; d < FIRST_VCPUS; d++)
		n += snprintf(manifest + n, sizeof(manifest) - (size_t)n,
		              "%s\n  { name = \"d%u\"; program = \"first\"; vcpu = %u; heap_kib = %u;\n"
		              "    context = \"system_u:system_r:first_t:s0\"; }",
		              d ? "," : "", d, d, HEAP_KIB);
	n += snprintf(manifest + n, sizeof(manifest) - (size_t)n, "\n);\n");
	error = write_file(first->path[FILE_MANIFEST], manifest, (size_t)n);
	if (error == 0)
		error = write_file(first->path[FILE_POLICY], policy, sizeof(policy) - 1);
	if (error == 0)
		error = write_file(first->path[FILE_BASE], base_cil, strlen(base_cil));
	return error;
}

int first_create(const char *program_dir, struct first **out, char why[static WHY_BYTES])
{
	static const char *const names[N_FILES] = {"first.conf", "first.cil", "base.cil", "control"};
	struct first *first = calloc(1, sizeof(*first));
	int error = first ? 0 : -ENOMEM;

	if (first) {
		first->program_dir = program_dir;
		snprintf(first->folder, sizeof(first->folder), "/tmp/portcullis-bench-XXXXXX");
		if (!mkdtemp(first->folder)) {
			error = -errno;
			first->folder[0] = '\0';
		}
	}
	for (int i = 0; i < N_FILES && error == 0; i++)
		snprintf(first->path[i], sizeof(first->path[i]), "%s/%s", first->folder, names[i]);
	if (error == 0)
		error = write_files(first);
	if (error < 0) {
		snprintf(why, WHY_BYTES, "/tmp: files of the guest that is started: %s", strerror(-error));
		first_destroy(first);
		return error;
	}
	*out = first;
	return 0;
}

void first_destroy(struct first *first)
{
	if (!first)
		return;
	for (int i = 0; i < N_FILES; i++)
		if (first->path[i][0])
			unlink(first->path[i]);
	if (first->folder[0])
		rmdir(first->folder);
	free(first);
}

/* ---- a process ---- */

static int spawn(const struct first *first, int error_fd, pid_t *pid)
{
	char *argv[] = {(char *)"portcullis",
	                (char *)"run",
	                (char *)first->path[FILE_MANIFEST],
	                (char *)"--socket",
	                (char *)first->path[FILE_SOCKET],
	                first->program_dir ? (char *)"--programs" : NULL,
	                (char *)first->program_dir,
	                NULL};
	posix_spawn_file_actions_t actions;
	int error;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, error_fd, STDERR_FILENO);
	error = -posix_spawn(pid, "/proc/self/exe", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

/* What it has said so far stays in text for the message. */
static int await_line(int fd, char *text, size_t bytes)
{
	size_t n = 0;

	while (n < bytes - 1) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		ssize_t got;

		if (poll(&ready, 1, PATIENCE_MS) <= 0)
			return -ETIMEDOUT;
		got = read(fd, text + n, bytes - 1 - n);
		if (got <= 0)
			return -ECHILD;
		n += (size_t)got;
		text[n] = '\0';
		if (strstr(text, LINE))
			return 0;
	}
	return -EPROTO;
}

/* In order, so that nothing is left: its end closes the pipe. */
static int end(pid_t pid, int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	char text[4096];
	int status = 0;

	kill(pid, SIGTERM);
	while (poll(&ready, 1, PATIENCE_MS) > 0 && read(fd, text, sizeof(text)) > 0)
		;
	kill(pid, SIGKILL); /* nothing, if it has ended */
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

static int time_process(const struct first *first, int ends[2], double *us, char *text, size_t bytes)
{
	uint64_t begun = loop_now();
	pid_t pid;
	int error = spawn(first, ends[1], &pid), ended;

	close(ends[1]);
	if (error < 0)
		return error;
	error = await_line(ends[0], text, bytes);
	*us = (double)(loop_now() - begun) / 1000.0;
	ended = end(pid, ends[0]);
	return error < 0 ? error : ended;
}

int first_instruction(struct first *first, double *us, char why[static WHY_BYTES])
{
	char text[4096] = "";
	int ends[2], error;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		error = -errno;
	} else {
		error = time_process(first, ends, us, text, sizeof(text));
		close(ends[0]);
	}
	text[strcspn(text, "\n")] = '\0';
	if (error < 0)
		snprintf(why, WHY_BYTES, "portcullis run: %s; it said: %.300s", strerror(-error),
		         text[0] ? text : "nothing");
	return error;
}
