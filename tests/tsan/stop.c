/*
 * The stop protocol (vmm/stop_word.h) without KVM, for the thread sanitizer.
 *
 * Fake vCPUs count in plain, unguarded words. The stopper reads and writes those
 * words while they are stopped: if the protocol let anyone run, or gave no order between a
 * vCPU's work and the stopper's, the sanitizer would call it a race.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/futex.h"
#include "vmm/stop_word.h"

#define N_VCPUS 4
#define PATIENCE_NS 60000000000ull

struct fake {
	struct stop_vcpu stop;
	struct stop_group *group;
	uint32_t kicked; /* atomic, futex: what immediate_exit is to a vCPU */
	uint64_t work;   /* plain: the vCPU's while it runs, the stopper's while it does not */
	uint64_t die_at; /* leave by itself after so much work; 0: never */
	bool halts;      /* sleeps until it is kicked, as in HLT */
	bool together;   /* parks only when all others have been kicked as well */
};

static uint32_t n_kicked; /* atomic, futex: kicks of all vCPUs */

struct stage {
	struct stop_group group;
	struct fake fake[N_VCPUS];
	pthread_t thread[N_VCPUS];
};

static int n_passed, n_failed;

static void expect(bool holds, const char *what)
{
	if (holds) {
		n_passed++;
		return;
	}
	n_failed++;
	fprintf(stderr, "failed: %s\n", what);
}

static void fake_kick(struct stop_vcpu *stop)
{
	struct fake *fake = (struct fake *)((char *)stop - offsetof(struct fake, stop));

	__atomic_store_n(&fake->kicked, 1, __ATOMIC_SEQ_CST);
	futex_wake_all(&fake->kicked);
	__atomic_fetch_add(&n_kicked, 1, __ATOMIC_SEQ_CST);
	futex_wake_all(&n_kicked);
}

/* Some work, or sleep, until kicked. */
static void fake_run(struct fake *fake)
{
	while (__atomic_load_n(&fake->kicked, __ATOMIC_SEQ_CST) == 0) {
		fake->work++;
		if (fake->die_at != 0 && fake->work >= fake->die_at)
			return;
		if (fake->halts || fake->work % 64 == 0)
			futex_wait(&fake->kicked, 0, monotonic_ns() + (fake->halts ? PATIENCE_NS : 20000));
	}
	__atomic_store_n(&fake->kicked, 0, __ATOMIC_SEQ_CST);
}

static void wait_for_all_kicks(void)
{
	uint64_t deadline_ns = monotonic_ns() + PATIENCE_NS;
	uint32_t seen;

	while ((seen = __atomic_load_n(&n_kicked, __ATOMIC_SEQ_CST)) < N_VCPUS)
		if (futex_wait(&n_kicked, seen, deadline_ns) != 0)
			return;
}

static void *fake_thread(void *argument)
{
	struct fake *fake = argument;

	for (;;) {
		if (stop_wanted(fake->group, &fake->stop) &&
		    stop_park(fake->group, &fake->stop, fake->halts) == STOP_LEAVE)
			break;
		fake_run(fake);
		if (__atomic_load_n(&fake->together, __ATOMIC_SEQ_CST))
			wait_for_all_kicks();
		if (fake->die_at != 0 && fake->work >= fake->die_at) {
			stop_leave(fake->group, false); /* as a crash does */
			break;
		}
	}
	stop_gone(&fake->stop);
	return NULL;
}

static void stage_open(struct stage *stage, bool one_halts, uint64_t die_at)
{
	memset(stage, 0, sizeof(*stage));
	stop_group_init(&stage->group, "fake");
	for (int i = 0; i < N_VCPUS; i++) {
		struct fake *fake = &stage->fake[i];

		stop_group_add(&stage->group, &fake->stop, fake_kick);
		fake->group = &stage->group;
		fake->halts = one_halts && i == 0;
		fake->die_at = i == N_VCPUS - 1 ? die_at : 0;
	}
	for (int i = 0; i < N_VCPUS; i++) {
		stop_start(&stage->fake[i].stop);
		pthread_create(&stage->thread[i], NULL, fake_thread, &stage->fake[i]);
	}
}

static bool stage_close(struct stage *stage)
{
	char why[WHY_BYTES];

	stop_leave(&stage->group, true);
	int error = stop_wait_gone(&stage->group, monotonic_ns() + PATIENCE_NS, why);
	if (error != 0)
		fprintf(stderr, "end: %s\n", why);
	for (int i = 0; i < N_VCPUS; i++)
		pthread_join(stage->thread[i], NULL);
	stop_group_destroy(&stage->group);
	return error == 0;
}

static bool stop(struct stage *stage, struct stop_report *report)
{
	struct stop_group *group = &stage->group;
	char why[WHY_BYTES];
	int error = stop_groups(&group, 1, monotonic_ns() + PATIENCE_NS, report, NULL, why);

	if (error != 0)
		fprintf(stderr, "stop: %s\n", why);
	return error == 0;
}

