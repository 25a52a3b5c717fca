#include "monitor/bench/revoke_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/dead_end.h"
#include "monitor/bench/scene.h"
#include "monitor/channel.h"
#include "monitor/loop.h"
#include "vmm/stop.h"

#define STOP_PATIENCE_NS 10000000000ull

const char *const revoke_part_names[N_PARTS] = {"total", "stop", "patch", "resume", "stop_to_resumed"};

/* ---- what stands before a cut, and after it ---- */

/* A request has been taken, no answer was given. */
static bool is_called(struct channel *channel)
{
	const struct flow_count *out = &channel->count[SIDE_CLIENT], *back = &channel->count[SIDE_SERVER];

	channel_count(channel, SIDE_CLIENT);
	channel_count(channel, SIDE_SERVER);
	return channel->flow[SIDE_CLIENT].state == FLOW_OPEN &&
	       channel->flow[SIDE_SERVER].state == FLOW_OPEN && out->messages == 1 &&
	       out->unread_bytes == 0 && back->messages == 0;
}

static bool all_called(struct scene *scene, void *opaque)
{
	const struct revoke_row *row = opaque;
	struct registry *registry = registry_lock(scene_stage(scene)->monitor);
	bool all = registry->n_channels == row->n;

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
	const struct revoke_row *row = opaque;

	return scene_n_lines(scene) >= shape_n_holders(row->shape, row->n);
}

static int check_links(struct revoke_row *row, char why[static WHY_BYTES])
{
	struct registry *registry = registry_lock(scene_stage(row->scene)->monitor);
	uint32_t n = registry->n_channels;
	const char *fault = n == row->n ? NULL : "a channel is missing";

	for (struct channel *channel = registry->first; channel && !fault; channel = channel->next)
		for (unsigned side = 0; side < N_SIDES && !fault; side++) {
			fault = dead_end_fault(channel, (enum channel_side)side);
			if (fault)
				snprintf(why, WHY_BYTES, "channel %llu at %s: %s",
				         (unsigned long long)channel->number, channel->end[side].domain->name,
				         fault);
		}
	registry_unlock(registry);
	if (fault && n != row->n)
		snprintf(why, WHY_BYTES, "%u channels are there after the cut, not %u", n, row->n);
	return fault ? -EPROTO : 0;
}

/* Each domain has said how its ends found out, and how many messages passed: one an end. */
static int check_lines(struct revoke_row *row, char why[static WHY_BYTES])
{
	unsigned long long ends, revoked, messages, all = 0;
	struct scene_line line;

	for (size_t i = 0; scene_line(row->scene, i, &line); i++) {
		if (sscanf(line.text, "cut ends=%llu revoked=%llu messages=%llu", &ends, &revoked,
		           &messages) != 3 ||
		    revoked != ends || messages != ends) {
			snprintf(why, WHY_BYTES, "%s is not as it must be after the cut: %s", line.domain,
			         line.text);
			return -EPROTO;
		}
		all += ends;
	}
	if (all == 2ull * row->n)
		return 0;
	snprintf(why, WHY_BYTES, "%llu channel ends were told of the cut, not %u", all, 2 * row->n);
	return -EPROTO;
}

/* ---- the steps of a run ---- */

static void take_times(const json_t *report, struct revoke_samples *samples, uint32_t run)
{
	const json_t *times = json_object_get(report, "times");
	double sum = 0;

	for (int part = 0; part < PART_RESUMED; part++) {
		double us = json_number_value(json_object_get(times, revoke_part_names[part]));

		samples->part[part][run] = us;
		sum += part == PART_TOTAL ? 0 : us;
	}
	samples->part[PART_RESUMED][run] = sum;
}

/* One change that must cut n_cut flows; its times into samples, if they are wanted. */
static int push(struct revoke_row *row, const char *policy, uint64_t n_cut, struct revoke_samples *samples,
                uint32_t run, char why[static WHY_BYTES])
{
	json_t *report = scene_push(row->scene, policy, row->stop, false, why);
	uint64_t cut;

	if (!report)
		return -EPROTO;
	cut = (uint64_t)json_integer_value(json_object_get(json_object_get(report, "flows"), "cut"));
	if (samples)
		take_times(report, samples, run);
	json_decref(report);
	if (cut == n_cut)
		return 0;
	snprintf(why, WHY_BYTES, "the change cut %llu flows, not %llu", (unsigned long long)cut,
	         (unsigned long long)n_cut);
	return -EPROTO;
}

/* ---- stop and resume with nothing between ---- */

struct floor {
	struct machine *machine;
	double us; /* of the latest */
	int error;
	char *why;
};

static void stop_resume(void *opaque)
{
	struct floor *floor = opaque;
	uint64_t begun = loop_now();
	struct stop_report stopped;

	floor->error =
		stop_machines(&floor->machine, 1, begun + STOP_PATIENCE_NS, &stopped, NULL, floor->why);
	if (floor->error == 0)
		floor->error = resume_machines(&floor->machine, 1, begun + STOP_PATIENCE_NS, floor->why);
	floor->us = (double)(loop_now() - begun) / 1000.0;
}

