#include "monitor/bench/qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor/loop.h"

#define PATIENCE_MS 20000
#define QMP_FD 3

struct qemu {
	pid_t pid;
	int fd;
};

/* Reads until `word` has come: answers and events are lines, and what lies between is of no interest. */
static int await(struct qemu *qemu, const char *word)
{
	char text[8192];
	size_t n = 0;

	for (;;) {
		struct pollfd ready = {.fd = qemu->fd, .events = POLLIN};
		ssize_t got;

		if (poll(&ready, 1, PATIENCE_MS) <= 0)
			return -ETIMEDOUT;
		got = read(qemu->fd, text + n, sizeof(text) - 1 - n);
		if (got <= 0)
			return -ECONNRESET;
		n += (size_t)got;
		text[n] = '\0';
		if (strstr(text, "\"error\""))
			return -EPROTO;
		if (strstr(text, word) && text[n - 1] == '\n')
			return 0;
		if (n == sizeof(text) - 1)
			n = 0;
	}
}

static int ask(struct qemu *qemu, const char *command)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "{\"execute\": \"%s\"}\n", command);

	if (write(qemu->fd, line, (size_t)n) != n)
		return -ECONNRESET;
	return await(qemu, "\"return\"");
}

int qemu_stop_resume(struct qemu *qemu, double *us)
{
	uint64_t begun = loop_now();
	int error = ask(qemu, "stop");

	if (error == 0)
		error = ask(qemu, "cont");
	*us = (double)(loop_now() - begun) / 1000.0;
	return error;
}

static int spawn(struct qemu *qemu, uint32_t n_vcpus, int child_fd)
{
	char cpus[16];
	char *argv[] = {(char *)"qemu-system-x86_64",
	                (char *)"-machine",
	                (char *)"microvm,accel=kvm",
	                (char *)"-nodefaults",
	                (char *)"-display",
	                (char *)"none",
	                (char *)"-m",
	                (char *)"64",
	                (char *)"-smp",
	                cpus,
	                (char *)"-chardev",
	                (char *)"socket,fd=3,id=qmp",
	                (char *)"-mon",
	                (char *)"chardev=qmp,mode=control",
	                NULL};
	posix_spawn_file_actions_t actions;
	int error;

	snprintf(cpus, sizeof(cpus), "%u", n_vcpus);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, child_fd, QMP_FD);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	error = -posix_spawnp(&qemu->pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

int qemu_open(uint32_t n_vcpus, struct qemu **out, char why[static WHY_BYTES])
{
	struct qemu *qemu = calloc(1, sizeof(*qemu));
	int ends[2], error = qemu ? 0 : -ENOMEM;

	if (error == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		error = -errno;
	if (error < 0) {
		free(qemu);
		snprintf(why, WHY_BYTES, "QEMU: %s", strerror(-error));
		return error;
	}
	qemu->fd = ends[0];
	/* dup2 onto itself would leave it closed on exec. */
	if (ends[1] == QMP_FD)
		ends[1] = fcntl(QMP_FD, F_DUPFD_CLOEXEC, QMP_FD + 1);
	error = spawn(qemu, n_vcpus, ends[1]);
	close(ends[1]);
	if (error < 0)
		qemu->pid = 0;
	else
		error = await(qemu, "\"QMP\"");
	if (error == 0)
		error = ask(qemu, "qmp_capabilities");
	if (error == 0) {
		*out = qemu;
		return 0;
	}
	snprintf(why, WHY_BYTES,
	         error == -ENOENT ? "qemu-system-x86_64 is not installed" : "QEMU does not answer: %s",
	         strerror(-error));
	qemu_close(qemu);
	return error;
}

void qemu_close(struct qemu *qemu)
{
	if (!qemu)
		return;
	if (qemu->pid > 0) {
		kill(qemu->pid, SIGKILL);
		waitpid(qemu->pid, NULL, 0);
	}
	close(qemu->fd);
	free(qemu);
}

/* ---- its first instruction ---- */

#define FIRMWARE_BYTES 65536u
#define FIRMWARE_FD 4
#define FIRMWARE_PATH "/proc/self/fd/4"
#define GREETING '!'

/* 16 bytes before the end of what lies below 4 GiB: where a processor begins, in real mode. */
static const uint8_t reset_vector[16] = {
	0xba, 0xf8,     0x03, /* mov $0x3f8, %dx */
	0xb0, GREETING,       /* mov $GREETING, %al */
	0xee,                 /* out %al, (%dx) */
	0xf4, 0xeb,     0xfd, /* 1: hlt; jmp 1b */
};

static int firmware_open(void)
{
	int fd = memfd_create("firmware", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, FIRMWARE_BYTES) == 0 &&
	    pwrite(fd, reset_vector, sizeof(reset_vector), FIRMWARE_BYTES - sizeof(reset_vector)) ==
	            (ssize_t)sizeof(reset_vector))
		return fd;
	close(fd);
	return -EIO;
}

static int spawn_firmware(uint32_t n_vcpus, uint32_t mib, int firmware_fd, int serial_fd, pid_t *pid)
{
	char cpus[16], memory[16];
	char *argv[] = {(char *)"qemu-system-x86_64",
	                (char *)"-machine",
	                (char *)"microvm,accel=kvm",
	                (char *)"-nodefaults",
	                (char *)"-no-user-config",
	                (char *)"-display",
	                (char *)"none",
	                (char *)"-m",
	                memory,
	                (char *)"-smp",
	                cpus,
	                (char *)"-bios",
	                (char *)FIRMWARE_PATH,
	                (char *)"-serial",
	                (char *)"stdio",
	                NULL};
	posix_spawn_file_actions_t actions;
	int error;

	snprintf(cpus, sizeof(cpus), "%u", n_vcpus);
	snprintf(memory, sizeof(memory), "%u", mib);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, serial_fd, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, firmware_fd, FIRMWARE_FD);
	error = -posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

static int await_greeting(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	char byte = 0;

	if (poll(&ready, 1, PATIENCE_MS) <= 0)
		return -ETIMEDOUT;
	if (read(fd, &byte, 1) != 1)
		return -ECONNRESET;
	return byte == GREETING ? 0 : -EPROTO;
}

/* pair: a pipe, whose second end is closed here. */
static int time_firmware(uint32_t n_vcpus, uint32_t mib, int firmware_fd, int pair[2], double *us)
{
	uint64_t begun = loop_now();
	pid_t pid;
	int error = spawn_firmware(n_vcpus, mib, firmware_fd, pair[1], &pid);

	close(pair[1]);
	if (error < 0)
		return error;
	error = await_greeting(pair[0]);
	*us = (double)(loop_now() - begun) / 1000.0;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return error;
}

int qemu_first_instruction(uint32_t n_vcpus, uint32_t mib, double *us, char why[static WHY_BYTES])
{
	int firmware_fd = firmware_open(), pair[2];
	int error = firmware_fd < 0 ? firmware_fd : 0;

	if (error == 0 && pipe2(pair, O_CLOEXEC) < 0)
		error = -errno;
	if (error == 0) {
		/* dup2 onto itself would leave it closed on exec. */
		int fd = fcntl(firmware_fd, F_DUPFD_CLOEXEC, FIRMWARE_FD + 1);

		error = time_firmware(n_vcpus, mib, fd, pair, us);
		close(pair[0]);
		close(fd);
	}
	if (firmware_fd >= 0)
		close(firmware_fd);
	if (error < 0)
		snprintf(why, WHY_BYTES,
		         error == -ENOENT ? "qemu-system-x86_64 is not installed"
		                          : "QEMU does not start its guest: %s",
		         strerror(-error));
	return error;
}
