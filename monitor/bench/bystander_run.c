#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <x86intrin.h>

#include "guest/programs/gaps.h"
#include "monitor/bench/bystander.h"
#include "monitor/loop.h"
#include "vmm/check.h"
#include "vmm/stop.h"
#include "vmm/window.h"

#define PATIENCE_NS 10000000000ull
#define PATIENCE_SECONDS 10.0
#define LOOK_SECONDS 0.001 /* how long one wait for the domain is */
#define CLOCK_LOOKS 1000u
#define RUN_NS 5000000ull /* it has a core of its own: whoever else is there has gone by then */

static struct machine *machine_of(struct bystander *bystander)
{
	return planted_bystander(&bystander->planted)->machine;
}

/* ---- the two clocks ---- */

static uint64_t word(const uint64_t *shared)
{
	return __atomic_load_n(shared, __ATOMIC_ACQUIRE);
}

/* KVM may give a guest a counter of its own, at the same rate. The guest's latest reading lies in the past.
 */
static void compare_clocks(struct bystander *bystander)
{
	for (unsigned i = 0; i < CLOCK_LOOKS; i++) {
		uint64_t guest = word(&bystander->gaps->now), ahead = __rdtsc() - guest;

		if ((int64_t)(ahead - bystander->tsc_ahead) < 0 || bystander->tsc_ahead == 0)
			bystander->tsc_ahead = ahead;
	}
}

static double ticks_us(const struct bystander *bystander, uint64_t ticks)
{
	uint64_t khz = word(&bystander->gaps->tsc_khz);

	return khz ? (double)ticks * 1000.0 / (double)khz : 0;
}

static bool looks(struct scene *scene, void *opaque)
{
	(void)scene;
	return word(&((const struct bystander *)opaque)->gaps->median) != 0;
}

static bool never(struct stage *stage, void *opaque)
{
	(void)stage, (void)opaque;
	return false;
}

/* Until the domain has read its clock after that time: a gap that began before has its end. */
static int await(struct bystander *bystander, uint64_t host_tsc, char why[static WHY_BYTES])
{
	uint64_t give_up = loop_now() + PATIENCE_NS;

	while ((int64_t)(word(&bystander->gaps->now) + bystander->tsc_ahead - host_tsc) < 0) {
		if (loop_now() > give_up) {
			snprintf(why, WHY_BYTES, "the domain that is not concerned has not run for %.0f s",
			         PATIENCE_SECONDS);
			return -ETIMEDOUT;
		}
		stage_until(scene_stage(bystander->planted.scene), never, NULL, LOOK_SECONDS);
	}
	return 0;
}

/* ---- gaps ---- */

/* When the change began, when its plan stood, when it was over; this process's counter. */
struct span {
	uint64_t begun, planned, end;
};

static uint64_t overlap(const struct gap *gap, uint64_t begin, uint64_t end)
{
	uint64_t from = gap->begin > begin ? gap->begin : begin, to = gap->end < end ? gap->end : end;

	return to > from ? to - from : 0;
}

/* Takes all gaps since the last call. */
static int take_gaps(struct bystander *bystander, const struct span *span, double *figure,
                     char why[static WHY_BYTES])
{
	uint64_t n = word(&bystander->gaps->n), ahead = bystander->tsc_ahead, before = 0, after = 0;

	for (uint64_t i = bystander->n_seen; i < n && n - i <= GAPS_KEPT; i++) {
		const struct gap *shared = &bystander->gaps->gap[i % GAPS_KEPT];
		struct gap gap = {word(&shared->begin), word(&shared->end)};

		before += overlap(&gap, span->begun - ahead, span->planned - ahead);
		after += overlap(&gap, span->planned - ahead, span->end - ahead);
	}
	if (word(&bystander->gaps->n) - bystander->n_seen > GAPS_KEPT) {
		snprintf(why, WHY_BYTES,
		         "the domain that is not concerned had more than %u gaps in one change; "
		         "take fewer --connections",
		         GAPS_KEPT);
		return -EOVERFLOW;
	}
	bystander->n_seen = n;
	figure[BYSTANDER_LOST] = ticks_us(bystander, after);
	figure[BYSTANDER_LOST_BEFORE] = ticks_us(bystander, before);
	return 0;
}

/* ---- counters ---- */

struct tally {
	uint64_t mapping_calls, stop_requests, exits[N_VCPU_COUNTS];
};

static struct tally tally(struct bystander *bystander)
{
	struct tally now = {
		.mapping_calls = window_mapping_calls(scene_guest(bystander->planted.scene)->machine) +
	                         window_mapping_calls(machine_of(bystander)),
		.stop_requests = machine_stop_requests(machine_of(bystander)),
	};

	if (bystander->has_counts && vcpu_counts_read(&bystander->counts, now.exits) < 0)
		bystander->has_counts = false;
	return now;
}

static void subtract(const struct tally *before, const struct tally *after, double *figure)
{
	figure[BYSTANDER_MAPPING_CALLS] = (double)(after->mapping_calls - before->mapping_calls);
	figure[BYSTANDER_STOP_REQUESTS] = (double)(after->stop_requests - before->stop_requests);
	figure[BYSTANDER_SIGNAL_EXITS] =
		(double)(after->exits[VCPU_SIGNAL_EXITS] - before->exits[VCPU_SIGNAL_EXITS]);
	figure[BYSTANDER_IRQ_EXITS] = (double)(after->exits[VCPU_IRQ_EXITS] - before->exits[VCPU_IRQ_EXITS]);
	figure[BYSTANDER_EXITS] = (double)(after->exits[VCPU_EXITS] - before->exits[VCPU_EXITS]);
}

