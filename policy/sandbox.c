#include "policy/sandbox.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "guest/abi/limits.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* What every stage needs: memory without new code, the end, and time. */
static const int base_calls[] = {
	SCMP_SYS(brk),           SCMP_SYS(munmap),     SCMP_SYS(mremap),       SCMP_SYS(madvise),
	SCMP_SYS(exit),          SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall),
	SCMP_SYS(clock_gettime), SCMP_SYS(futex),      SCMP_SYS(close),
};

static const int load_calls[] = {
	SCMP_SYS(pread64), SCMP_SYS(lseek), SCMP_SYS(memfd_create), SCMP_SYS(ftruncate), SCMP_SYS(seccomp),
};

/* What a sanitizer's runtime does on its own; never in the product. */
static const int sanitizer_calls[] = {
	SCMP_SYS(read),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(sched_yield),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(getrandom),
	SCMP_SYS(tgkill),
	SCMP_SYS(fstat),
	SCMP_SYS(getrlimit),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(process_vm_readv),
};

/* libc and libsepol try these where they can do without: they fail, and nothing dies. */
static const int refused_calls[] = {
	SCMP_SYS(open),  SCMP_SYS(openat), SCMP_SYS(newfstatat), SCMP_SYS(readlink),
	SCMP_SYS(ioctl), SCMP_SYS(access), SCMP_SYS(sysinfo),
};

static int allow_calls(scmp_filter_ctx filter, const int *calls, size_t n_calls)
{
	int error = 0;

	for (size_t i = 0; i < n_calls && !error; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	return error;
}

static int refuse_calls(scmp_filter_ctx filter)
{
	int error = 0;

	for (size_t i = 0; i < sizeof(refused_calls) / sizeof(refused_calls[0]) && !error; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused_calls[i], 0);
	return error;
}

/* Calls that are allowed for some arguments. */
static int allow_narrowly(scmp_filter_ctx filter, int socket_fd)
{
	int error = 0;

	error |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
	                          SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	error |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
	                          SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	error |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(write), 1,
	                          SCMP_A0(SCMP_CMP_EQ, STDERR_FILENO));
	error |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(recvmsg), 1,
	                          SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)socket_fd));
	error |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendmsg), 1,
	                          SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)socket_fd));
	return error;
}

/* Seals, and lifting the limit on processor time at the end of the stage. */
static int allow_load_narrowly(scmp_filter_ctx filter)
{
	int error = 0;

	error |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
	                          SCMP_A1(SCMP_CMP_EQ, F_ADD_SEALS));
	error |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
	                          SCMP_A1(SCMP_CMP_EQ, RLIMIT_CPU));
	error |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
	                          SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP));
	return error;
}

static int load_filter(int socket_fd, bool loading)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int error = -ENOMEM;

	if (!filter)
		return error;
	/* No new privileges were set before; the second filter could not set them again. */
	error = seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0);
	error = error ? error : allow_calls(filter, base_calls, sizeof(base_calls) / sizeof(base_calls[0]));
	error = error ? error : allow_narrowly(filter, socket_fd);
	error = error ? error : refuse_calls(filter);
	if (!error && loading)
		error = allow_calls(filter, load_calls, sizeof(load_calls) / sizeof(load_calls[0]));
	if (!error && loading)
		error = allow_load_narrowly(filter);
	if (!error && SANITIZED)
		error = allow_calls(filter, sanitizer_calls,
		                    sizeof(sanitizer_calls) / sizeof(sanitizer_calls[0]));
	error = error ? error : seccomp_load(filter);
	seccomp_release(filter);
	return error;
}

static int limit(int resource, rlim_t value)
{
	struct rlimit old;

	if (getrlimit(resource, &old))
		return -errno;
	if (old.rlim_max != RLIM_INFINITY && old.rlim_max < value)
		value = old.rlim_max;
	return setrlimit(resource, &(struct rlimit){value, value}) ? -errno : 0;
}

/* The soft limit alone: the second stage takes it back. */
static int limit_processor(rlim_t seconds)
{
	struct rlimit old;

	if (getrlimit(RLIMIT_CPU, &old))
		return -errno;
	if (old.rlim_max < seconds)
		seconds = old.rlim_max;
	return setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, old.rlim_max}) ? -errno : 0;
}

static int limit_resources(void)
{
	static const struct {
		int resource;
		rlim_t value;
	} limits[] = {
		{RLIMIT_CORE, 0},
		{RLIMIT_NOFILE, MAX_POLICY_FILES + 16},
		{RLIMIT_FSIZE, MAX_POLICY_BYTES}, /* of the image's memfd */
		{RLIMIT_MEMLOCK, 0},
		{RLIMIT_MSGQUEUE, 0},
		{RLIMIT_AS, SANDBOX_MEMORY_BYTES},
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		int error;

		if (SANITIZED && limits[i].resource == RLIMIT_AS)
			continue; /* shadow memory is terabytes */
		error = limit(limits[i].resource, limits[i].value);
		if (error)
			return error;
	}
	return limit_processor(SANDBOX_LOAD_SECONDS);
}

/* Without CAP_SETPCAP the bounding set stays; no new privileges makes it moot. */
static int drop_capabilities(void)
{
	capng_select_t set = CAPNG_SELECT_CAPS;

	if (capng_get_caps_process())
		return -EPERM;
	if (capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP))
		set = CAPNG_SELECT_BOTH;
	capng_clear(set);
	return capng_apply(set) ? -EPERM : 0;
}

int sandbox_enter_load(int socket_fd)
{
	int error = limit_resources();

	if (error)
		return error;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return -errno;
	error = drop_capabilities();
	return error ? error : load_filter(socket_fd, true);
}

int sandbox_enter_serve(int socket_fd)
{
	int error = limit_processor(RLIM_INFINITY);

	return error ? error : load_filter(socket_fd, false);
}
