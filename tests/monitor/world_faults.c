#include "tests/monitor/world_faults.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "monitor/mediation.h"
#include "vmm/machine.h"

/* ---- allocations ---- */

static _Thread_local uint64_t until_failure; /* 0: not armed */
static _Thread_local bool failed;

static bool fails(void)
{
	if (until_failure == 0 || --until_failure > 0)
		return false;
	failed = true;
	errno = ENOMEM;
	return true;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_reallocarray(void *old, size_t n, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_reallocarray(void *old, size_t n, size_t bytes);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return fails() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
	return fails() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_reallocarray(void *old, size_t n, size_t bytes)
{
	return fails() ? NULL : __real_reallocarray(old, n, bytes);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

void fault_allocation(uint64_t n)
{
	json_set_alloc_funcs(__wrap_malloc, free);
	failed = false;
	until_failure = n;
}

bool fault_allocation_fired(void)
{
	until_failure = 0;
	return failed;
}

/* ---- mappings ---- */

static bool mappings_fail; /* atomic */

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (flags & MAP_FIXED && __atomic_load_n(&mappings_fail, __ATOMIC_SEQ_CST)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(address, bytes, protection, flags, fd, offset);
}

void fault_mappings(bool fail)
{
	__atomic_store_n(&mappings_fail, fail, __ATOMIC_SEQ_CST);
}

static bool holes_fail; /* atomic */

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	if (__atomic_load_n(&holes_fail, __ATOMIC_SEQ_CST)) {
		errno = ENOMEM;
		return -1;
	}
	return __real_fallocate(fd, mode, offset, bytes);
}

void fault_holes(bool fail)
{
	__atomic_store_n(&holes_fail, fail, __ATOMIC_SEQ_CST);
}

/* ---- handlers ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool armed, held, released;
} handler = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int64_t __real_mediation_request(void *owner, const struct guest_request *request);
int64_t __wrap_mediation_request(void *owner, const struct guest_request *request);

static void hold(void)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 60;
	handler.armed = false;
	handler.held = true;
	while (!handler.released && pthread_cond_timedwait(&handler.changed, &handler.lock, &end) == 0)
		;
	handler.held = false;
}

int64_t __wrap_mediation_request(void *owner, const struct guest_request *request)
{
	pthread_mutex_lock(&handler.lock);
	if (handler.armed && request->call == HYPERCALL_INFO)
		hold();
	pthread_mutex_unlock(&handler.lock);
	return __real_mediation_request(owner, request);
}

static void set(bool armed, bool released)
{
	pthread_mutex_lock(&handler.lock);
	handler.armed = armed;
	handler.released = released;
	pthread_cond_broadcast(&handler.changed);
	pthread_mutex_unlock(&handler.lock);
}

void fault_hold_handler(void)
{
	set(true, false);
}

void fault_let_handler_go(void)
{
	set(false, true);
}

bool fault_handler_is_held(void)
{
	bool held;

	pthread_mutex_lock(&handler.lock);
	held = handler.held;
	pthread_mutex_unlock(&handler.lock);
	return held;
}

/* ---- the kernel ---- */

static void *kernel_image;
static size_t kernel_bytes;

void fault_kernel(const char *path)
{
	struct stat status;
	int fd;

	free(kernel_image);
	kernel_image = NULL;
	if (!path)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert(fd >= 0 && fstat(fd, &status) == 0, "%s", path);
	kernel_bytes = (size_t)status.st_size;
	kernel_image = malloc(kernel_bytes);
	cr_assert(kernel_image && read(fd, kernel_image, kernel_bytes) == (ssize_t)kernel_bytes);
	close(fd);
}

static struct {
	const char *guest; /* NULL: none */
	void (*meanwhile)(void);
	bool fail;
} build;

void fault_build(const char *guest, void (*meanwhile)(void), bool fail)
{
	build.guest = guest;
	build.meanwhile = meanwhile;
	build.fail = fail;
}

static struct machine_spec with_kernel(const struct machine_spec *spec)
{
	struct machine_spec ours = *spec;

	if (kernel_image) {
		ours.kernel_image = kernel_image;
		ours.kernel_bytes = kernel_bytes;
	}
	return ours;
}

int __real_machine_begin(const struct machine_spec *spec, const struct machine_handlers *handlers,
                         void *owner, struct machine **machine, char why[static WHY_BYTES]);
int __wrap_machine_begin(const struct machine_spec *spec, const struct machine_handlers *handlers,
                         void *owner, struct machine **machine, char why[static WHY_BYTES]);
int __real_machine_build(struct machine *machine, const struct machine_spec *spec,
                         char why[static WHY_BYTES]);
int __wrap_machine_build(struct machine *machine, const struct machine_spec *spec,
                         char why[static WHY_BYTES]);

int __wrap_machine_begin(const struct machine_spec *spec, const struct machine_handlers *handlers,
                         void *owner, struct machine **machine, char why[static WHY_BYTES])
{
	struct machine_spec ours = with_kernel(spec);

	return __real_machine_begin(&ours, handlers, owner, machine, why);
}

int __wrap_machine_build(struct machine *machine, const struct machine_spec *spec, char why[static WHY_BYTES])
{
	struct machine_spec ours = with_kernel(spec);
	bool meant = build.guest && strcmp(build.guest, spec->name) == 0;

	if (meant && build.meanwhile)
		build.meanwhile();
	if (meant && build.fail) {
		snprintf(why, WHY_BYTES, "guest %s: " FAULT_BUILD_TEXT, spec->name);
		return -EIO;
	}
	return __real_machine_build(machine, &ours, why);
}
