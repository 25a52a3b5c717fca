/*
 * The monitor's one loop: epoll over sockets, server answers, signals, timers.
 *
 * Callbacks run on the loop's thread and must not block. A source may be
 * removed from within any callback, its own included.
 */
#ifndef PORTCULLIS_MONITOR_LOOP_H
#define PORTCULLIS_MONITOR_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop;

typedef void loop_ready_fn(void *opaque, uint32_t events); /* EPOLLIN ... */
typedef void loop_timer_fn(void *opaque);

/* Owned by the caller; zeroed before the first use. */
struct loop_timer {
	loop_timer_fn *fn;
	void *opaque;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	bool armed;
	struct loop_timer *next;
};

struct loop *loop_create(void);
void loop_destroy(struct loop *loop);

/* Watches fd; -errno of epoll_ctl. One source for each descriptor. */
int loop_add(struct loop *loop, int fd, uint32_t events, loop_ready_fn *fn, void *opaque);
int loop_modify(struct loop *loop, int fd, uint32_t events);
void loop_remove(struct loop *loop, int fd);

/* Arms (or moves) a timer that fires once; UINT64_MAX disarms. */
void loop_arm(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ns);
void loop_disarm(struct loop *loop, struct loop_timer *timer);

/* Serves until loop_quit; returns its argument. */
int loop_run(struct loop *loop);
void loop_quit(struct loop *loop, int status);

/* One round, for tests: waits until deadline_ns for something to do, does it. False: nothing came. */
bool loop_step(struct loop *loop, uint64_t deadline_ns);

/* CLOCK_MONOTONIC now, nanoseconds. */
uint64_t loop_now(void);

#endif
