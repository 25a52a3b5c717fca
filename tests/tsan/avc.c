/*
 * A check racing a change (I1, F2, F10): every interleaving of one check with
 * one revoking change, each forced by handshakes between two real threads.
 *
 * The first four designs are controls: caches as others have them, in which the
 * bad outcomes must be found, in exactly the numbers that counting gives. The
 * last two are the real policy/avc.c, alone and under a registry lock as the
 * monitor uses it. Then the same without handshakes, for the race detector.
 *
 * The control that says what the handshakes prove: with them, the old grant is
 * found in use and in the cache; nothing here depends on luck.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "policy/avc.h"

#define MAX_STEPS 4
#define OLD 1u /* the policy that grants; its successor does not */
#define NEW 2u
#define DEADLINE_S 120

static const struct avc_key key = {1, 2, CLASS_CHANNEL};

/* One run: a security server, a cache, and one check and one change that meet there. */
struct run {
	pthread_mutex_t registry_lock;
	unsigned server_policy; /* what the security server answers from */

	/* The controls' cache: one entry, valid or not, and the number in force. */
	unsigned cache_number;
	bool cached;
	bool cached_grant;

	struct avc *avc; /* the real one */

	struct decision decision; /* of the check */
	bool test_passed;
	bool complete;   /* the change was reported */
	bool used_after; /* the old grant was used then: the bad outcome */
	bool asked_again;
};

typedef void step_fn(struct run *run);

static void compute(struct run *run)
{
	run->decision = (struct decision){.allowed = run->server_policy == OLD ? CHANNEL_SEND : 0,
	                                  .policy_number = run->server_policy};
}

static void use(struct run *run)
{
	if (run->decision.allowed && run->complete)
		run->used_after = true;
}

static void switch_server(struct run *run)
{
	run->server_policy = NEW;
}

static void complete(struct run *run)
{
	run->complete = true;
}

/* The controls' steps. */

static void test(struct run *run)
{
	run->test_passed = run->decision.policy_number >= run->cache_number;
}

static void test_and_retry(struct run *run)
{
	test(run);
	if (!run->test_passed)
		compute(run);
}

static void insert(struct run *run)
{
	if (!run->test_passed)
		return;
	run->cached = true;
	run->cached_grant = run->decision.allowed != 0;
}

static void insert_in_one_step(struct run *run)
{
	test_and_retry(run);
	insert(run);
}

static void flush(struct run *run)
{
	run->cached = false;
}

static void raise_number(struct run *run)
{
	run->cache_number = NEW;
}

/* The real cache's steps. */

static void real_insert(struct run *run)
{
	while (avc_insert(run->avc, key, &run->decision) == -ESTALE && !run->asked_again) {
		run->asked_again = true;
		compute(run);
	}
}

static void real_raise(struct run *run)
{
	avc_raise(run->avc, NEW);
}

/* As the monitor: insert and use, raise and complete, each in one hold of the registry lock. */

static void locked_check(struct run *run)
{
	pthread_mutex_lock(&run->registry_lock);
	real_insert(run);
	use(run);
	pthread_mutex_unlock(&run->registry_lock);
}

static void locked_change(struct run *run)
{
	pthread_mutex_lock(&run->registry_lock);
	real_raise(run);
	complete(run);
	pthread_mutex_unlock(&run->registry_lock);
}

struct design {
	const char *name;
	step_fn *check[MAX_STEPS];
	step_fn *change[MAX_STEPS];
	bool real;
	unsigned n_expected; /* interleavings */
	unsigned stale_expected;
	unsigned used_expected;
};

static const struct design designs[] = {
	{"flush then raise, test and insert separate",
         {compute, test, insert, use},
         {switch_server, flush, raise_number, complete},
         false,
         70,
         18,
         15},
	{"the same, with retry on an old number",
         {compute, test_and_retry, insert, use},
         {switch_server, flush, raise_number, complete},
         false,
         70,
         18,
         12},
	{"raise then flush, test and insert separate",
         {compute, test_and_retry, insert, use},
         {switch_server, raise_number, flush, complete},
         false,
         70,
         6,
         9},
	{"raise then flush, test and insert in one step",
         {compute, insert_in_one_step, use},
         {switch_server, raise_number, flush, complete},
         false,
         35,
         0,
         2},
	{"avc.c: raise forgets, insert tests",
         {compute, real_insert, use},
         {switch_server, real_raise, complete},
         true,
         20,
         0,
         2},
	{"avc.c under the registry lock",
         {compute, locked_check},
         {switch_server, locked_change},
         true,
         6,
         0,
         0},
};

/* A thread that makes one step of its list whenever it is told to. */
struct walker {
	struct run *run;
	step_fn *const *steps;
	sem_t go;
	sem_t done;
};

static void await(sem_t *semaphore)
{
	struct timespec deadline;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += DEADLINE_S;
	while (sem_timedwait(semaphore, &deadline)) {
		if (errno == EINTR)
			continue;
		fprintf(stderr, "a thread did not answer within %d s\n", DEADLINE_S);
		exit(1);
	}
}

static void *walk(void *opaque)
{
	struct walker *walker = opaque;

	for (unsigned i = 0; i < MAX_STEPS && walker->steps[i]; i++) {
		await(&walker->go);
		walker->steps[i](walker->run);
		sem_post(&walker->done);
	}
	return NULL;
}

static void start(struct walker *walker, pthread_t *thread, struct run *run, step_fn *const *steps)
{
	walker->run = run;
	walker->steps = steps;
	sem_init(&walker->go, 0, 0);
	sem_init(&walker->done, 0, 0);
	if (pthread_create(thread, NULL, walk, walker)) {
		perror("pthread_create");
		exit(1);
	}
}

