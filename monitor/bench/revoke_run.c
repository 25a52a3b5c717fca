#include "monitor/bench/revoke_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/scene.h"
#include "monitor/channel.h"
#include "monitor/loop.h"
#include "vmm/stop.h"

#define STOP_PATIENCE_NS 10000000000ull

struct run {
	const struct revoke_row *row;
	struct scene *scene;
	uint32_t number;
	char *allow, *deny; /* policy text */
};

/* ---- what stands before a cut, and after it ---- */

/* A request has been taken, no answer was given. */
static bool is_called(struct channel *channel)
{
	const struct flow *out = &channel->flow[SIDE_CLIENT], *back = &channel->flow[SIDE_SERVER];

	channel_count(channel, SIDE_CLIENT);
	channel_count(channel, SIDE_SERVER);
	return out->state == FLOW_OPEN && back->state == FLOW_OPEN && out->messages == 1 &&
	       out->unread_bytes == 0 && back->messages == 0;
}

static bool all_called(struct scene *scene, void *opaque)
{
	const struct run *run = opaque;
	struct registry *registry = registry_lock(scene_stage(scene)->monitor);
	bool all = registry->n_channels == run->row->n;

	for (struct channel *channel = registry->first; channel && all; channel = channel->next)
		all = is_called(channel);
	registry_unlock(registry);
	return all && scene_all_blocked(scene);
}

static bool none_left(struct scene *scene, void *opaque)
{
	struct registry *registry = registry_lock(scene_stage(scene)->monitor);
	uint32_t n = registry->n_channels;

	(void)opaque;
	registry_unlock(registry);
	return n == 0;
}

static bool all_told(struct scene *scene, void *opaque)
{
	const struct run *run = opaque;

	return scene_n_lines(scene) >= shape_n_holders(run->row->shape, run->row->n);
}

