#include "monitor/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "vmm/check.h"

#define EVENTS_PER_ROUND 64

/*
 * A source is found by its descriptor. Its generation travels with the event,
 * so that an event which was fetched before its source was removed, or replaced
 * by another with the same descriptor, falls on the floor:
 *
 *	epoll_wait gives A and B
 *	A's callback removes B, closes it, adds C, which gets B's number
 *	B's event: its generation is not C's
 */
struct source {
	loop_ready_fn *fn; /* NULL: nobody's */
	void *opaque;
	uint32_t generation;
};

struct loop {
	int epoll_fd;
	struct source *sources; /* by descriptor */
	size_t n_sources;
	struct loop_timer *first; /* by deadline */
	uint32_t generation;
	bool quitting;
	int status;
};

uint64_t loop_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct loop *loop_create(void)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return NULL;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0) {
		free(loop);
		return NULL;
	}
	return loop;
}

void loop_destroy(struct loop *loop)
{
	if (!loop)
		return;
	close(loop->epoll_fd);
	free(loop->sources);
	free(loop);
}

/* ---- sources ---- */

static struct source *source_at(struct loop *loop, int fd)
{
	if (fd < 0 || (size_t)fd >= loop->n_sources || !loop->sources[fd].fn)
		return NULL;
	return &loop->sources[fd];
}

static int sources_grow(struct loop *loop, int fd)
{
	size_t n = loop->n_sources ? loop->n_sources : 64;
	struct source *sources;

	while (n <= (size_t)fd)
		n *= 2;
	sources = reallocarray(loop->sources, n, sizeof(*sources));
	if (!sources)
		return -ENOMEM;
	for (size_t i = loop->n_sources; i < n; i++)
		sources[i] = (struct source){0};
	loop->sources = sources;
	loop->n_sources = n;
	return 0;
}

static int control(struct loop *loop, int operation, int fd, uint32_t events, uint32_t generation)
{
	struct epoll_event event = {
		.events = events,
		.data.u64 = (uint64_t)generation << 32 | (uint32_t)fd,
	};

	return epoll_ctl(loop->epoll_fd, operation, fd, &event) ? -errno : 0;
}

int loop_add(struct loop *loop, int fd, uint32_t events, loop_ready_fn *fn, void *opaque)
{
	int error;

	if (fd < 0)
		return -EBADF;
	CHECK(fn && !source_at(loop, fd));
	if ((size_t)fd >= loop->n_sources) {
		error = sources_grow(loop, fd);
		if (error < 0)
			return error;
	}
	error = control(loop, EPOLL_CTL_ADD, fd, events, ++loop->generation);
	if (error < 0)
		return error;
	loop->sources[fd] = (struct source){fn, opaque, loop->generation};
	return 0;
}

int loop_modify(struct loop *loop, int fd, uint32_t events)
{
	struct source *source = source_at(loop, fd);

	return source ? control(loop, EPOLL_CTL_MOD, fd, events, source->generation) : -ENOENT;
}

void loop_remove(struct loop *loop, int fd)
{
	struct source *source = source_at(loop, fd);

	if (!source)
		return;
	*source = (struct source){0};
	control(loop, EPOLL_CTL_DEL, fd, 0, 0); /* fails if fd is closed: then it is gone from epoll too */
}

/* ---- timers ---- */

void loop_disarm(struct loop *loop, struct loop_timer *timer)
{
	struct loop_timer **link = &loop->first;

	if (!timer->armed)
		return;
	while (*link != timer)
		link = &(*link)->next;
	*link = timer->next;
	timer->next = NULL;
	timer->armed = false;
}

void loop_arm(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ns)
{
	struct loop_timer **link = &loop->first;

	loop_disarm(loop, timer);
	if (deadline_ns == UINT64_MAX)
		return;
	while (*link && (*link)->deadline_ns <= deadline_ns)
		link = &(*link)->next;
	timer->deadline_ns = deadline_ns;
	timer->next = *link;
	timer->armed = true;
	*link = timer;
}

/* A timer that arms itself again for a time that has passed waits for the next round: sources get their turn.
 */
static bool run_timers(struct loop *loop)
{
	uint64_t now = loop_now();
	size_t n_due = 0;
	bool ran = false;

	for (const struct loop_timer *timer = loop->first; timer && timer->deadline_ns <= now;
	     timer = timer->next)
		n_due++;
	for (; n_due && loop->first && loop->first->deadline_ns <= now; n_due--) {
		struct loop_timer *timer = loop->first;

		loop_disarm(loop, timer);
		timer->fn(timer->opaque);
		ran = true;
	}
	return ran;
}

/* ---- rounds ---- */

/* Milliseconds for epoll_wait, rounded up: a timer is never early. */
static int timeout_until(uint64_t deadline_ns)
{
	uint64_t now = loop_now();
	uint64_t ms;

	if (deadline_ns == UINT64_MAX)
		return -1;
	if (deadline_ns <= now)
		return 0;
	ms = (deadline_ns - now - 1) / 1000000 + 1;
	return ms > 3600000 ? 3600000 : (int)ms;
}

static bool run_sources(struct loop *loop, uint64_t deadline_ns)
{
	struct epoll_event events[EVENTS_PER_ROUND];
	int n = epoll_wait(loop->epoll_fd, events, EVENTS_PER_ROUND, timeout_until(deadline_ns));
	bool ran = false;

	for (int i = 0; i < n; i++) {
		const struct source *source = source_at(loop, (int)(uint32_t)events[i].data.u64);

		if (!source || source->generation != events[i].data.u64 >> 32)
			continue;
		source->fn(source->opaque, events[i].events);
		ran = true;
	}
	return ran;
}

bool loop_step(struct loop *loop, uint64_t deadline_ns)
{
	uint64_t until = deadline_ns;
	bool ran;

	if (loop->first && loop->first->deadline_ns < until)
		until = loop->first->deadline_ns;
	ran = run_sources(loop, until);
	return run_timers(loop) || ran;
}

int loop_run(struct loop *loop)
{
	while (!loop->quitting)
		loop_step(loop, UINT64_MAX);
	loop->quitting = false;
	return loop->status;
}

void loop_quit(struct loop *loop, int status)
{
	loop->quitting = true;
	loop->status = status;
}
