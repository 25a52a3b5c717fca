#include "monitor/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/kvm.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* Whoever calls one of these has been taken over. */
static const int deadly_calls[] = {
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(bpf),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(unshare),
	SCMP_SYS(setns),
	SCMP_SYS(keyctl),
	SCMP_SYS(add_key),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(open_by_handle_at),
};

/* libc tries these where it can do without. */
static const int refused_calls[] = {
	SCMP_SYS(open), SCMP_SYS(creat), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(readlink),
};

/* What a vCPU thread does between two entries into the guest, and what the writer does. */
static const int thread_calls[] = {
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(fallocate),
	SCMP_SYS(futex),
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(pread64),
	SCMP_SYS(writev),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(tgkill),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(sched_yield),
	SCMP_SYS(rseq),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(close),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(eventfd2),
	SCMP_SYS(fcntl),
};

/* The loop, the writer, and what starts a guest. */
static const int process_calls[] = {
	SCMP_SYS(newfstatat),
	SCMP_SYS(memfd_create),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fstat),
	SCMP_SYS(lseek),
	SCMP_SYS(pwrite64),
	SCMP_SYS(readv),
	SCMP_SYS(dup),
	SCMP_SYS(dup3),
	SCMP_SYS(pipe2),

	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(signalfd4),
	SCMP_SYS(getrandom),
	SCMP_SYS(socketpair),
	SCMP_SYS(connect),
	SCMP_SYS(accept4),
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(recvfrom),
	SCMP_SYS(shutdown),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(openat2),
	SCMP_SYS(flock),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(waitid),
	SCMP_SYS(wait4),
	SCMP_SYS(uname),
	SCMP_SYS(sysinfo),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getrusage),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_setscheduler),
	SCMP_SYS(sched_getscheduler),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_setparam),
	SCMP_SYS(sched_get_priority_max),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(seccomp),
	SCMP_SYS(getrlimit),
	SCMP_SYS(mlock),
	SCMP_SYS(munlock),
	SCMP_SYS(getpriority),
	SCMP_SYS(clock_getres),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(membarrier),
};

static bool confined;
static _Thread_local bool thread_confined;

static int add_calls(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t n_calls)
{
	int error = 0;

	for (size_t i = 0; i < n_calls && !error; i++)
		error = seccomp_rule_add(filter, action, calls[i], 0);
	return error;
}

static int allow_memory(scmp_filter_ctx filter)
{
	int error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
	                             SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	return error ? error
	             : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
	                                SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

/* Threads, no processes: clone3 hides its flags in memory, and libc goes back to clone when it is not there.
 */
static int allow_process_narrowly(scmp_filter_ctx filter)
{
	const struct {
		int call;
		struct scmp_arg_cmp argument;
	} narrow[] = {
		{SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)},
		{SCMP_SYS(socket), SCMP_A0(SCMP_CMP_EQ, AF_UNIX)},
		{SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME)},
		{SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP)},
		/* Memory files are opened again, for reading, through /proc/self/fd. */
		{SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY)},
		/* Limits can be read. */
		{SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0)},
	};
	int error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 0);

	for (size_t i = 0; i < N(narrow) && !error; i++)
		error = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, narrow[i].call, 1,
		                               &narrow[i].argument);
	return error;
}

static int allow_thread_narrowly(scmp_filter_ctx filter)
{
	int error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
	                             SCMP_A1(SCMP_CMP_NE, KVM_CREATE_VM));

	if (!error)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
		                         SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
	/* It gives back what was lent (vmm/priority.h), and takes none. */
	return error ? error
	             : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sched_setscheduler), 2,
	                                SCMP_A0(SCMP_CMP_EQ, 0),
	                                SCMP_A1(SCMP_CMP_EQ, SCHED_OTHER | SCHED_RESET_ON_FORK));
}

/* Compiled filters; never freed, and not written after confine_process. */
static struct sock_fprog process_filter, thread_filter;