static bool is_zero(const void *memory, size_t bytes)
{
	const uint64_t *words = memory;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		if (__atomic_load_n(&words[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

/* Why an end of a channel is not as dead as it must be; NULL: it is. */
static const char *end_fault(const struct channel *channel, enum channel_side side)
{
	const struct endpoint *end = &channel->end[side];
	struct machine *machine = end->domain->guest->machine;
	uint64_t word = __atomic_load_n(&machine_record(machine, end->slot)->word, __ATOMIC_ACQUIRE);

	if (channel->flow[side].state != FLOW_CUT)
		return "the flow from it is not cut";
	if ((word & (RECORD_OUT | RECORD_IN | RECORD_OUT_CUT | RECORD_IN_CUT)) !=
	    (RECORD_OUT_CUT | RECORD_IN_CUT))
		return "its record does not say that both flows were cut";
	if (!is_zero(window_inbox(machine, end->slot), 2 * ABI_PAGE_BYTES))
		return "it still sees its peer's memory";
	return NULL;
}

static int check_links(struct run *run, char why[static WHY_BYTES])
{
	struct registry *registry = registry_lock(scene_stage(run->scene)->monitor);
	uint32_t n = registry->n_channels;
	const char *fault = n == run->row->n ? NULL : "a channel is missing";

	for (struct channel *channel = registry->first; channel && !fault; channel = channel->next)
		for (unsigned side = 0; side < N_SIDES && !fault; side++) {
			fault = end_fault(channel, (enum channel_side)side);
			if (fault)
				snprintf(why, WHY_BYTES, "channel %llu at %s: %s",
				         (unsigned long long)channel->number, channel->end[side].domain->name,
				         fault);
		}
	registry_unlock(registry);
	if (fault && n != run->row->n)
		snprintf(why, WHY_BYTES, "%u channels are there after the cut, not %u", n, run->row->n);
	return fault ? -EPROTO : 0;
}

/* Each domain has said how its ends found out, and how many messages passed: one an end. */
static int check_lines(struct run *run, char why[static WHY_BYTES])
{
	unsigned long long ends, revoked, messages, all = 0;
	struct scene_line line;

	for (size_t i = 0; scene_line(run->scene, i, &line); i++) {
		if (sscanf(line.text, "cut ends=%llu revoked=%llu messages=%llu", &ends, &revoked,
		           &messages) != 3 ||
		    revoked != ends || messages != ends) {
			snprintf(why, WHY_BYTES, "%s is not as it must be after the cut: %s", line.domain,
			         line.text);
			return -EPROTO;
		}
		all += ends;
	}
	if (all == 2ull * run->row->n)
		return 0;
	snprintf(why, WHY_BYTES, "%llu channel ends were told of the cut, not %u", all, 2 * run->row->n);
	return -EPROTO;
}

/* ---- the steps of a run ---- */

static void take_times(const json_t *report, struct revoke_samples *samples, uint32_t run)
{
	static const char *const names[N_PARTS] = {"total", "stop", "patch", "resume"};
	const json_t *times = json_object_get(report, "times");

	for (int part = 0; part < N_PARTS; part++)
		samples->part[part][run] = json_number_value(json_object_get(times, names[part]));
}

static int push(struct run *run, const char *policy, struct revoke_samples *samples, uint64_t n_cut,
                char why[static WHY_BYTES])
{
	json_t *report = scene_push(run->scene, policy, run->row->stop, false, why);
	uint64_t cut;

	if (!report)
		return -EPROTO;
	cut = (uint64_t)json_integer_value(json_object_get(json_object_get(report, "flows"), "cut"));
	if (samples)
		take_times(report, samples, run->number);
	json_decref(report);
	if (cut == n_cut)
		return 0;
	snprintf(why, WHY_BYTES, "the change cut %llu flows, not %llu", (unsigned long long)cut,
	         (unsigned long long)n_cut);
	return -EPROTO;
}

/*
 * Stop and resume where a change stops: when the same change has been prepared, and
 * its plan thrown away. A stop out of the blue finds cores that have gone to sleep, and takes longer.
 */
static int measure_floor(struct run *run, char why[static WHY_BYTES])
{
	json_t *report = scene_push(run->scene, run->deny, run->row->stop, true, why);
	struct machine *machine = scene_guest(run->scene)->machine;
	uint64_t begun = loop_now();
	struct stop_report stopped;
	int error;

	if (!report)
		return -EPROTO;
	error = stop_machines(&machine, 1, begun + STOP_PATIENCE_NS, &stopped, NULL, why);
	if (error == 0)
		error = resume_machines(&machine, 1, begun + STOP_PATIENCE_NS, why);
	run->row->floor[run->number] = (double)(loop_now() - begun) / 1000.0;
	json_decref(report);
	return error;
}

static int cut_all(struct run *run, char why[static WHY_BYTES])
{
	struct revoke_samples cut = run->row->cut;
	int error = push(run, run->deny, &cut, 2ull * run->row->n, why);

	if (error == 0)
		error = check_links(run, why);
	if (error == 0)
		error = scene_until(run->scene, all_told, run, "every domain has noticed the cut", why);
	return error < 0 ? error : check_lines(run, why);
}

/* A change that cuts nothing tells the domains to close; the next one, to begin anew. */
static int restore(struct run *run, char why[static WHY_BYTES])
{
	struct revoke_samples idle = run->row->idle;
	int error = push(run, run->deny, &idle, 0, why);

	scene_wake_all(run->scene);
	if (error == 0)
		error = scene_until(run->scene, none_left, run, "every channel is closed", why);
	scene_clear_lines(run->scene);
	if (error == 0)
		error = push(run, run->allow, NULL, 0, why);
	scene_wake_all(run->scene);
	return error;
}

static int run_once(struct run *run, char why[static WHY_BYTES])
{
	int error = scene_until(run->scene, all_called, run, "every call blocks", why);

	if (error == 0)
		error = measure_floor(run, why);
	if (error == 0) /* what the floor stopped has settled again */
		error = scene_until(run->scene, all_called, run, "every call blocks", why);
	if (error == 0)
		error = cut_all(run, why);
	return error < 0 ? error : restore(run, why);
}

static int run_all(struct run *run, struct progress *progress, char why[static WHY_BYTES])
{
	int error = 0;

	for (; run->number < run->row->n_runs && error == 0; run->number++) {
		char fault[WHY_BYTES];

		progress_step(progress, "%s of %u connections, run %u of %u", shape_name(run->row->shape),
		              run->row->n, run->number + 1, run->row->n_runs);
		error = run_once(run, fault);
		if (error < 0)
			snprintf(why, WHY_BYTES, "%s of %u connections, run %u: %.400s",
			         shape_name(run->row->shape), run->row->n, run->number + 1, fault);
	}
	return error;
}

int revoke_run(struct launcher *launcher, struct revoke_row *row, struct progress *progress,
               char why[static WHY_BYTES])
{
	char *manifest = shape_manifest(row->shape, row->n, row->most, row->n_vcpus);
	struct run run = {
		.row = row,
		.allow = shape_policy(row->shape, row->n, row->most, 1),
		.deny = shape_policy(row->shape, row->n, row->most, 0),
	};
	struct scene_options options = {.launcher = launcher,
	                                .manifest = manifest,
	                                .policy = run.allow,
	                                .program_dir = row->program_dir};
	int error = -ENOMEM;

	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (manifest && run.allow && run.deny)
		error = scene_open(&options, &run.scene, why);
	if (error == 0)
		error = run_all(&run, progress, why);
	scene_close(run.scene);
	free(manifest);
	free(run.allow);
	free(run.deny);
	return error;
}
