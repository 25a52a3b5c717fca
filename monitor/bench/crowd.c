#include "monitor/bench/crowd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/dead_end.h"
#include "monitor/bench/scene.h"
#include "monitor/channel.h"
#include "monitor/loop.h"

#define RATE_SECONDS 1.0
#define SPARE_SLOTS 16u /* a new channel does not wait for the last close of an old one */

/* ---- what it is made of ---- */

/* Clients of even guests have one type, those of odd guests another: that loses its rights. */
static bool is_odd(const struct guest *guest)
{
	return (guest->name[strlen(guest->name) - 1] - '0') % 2 == 1;
}

static void put_domain(FILE *to, const struct crowd *crowd, uint32_t g, uint32_t d)
{
	fprintf(to, "%s\n    { name = \"d%u\"; program = \"crowd\"; ", d ? "," : "", d);
	if (g == 0 && d == 0)
		fprintf(to,
		        "args = (\"serve\"); offers = (\"hub\"); slots = %u; heap_kib = 4096;\n"
		        "      context = \"system_u:system_r:hub_t:s0\"; }",
		        crowd->n_channels + SPARE_SLOTS);
	else
		fprintf(to,
		        "args = (\"client\", \"hub\");\n"
		        "      context = \"system_u:system_r:crowd%u_t:s0\"; }",
		        g % 2);
}

static char *manifest_text(const struct crowd *crowd)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	fputs("guests = (", to);
	for (uint32_t g = 0; g < crowd->n_guests; g++) {
		fprintf(to, "%s\n  { name = \"g%u\"; domains = (", g ? "," : "", g);
		for (uint32_t d = 0; d < crowd->n_domains; d++)
			put_domain(to, crowd, g, d);
		fputs(" ); }", to);
	}
	fputs("\n);\n", to);
	return fclose(to) == 0 ? text : NULL;
}

static char *policy_text(bool allow_odd)
{
	return strdup(allow_odd ? "(type hub_t) (type crowd0_t) (type crowd1_t)\n"
	                          "(call a_domain (hub_t)) (call a_domain (crowd0_t)) (call a_domain "
	                          "(crowd1_t))\n"
	                          "(call can_connect (crowd0_t hub_t)) (call can_connect (crowd1_t hub_t))\n"
	                        : "(type hub_t) (type crowd0_t) (type crowd1_t)\n"
	                          "(call a_domain (hub_t)) (call a_domain (crowd0_t)) (call a_domain "
	                          "(crowd1_t))\n"
	                          "(call can_connect (crowd0_t hub_t))\n");
}

/* ---- looking at it ---- */

/* Its place in `seen`. */
static size_t client_of(const struct crowd *crowd, const struct channel *channel)
{
	const struct domain *client = channel->end[SIDE_CLIENT].domain;

	return strtoul(client->guest->name + 1, NULL, 10) * crowd->n_domains + client->index;
}

static bool is_open(const struct channel *channel)
{
	return channel->flow[SIDE_CLIENT].state == FLOW_OPEN && channel->flow[SIDE_SERVER].state == FLOW_OPEN;
}

/* How many replies all clients' present channels have seen; the first look at each goes to `seen`. */
static uint64_t count_replies(struct crowd *crowd, bool remember)
{
	struct registry *registry = registry_lock(scene_stage(crowd->scene)->monitor);
	uint64_t sum = 0;

	for (struct channel *channel = registry->first; channel; channel = channel->next) {
		if (!is_open(channel))
			continue;
		channel_count(channel, SIDE_SERVER);
		sum += channel->count[SIDE_SERVER].messages;
		if (remember)
			crowd->seen[client_of(crowd, channel)] = channel->count[SIDE_SERVER].messages;
	}
	registry_unlock(registry);
	return sum;
}

struct wanted {
	struct crowd *crowd;
	uint32_t n;   /* channels that must be open and have got a reply ... */
	bool further; /* ... further than `seen` */
};

static bool all_call(struct scene *scene, void *opaque)
{
	const struct wanted *wanted = opaque;
	struct registry *registry = registry_lock(scene_stage(scene)->monitor);
	uint32_t n = 0;

	for (struct channel *channel = registry->first; channel; channel = channel->next) {
		if (!is_open(channel))
			continue;
		channel_count(channel, SIDE_SERVER);
		n += channel->count[SIDE_SERVER].messages >
		     (wanted->further ? wanted->crowd->seen[client_of(wanted->crowd, channel)] : 0);
	}
	registry_unlock(registry);
	return n >= wanted->n;
}