/* ---- one change ---- */

struct moment {
	struct bystander *bystander;
	struct tally tally;
	uint64_t tsc;
};

/*
 * The security server has just answered, often on the bystander's core. An exit is forced only from a guest
 * that runs, so the domain is given the time to read its clock once more: some microseconds, on another core
 * than this.
 */
static void let_run(const struct bystander *bystander)
{
	uint64_t since = word(&bystander->gaps->now), give_up = loop_now() + RUN_NS;

	while (bystander->loop_apart && word(&bystander->gaps->now) == since && loop_now() < give_up)
		_mm_pause();
}

static void planned(void *opaque)
{
	struct moment *moment = opaque;

	let_run(moment->bystander);
	moment->tally = tally(moment->bystander);
	moment->tsc = __rdtsc();
}

static int push(struct bystander *bystander, enum stop_mode stop, bool plan_only, double *figure,
                char why[static WHY_BYTES])
{
	struct planted *planted = &bystander->planted;
	struct moment moment = {.bystander = bystander};
	struct span span;
	struct tally end;
	json_t *report;
	json_int_t n_cut;
	int error;

	compare_clocks(bystander);
	bystander->n_seen = word(&bystander->gaps->n);
	span.begun = __rdtsc();
	report = scene_push_watched(planted->scene, planted->deny, stop, plan_only, planned, &moment, why);
	span.end = __rdtsc();
	end = tally(bystander);
	span.planned = moment.tsc;
	if (!report)
		return -EPROTO;
	n_cut = json_integer_value(json_object_get(json_object_get(report, "flows"), "cut"));
	figure[BYSTANDER_TOTAL] =
		json_number_value(json_object_get(json_object_get(report, "times"), "total"));
	json_decref(report);
	if (n_cut != 2 * (json_int_t)planted->n) {
		snprintf(why, WHY_BYTES, "the change cut %lld flows, not %u", n_cut, 2 * planted->n);
		return -EPROTO;
	}
	subtract(&moment.tally, &end, figure);
	error = await(bystander, span.end, why);
	return error < 0 ? error : take_gaps(bystander, &span, figure, why);
}

static int restore(struct planted *planted, bool was_cut, char why[static WHY_BYTES])
{
	int error = was_cut ? planted_check(planted, why) : 0;
	json_t *report;

	if (error == 0)
		error = planted_empty(planted, why);
	if (error < 0 || !was_cut)
		return error;
	report = scene_push(planted->scene, planted->allow, STOP_NONE, false, why);
	json_decref(report);
	return report ? 0 : -EPROTO;
}

int bystander_run(struct bystander *bystander, enum stop_mode stop, bool plan_only,
                  double figure[static N_BYSTANDER_FIGURES], char why[static WHY_BYTES])
{
	int error = planted_fill(&bystander->planted, why);

	if (error == 0)
		error = push(bystander, stop, plan_only, figure, why);
	return error < 0 ? error : restore(&bystander->planted, !plan_only, why);
}

/* ---- begin and end ---- */

/*
 * The loop runs before whatever is SCHED_OTHER, so on the bystander's core it would be the gap: what it does
 * for a change, and not what the change does to that guest. Guests have pinned their threads by now.
 */
static void keep_apart(struct bystander *bystander)
{
	int core = machine_core(machine_of(bystander), 0);
	cpu_set_t others;

	if (core < 0 || sched_getaffinity(0, sizeof(bystander->cores), &bystander->cores) < 0)
		return;
	others = bystander->cores;
	CPU_CLR((unsigned)core, &others);
	bystander->loop_apart = CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0;
}

/* KVM gives its counters out while the vCPU is not in it. */
static int open_counts(struct bystander *bystander, char why[static WHY_BYTES])
{
	struct machine *machine = machine_of(bystander);
	struct stop_report stopped;
	int error = stop_machines(&machine, 1, loop_now() + PATIENCE_NS, &stopped, NULL, why);

	if (error < 0)
		return error;
	bystander->has_counts = vcpu_counts_open(machine, 0, &bystander->counts, bystander->no_counts) == 0;
	return resume_machines(&machine, 1, loop_now() + PATIENCE_NS, why);
}

int bystander_open(struct bystander *bystander, struct launcher *launcher, char why[static WHY_BYTES])
{
	struct machine *machine;
	int error;

	bystander->counts.fd = -1;
	bystander->planted.n_pairs = 1;
	bystander->planted.bystander = true;
	error = planted_open(&bystander->planted, launcher, why);
	if (error < 0)
		return error;
	machine = machine_of(bystander);
	CHECK(machine_bulk_bytes(machine) >= sizeof(struct gaps));
	bystander->gaps = (const struct gaps *)((const uint8_t *)window_outbox(
							machine, machine_first_slot(machine, 0)) +
	                                        SLOT_BULK_OFFSET);
	error = scene_until(bystander->planted.scene, looks, bystander,
	                    "the domain that is not concerned looks for gaps", why);
	if (error == 0)
		error = open_counts(bystander, why);
	keep_apart(bystander);
	bystander->median_ns = ticks_us(bystander, word(&bystander->gaps->median)) * 1000.0;
	return error;
}

void bystander_close(struct bystander *bystander)
{
	if (bystander->loop_apart)
		(void)sched_setaffinity(0, sizeof(bystander->cores), &bystander->cores);
	vcpu_counts_close(&bystander->counts);
	planted_close(&bystander->planted);
}