/*
 * The floor of a push: the same change is prepared to the end, in another server and by the same code, and
 * where its stop would begin there is a stop and a resume alone. Caches are as cold as a push finds
 * them, and vCPUs sleep as deep. Beside it the second of two in a row, which finds everything warm.
 */
static int measure_floor(struct revoke_row *row, const char *deny, uint32_t run, char why[static WHY_BYTES])
{
	struct floor floor = {.machine = scene_guest(row->scene)->machine, .error = -EPROTO, .why = why};
	json_t *report = scene_push_watched(row->scene, deny, row->stop, true, stop_resume, &floor, why);

	if (!report)
		return -EPROTO;
	json_decref(report);
	row->floor[run] = floor.us;
	for (int i = 0; i < 2 && floor.error == 0; i++)
		stop_resume(&floor);
	row->warm[run] = floor.us;
	return floor.error;
}

/* ---- the rest of a run ---- */

static int cut_all(struct revoke_row *row, uint32_t run, char why[static WHY_BYTES])
{
	int error = push(row, row->deny, 2ull * row->n, &row->cut, run, why);

	if (error == 0)
		error = check_links(row, why);
	if (error == 0)
		error = scene_until(row->scene, all_told, row, "every domain has noticed the cut", why);
	return error < 0 ? error : check_lines(row, why);
}

/* A change that cuts nothing tells the domains to close; the next one, to begin anew. */
static int restore(struct revoke_row *row, uint32_t run, char why[static WHY_BYTES])
{
	int error = push(row, row->deny, 0, &row->idle, run, why);

	scene_wake_all(row->scene);
	if (error == 0)
		error = scene_until(row->scene, none_left, row, "every channel is closed", why);
	scene_clear_lines(row->scene);
	if (error == 0)
		error = push(row, row->allow, 0, NULL, run, why);
	scene_wake_all(row->scene);
	/* Before another row has its turn: a connect that nobody decides meanwhile would end with its
	 * deadline. */
	return error < 0 ? error : scene_until(row->scene, all_called, row, "every call blocks again", why);
}

static int run_once(struct revoke_row *row, uint32_t run, char why[static WHY_BYTES])
{
	int error = scene_until(row->scene, all_called, row, "every call blocks", why);

	if (error == 0)
		error = measure_floor(row, row->deny, run, why);
	if (error == 0) /* what the floor stopped has settled again */
		error = scene_until(row->scene, all_called, row, "every call blocks", why);
	if (error == 0)
		error = cut_all(row, run, why);
	return error < 0 ? error : restore(row, run, why);
}

/* The same with channels that the monitor put there. */
static int run_planted(struct revoke_row *row, uint32_t run, char why[static WHY_BYTES])
{
	int error = planted_fill(&row->planted, why);

	if (error == 0)
		error = measure_floor(row, row->planted.deny, run, why);
	if (error == 0)
		error = push(row, row->planted.deny, 2ull * row->n, &row->cut, run, why);
	if (error == 0)
		error = planted_check(&row->planted, why);
	if (error == 0 && row->idle.part[PART_TOTAL])
		error = push(row, row->planted.deny, 0, &row->idle, run, why);
	if (error == 0)
		error = planted_empty(&row->planted, why);
	return error < 0 ? error : push(row, row->planted.allow, 0, NULL, run, why);
}

int revoke_run(struct revoke_row *row, uint32_t run, char why[static WHY_BYTES])
{
	char fault[WHY_BYTES];
	int error = row->is_planted ? run_planted(row, run, fault) : run_once(row, run, fault);

	if (error < 0)
		snprintf(why, WHY_BYTES, "%s of %u connections, run %u: %.400s",
		         row->is_planted ? layout_name(row->layout) : shape_name(row->shape), row->n, run + 1,
		         fault);
	return error;
}

static int open_planted(struct revoke_row *row, struct launcher *launcher, char why[static WHY_BYTES])
{
	int error;

	row->planted = (struct planted){.n = row->n,
	                                .n_pairs = 1,
	                                .layout = row->layout,
	                                .n_vcpus = row->n_vcpus,
	                                .load = row->load,
	                                .program_dir = row->program_dir};
	error = planted_open(&row->planted, launcher, why);
	row->scene = row->planted.scene;
	return error;
}

int revoke_open(struct revoke_row *row, struct launcher *launcher, char why[static WHY_BYTES])
{
	if (row->is_planted)
		return open_planted(row, launcher, why);
	char *manifest = shape_manifest(row->shape, row->n, row->most, row->n_vcpus);
	struct scene_options options = {
		.launcher = launcher, .manifest = manifest, .program_dir = row->program_dir};
	int error = -ENOMEM;

	row->allow = shape_policy(row->shape, row->n, row->most, 1);
	row->deny = shape_policy(row->shape, row->n, row->most, 0);
	options.policy = row->allow;
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (manifest && row->allow && row->deny)
		error = scene_open(&options, &row->scene, why);
	free(manifest);
	return error;
}

void revoke_close(struct revoke_row *row)
{
	if (row->is_planted) {
		planted_close(&row->planted);
		return;
	}
	scene_close(row->scene);
	free(row->allow);
	free(row->deny);
}