/* Every channel that was cut is dead at both ends, unless an end has closed it already. */
static int check_dead(struct crowd *crowd, char why[static WHY_BYTES])
{
	struct registry *registry = registry_lock(scene_stage(crowd->scene)->monitor);
	const char *fault = NULL;

	for (struct channel *channel = registry->first; channel && !fault; channel = channel->next)
		for (unsigned side = 0; side < N_SIDES && !fault; side++) {
			if (!is_odd(channel->end[SIDE_CLIENT].domain->guest) ||
			    channel->end[side].fate != END_HELD)
				continue;
			fault = dead_end_fault(channel, (enum channel_side)side);
			if (fault)
				snprintf(why, WHY_BYTES, "channel %llu of %s: %s",
				         (unsigned long long)channel->number,
				         channel->end[SIDE_CLIENT].domain->guest->name, fault);
		}
	registry_unlock(registry);
	return fault ? -EPROTO : 0;
}

static bool never(struct stage *stage, void *opaque)
{
	(void)stage, (void)opaque;
	return false;
}

static void measure_rate(struct crowd *crowd)
{
	uint64_t begun = loop_now(), before = count_replies(crowd, false);

	stage_until(scene_stage(crowd->scene), never, NULL, RATE_SECONDS);
	crowd->calls_per_second =
		(double)(count_replies(crowd, false) - before) * 1e9 / (double)(loop_now() - begun);
}

/* ---- a run ---- */

static void take_times(struct crowd *crowd, const json_t *report, uint32_t run)
{
	static const char *const names[N_CROWD_PARTS] = {"total", "prepare", "stop", "patch", "resume"};
	const json_t *times = json_object_get(report, "times");

	for (int part = 0; part < N_CROWD_PARTS; part++)
		crowd->part[part][run] = json_number_value(json_object_get(times, names[part]));
	crowd->n_stopped =
		(uint32_t)json_integer_value(json_object_get(json_object_get(report, "vcpus"), "stopped"));
}

static int cut_half(struct crowd *crowd, uint32_t run, char why[static WHY_BYTES])
{
	json_t *report = scene_push(crowd->scene, crowd->deny, crowd->stop, false, why);
	json_int_t n_cut;

	if (!report)
		return -EPROTO;
	n_cut = json_integer_value(json_object_get(json_object_get(report, "flows"), "cut"));
	take_times(crowd, report, run);
	json_decref(report);
	if (n_cut == 2 * (json_int_t)crowd->n_cut)
		return check_dead(crowd, why);
	snprintf(why, WHY_BYTES, "the change cut %lld flows, not %u", (long long)n_cut, 2 * crowd->n_cut);
	return -EPROTO;
}

static int restore(struct crowd *crowd, char why[static WHY_BYTES])
{
	struct wanted all = {crowd, crowd->n_channels, false};
	json_t *report = scene_push(crowd->scene, crowd->allow, crowd->stop, false, why);

	if (!report)
		return -EPROTO;
	json_decref(report);
	return scene_until(crowd->scene, all_call, &all, "every client calls again", why);
}

int crowd_run(struct crowd *crowd, uint32_t run, char why[static WHY_BYTES])
{
	struct wanted kept = {crowd, crowd->n_channels - crowd->n_cut, true};
	int error = cut_half(crowd, run, why);

	/* A client that lost a reply, or saw a false error, has ended, and that is an error here. */
	if (error == 0) {
		count_replies(crowd, true);
		error = scene_until(crowd->scene, all_call, &kept, "every client that was kept goes on", why);
	}
	return error < 0 ? error : restore(crowd, why);
}

/* ---- begin and end ---- */

int crowd_open(struct crowd *crowd, struct launcher *launcher, char why[static WHY_BYTES])
{
	struct wanted all = {crowd, 0, false};
	struct scene_options options = {.launcher = launcher, .program_dir = crowd->program_dir};
	uint64_t begun = loop_now();
	char *manifest;
	int error = -ENOMEM;

	crowd->n_channels = crowd->n_guests * crowd->n_domains - 1;
	crowd->n_cut = crowd->n_guests / 2 * crowd->n_domains;
	all.n = crowd->n_channels;
	manifest = manifest_text(crowd);
	crowd->allow = policy_text(true);
	crowd->deny = policy_text(false);
	crowd->seen = calloc((size_t)crowd->n_guests * crowd->n_domains, sizeof(*crowd->seen));
	options.manifest = manifest;
	options.policy = crowd->allow;
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (manifest && crowd->allow && crowd->deny && crowd->seen)
		error = scene_open(&options, &crowd->scene, why);
	free(manifest);
	if (error == 0)
		error = scene_until(crowd->scene, all_call, &all, "every client calls", why);
	crowd->start_ms = (double)(loop_now() - begun) / 1e6;
	if (error == 0)
		measure_rate(crowd);
	return error;
}

void crowd_close(struct crowd *crowd)
{
	scene_close(crowd->scene);
	free(crowd->allow);
	free(crowd->deny);
	free(crowd->seen);
}