static void stop(struct walker *walker, pthread_t thread)
{
	pthread_join(thread, NULL);
	sem_destroy(&walker->go);
	sem_destroy(&walker->done);
}

static unsigned count_steps(step_fn *const *steps)
{
	unsigned n = 0;

	while (n < MAX_STEPS && steps[n])
		n++;
	return n;
}

/* Bit i of `order` says whose turn step i is. Adds to the counts of bad outcomes. */
static void run_order(const struct design *design, unsigned order, unsigned n_steps, unsigned *stale,
                      unsigned *used)
{
	struct run run = {.server_policy = OLD, .cache_number = OLD, .avc = avc_create(16)};
	struct walker walkers[2];
	struct decision found;
	pthread_t threads[2];

	if (!run.avc)
		exit(1);
	pthread_mutex_init(&run.registry_lock, NULL);
	start(&walkers[0], &threads[0], &run, design->check);
	start(&walkers[1], &threads[1], &run, design->change);
	for (unsigned i = 0; i < n_steps; i++) {
		struct walker *walker = &walkers[order >> i & 1];

		sem_post(&walker->go);
		await(&walker->done);
	}
	stop(&walkers[0], threads[0]);
	stop(&walkers[1], threads[1]);
	if (design->real)
		*stale += avc_lookup(run.avc, key, &found) && found.allowed;
	else
		*stale += run.cached && run.cached_grant;
	*used += run.used_after;
	pthread_mutex_destroy(&run.registry_lock);
	avc_destroy(run.avc);
}

static bool try_design(const struct design *design)
{
	unsigned n_check = count_steps(design->check);
	unsigned n_steps = n_check + count_steps(design->change);
	unsigned stale = 0;
	unsigned used = 0;
	unsigned n = 0;
	bool good;

	for (unsigned order = 0; order < 1u << n_steps; order++)
		if ((unsigned)__builtin_popcount(order) == n_steps - n_check) {
			run_order(design, order, n_steps, &stale, &used);
			n++;
		}
	good = n == design->n_expected && stale == design->stale_expected && used == design->used_expected;
	printf("%s %-46s %2u interleavings, stale entry in %2u, old grant used in %2u\n",
	       good ? "PASS" : "FAIL", design->name, n, stale, used);
	return good;
}

/* The same without handshakes: whatever the scheduler does, and the race detector looks on. */
#define N_CHANGES 3000u

static struct {
	pthread_mutex_t registry_lock;
	struct avc *avc;      /* registry lock */
	uint64_t in_force;    /* registry lock: an odd number grants, an even one does not */
	bool stop;            /* registry lock */
	unsigned n_bad;       /* registry lock */
	unsigned long n_used; /* registry lock */
} shared = {.registry_lock = PTHREAD_MUTEX_INITIALIZER, .in_force = 1};

static struct decision ask(uint64_t policy_number)
{
	return (struct decision){.allowed = policy_number % 2 ? CHANNEL_SEND : 0,
	                         .policy_number = policy_number};
}

/* Asks outside the lock, as the monitor does; inserts and uses inside. */
static void check_once(void)
{
	struct decision decision;
	uint64_t number;

	pthread_mutex_lock(&shared.registry_lock);
	number = shared.in_force;
	if (!avc_lookup(shared.avc, key, &decision)) {
		pthread_mutex_unlock(&shared.registry_lock);
		decision = ask(number);
		pthread_mutex_lock(&shared.registry_lock);
		if (avc_insert(shared.avc, key, &decision)) {
			pthread_mutex_unlock(&shared.registry_lock);
			return; /* the next round asks again */
		}
	}
	shared.n_used++;
	if ((decision.allowed != 0) != (shared.in_force % 2 == 1))
		shared.n_bad++;
	pthread_mutex_unlock(&shared.registry_lock);
}

static void *check_until_stopped(void *opaque)
{
	bool stopped = false;

	while (!stopped) {
		check_once();
		pthread_mutex_lock(&shared.registry_lock);
		stopped = shared.stop;
		pthread_mutex_unlock(&shared.registry_lock);
	}
	return opaque;
}

/* Each change is followed by a check of this thread, so that none passes unobserved. */
static void change_many(void)
{
	for (unsigned i = 0; i < N_CHANGES; i++) {
		pthread_mutex_lock(&shared.registry_lock);
		shared.in_force++;
		avc_raise(shared.avc, shared.in_force);
		pthread_mutex_unlock(&shared.registry_lock);
		check_once();
	}
	pthread_mutex_lock(&shared.registry_lock);
	shared.stop = true;
	pthread_mutex_unlock(&shared.registry_lock);
}

static bool try_free_run(void)
{
	pthread_t threads[2];
	bool good;

	shared.avc = avc_create(64);
	for (unsigned i = 0; i < 2; i++)
		if (!shared.avc || pthread_create(&threads[i], NULL, check_until_stopped, NULL))
			exit(1);
	change_many();
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	good = shared.n_bad == 0 && shared.n_used > 0 && avc_policy_number(shared.avc) == N_CHANGES + 1;
	printf("%s %u changes against checks of two threads: old grant used %u times\n",
	       good ? "PASS" : "FAIL", N_CHANGES, shared.n_bad);
	avc_destroy(shared.avc);
	return good;
}

int main(void)
{
	unsigned n_passed = 0;
	unsigned n_failed = 0;

	for (size_t i = 0; i < sizeof(designs) / sizeof(designs[0]); i++) {
		bool good = try_design(&designs[i]);

		n_passed += good;
		n_failed += !good;
	}
	if (try_free_run())
		n_passed++;
	else
		n_failed++;
	printf("%u passed, %u failed\n", n_passed, n_failed);
	return n_failed != 0;
}