/* libseccomp 2.5 gives its program to a descriptor alone. */
static int take_program(scmp_filter_ctx filter, struct sock_fprog *program)
{
	int fd = memfd_create("portcullis-filter", MFD_CLOEXEC);
	int error = fd < 0 ? -errno : seccomp_export_bpf(filter, fd);
	off_t bytes = error ? 0 : lseek(fd, 0, SEEK_END);

	if (!error && (bytes <= 0 || bytes > (off_t)(BPF_MAXINSNS * sizeof(*program->filter))))
		error = -E2BIG;
	if (!error) {
		program->filter = malloc((size_t)bytes);
		if (!program->filter || pread(fd, program->filter, (size_t)bytes, 0) != bytes)
			error = -ENOMEM;
	}
	program->len = error ? 0 : (unsigned short)((size_t)bytes / sizeof(*program->filter));
	if (fd >= 0)
		close(fd);
	return error;
}

static int compile(uint32_t otherwise, bool process, struct sock_fprog *program)
{
	scmp_filter_ctx filter = seccomp_init(otherwise);
	int error = filter ? 0 : -ENOMEM;

	if (!error)
		error = add_calls(filter, SCMP_ACT_ALLOW, thread_calls, N(thread_calls));
	if (!error)
		error = allow_memory(filter);
	if (!error && process)
		error = add_calls(filter, SCMP_ACT_ALLOW, process_calls, N(process_calls));
	if (!error && process)
		error = add_calls(filter, SCMP_ACT_ERRNO(EACCES), refused_calls, N(refused_calls));
	if (!error && process)
		error = add_calls(filter, SCMP_ACT_KILL_PROCESS, deadly_calls, N(deadly_calls));
	if (!error)
		error = process ? allow_process_narrowly(filter) : allow_thread_narrowly(filter);
	error = error ? error : take_program(filter, program);
	if (filter)
		seccomp_release(filter);
	return error;
}

int confine_prepare(char why[static WHY_BYTES])
{
	int error;

	if (SANITIZED || thread_filter.len)
		return 0;
	error = compile(SCMP_ACT_ERRNO(ENOSYS), true, &process_filter);
	error = error ? error : compile(SCMP_ACT_KILL_PROCESS, false, &thread_filter);
	if (error)
		snprintf(why, WHY_BYTES, "cannot confine the monitor: seccomp: %s", strerror(-error));
	return error;
}

/* No new privileges were set before, and a confined thread cannot set them again. */
static int put_on(const struct sock_fprog *program, unsigned flags)
{
	long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);

	/* More than 0: the thread that cannot be brought under it. */
	return result == 0 ? 0 : result < 0 ? -errno : -ECANCELED;
}

/* Everything that a path could do to a file; sockets are still bound and removed. */
#define LANDLOCK_FILES                                                                                       \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |         \
	 LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |          \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |        \
	 LANDLOCK_ACCESS_FS_MAKE_SYM)

/* -EOPNOTSUPP, -ENOSYS: this kernel has no Landlock. A memfd is beneath no directory and stays open to all.
 */
static int restrict_paths(int directory)
{
	struct landlock_ruleset_attr attributes = {.handled_access_fs = LANDLOCK_FILES};
	struct landlock_path_beneath_attr beneath = {
		.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
		.parent_fd = directory,
	};
	int fd = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0);
	int error = 0;

	if (fd < 0)
		return -errno;
	if (directory >= 0 && syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0))
		error = -errno;
	if (!error && syscall(SYS_landlock_restrict_self, fd, 0))
		error = -errno;
	close(fd);
	return error;
}

int confine_process(int directory, char why[static WHY_BYTES])
{
	int error;

	if (SANITIZED)
		return 0;
	error = confine_prepare(why);
	if (error)
		return error;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		snprintf(why, WHY_BYTES, "cannot confine the monitor: no new privileges: %s",
		         strerror(errno));
		return -errno;
	}
	error = restrict_paths(directory);
	if (error && error != -ENOSYS && error != -EOPNOTSUPP) {
		snprintf(why, WHY_BYTES, "cannot confine the monitor: Landlock: %s", strerror(-error));
		return error;
	}
	error = put_on(&process_filter, SECCOMP_FILTER_FLAG_TSYNC);
	if (error)
		snprintf(why, WHY_BYTES, "cannot confine the monitor: seccomp: %s", strerror(-error));
	__atomic_store_n(&confined, !error, __ATOMIC_RELEASE);
	thread_confined = true; /* the loop is not to be confined further */
	return error;
}

void confine_thread(void)
{
	if (thread_confined || !__atomic_load_n(&confined, __ATOMIC_ACQUIRE))
		return;
	CHECK(put_on(&thread_filter, 0) == 0);
	thread_confined = true;
}