static bool resume(struct stage *stage)
{
	struct stop_group *group = &stage->group;
	char why[WHY_BYTES];
	int error = resume_groups(&group, 1, monotonic_ns() + PATIENCE_NS, why);

	if (error != 0)
		fprintf(stderr, "resume: %s\n", why);
	return error == 0;
}

/* Plain accesses to what the vCPUs own while they run. */
static void touch(struct stage *stage)
{
	for (int i = 0; i < N_VCPUS; i++)
		stage->fake[i].work += 1;
}

/* P2, P3 */
static void pairs(void)
{
	struct stage stage;
	bool good = true;

	stage_open(&stage, true, 0);
	for (int i = 0; i < 5000 && good; i++) {
		struct stop_report report;

		good = stop(&stage, &report) && report.n_stopped == N_VCPUS;
		touch(&stage);
		good = good && resume(&stage);
	}
	expect(good, "5,000 pairs: every vCPU stopped and resumed each time");
	expect(stage.group.count == 0, "no stop is left");
	expect(stage_close(&stage), "its end");
}

/* P6: the words are touched under a lock of the stoppers' own, since two may be within a stop at once. */
static pthread_mutex_t touching = PTHREAD_MUTEX_INITIALIZER;

static void *stopper(void *argument)
{
	struct stage *stage = argument;
	unsigned seed = (unsigned)(uintptr_t)&seed;
	int depth = 0;

	for (int i = 0; i < 2000 || depth > 0; i++) {
		if (i < 2000 && depth < 3 && (depth == 0 || rand_r(&seed) % 2 == 0)) {
			if (!stop(stage, NULL))
				return "stop";
			depth++;
			pthread_mutex_lock(&touching);
			touch(stage);
			pthread_mutex_unlock(&touching);
		} else {
			if (!resume(stage))
				return "resume";
			depth--;
		}
	}
	return NULL;
}

static void two_stoppers(void)
{
	struct stage stage;
	pthread_t other;
	void *failed;

	stage_open(&stage, false, 0);
	pthread_create(&other, NULL, stopper, &stage);
	void *own = stopper(&stage);
	pthread_join(other, &failed);
	expect(own == NULL && failed == NULL, "two stoppers at random");
	expect(stage.group.count == 0, "their counts end at zero");
	struct stop_group *group = &stage.group;
	char why[WHY_BYTES];
	expect(resume_groups(&group, 1, monotonic_ns() + PATIENCE_NS, why) == -EINVAL,
	       "one resume too many is refused");
	expect(stage_close(&stage), "its end");
}

/* P4: one vCPU ends by itself at some moment around the stop. */
static void deaths(void)
{
	bool good = true;

	for (int i = 0; i < 500 && good; i++) {
		struct stage stage;
		struct stop_report report;

		stage_open(&stage, i % 2 == 0, (uint64_t)(1 + i * 7 % 300));
		good = stop(&stage, &report) && report.n_stopped + report.n_gone == N_VCPUS;
		touch(&stage);
		good = good && resume(&stage);
		good = stage_close(&stage) && good;
	}
	expect(good, "500 deaths around a stop: n parked, the rest gone");
}

/* P9: a stop that waited for one vCPU before it kicked the next would never end here. */
static void kicks_before_waits(void)
{
	struct stage stage;
	struct stop_report report;

	stage_open(&stage, true, 0);
	for (int i = 0; i < N_VCPUS; i++)
		while (stop_state_of(&stage.fake[i].stop) != STOP_RUNNING)
			sched_yield();
	__atomic_store_n(&n_kicked, 0, __ATOMIC_SEQ_CST);
	for (int i = 0; i < N_VCPUS; i++)
		__atomic_store_n(&stage.fake[i].together, true, __ATOMIC_SEQ_CST);
	expect(stop(&stage, &report) && report.n_stopped == N_VCPUS,
	       "all are kicked before any is waited for");
	for (int i = 0; i < N_VCPUS; i++)
		__atomic_store_n(&stage.fake[i].together, false, __ATOMIC_SEQ_CST);
	expect(resume(&stage), "and resumed");
	expect(stage_close(&stage), "its end");
}

/* P10: the end of a stopped group, and of one that is being stopped. */
static void endings(void)
{
	bool good = true;

	for (int i = 0; i < 200; i++) {
		struct stage stage;
		struct stop_report report;

		stage_open(&stage, true, 0);
		if (i % 2 == 0)
			good = stop(&stage, &report) && good;
		good = stage_close(&stage) && good;
	}
	expect(good, "200 endings, half of them while stopped");
}

int main(void)
{
	pairs();
	two_stoppers();
	deaths();
	kicks_before_waits();
	endings();
	printf("%d passed, %d failed\n", n_passed, n_failed);
	return n_failed != 0;
}
