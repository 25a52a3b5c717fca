/*
 * Work that takes too long for the loop: each piece on a thread of its own, its end heard by the loop.
 *
 * Loop thread, but for what `run` does. Threads start with the signals blocked and at ordinary priority.
 */
#ifndef PORTCULLIS_MONITOR_WORKERS_H
#define PORTCULLIS_MONITOR_WORKERS_H

struct loop;
struct workers;

/* NULL: no memory, no descriptor. */
struct workers *workers_create(struct loop *loop);

/* Calls run(opaque) on a new thread, then done(opaque) from the loop. -errno: neither is called. */
typedef void work_fn(void *opaque);
int workers_run(struct workers *workers, work_fn *run, work_fn *done, void *opaque);

/* Waits for all that run and calls their done: where the loop does not run yet. Without a deadline: for work
 * that ends by itself. */
void workers_wait(struct workers *workers);

/* The same, and then they are no more. NULL is allowed. */
void workers_destroy(struct workers *workers);

#endif
