/*
 * I1, complete: nothing that was sent after a cut is ever handed on, and at most
 * one message that had been read before it. I4, selective: what stays allowed loses
 * nothing. Under traffic from two vCPUs, in every way to stop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/monitor/world.h"
#include "tests/support/rounds.h"
#include "vmm/window.h"

#define ROUNDS_VARIABLE "PORTCULLIS_TEST_ROUNDS" /* fewer, for the control build */

enum {
	LANE_A,
	LANE_B,
	LANE_C,
	LANE_D
};

struct traffic {
	struct world world;
	struct mailbox *source, *sink;
	struct image image[2]; /* of the policies that allow lane a, lane b */
	enum stop_mode stop;
	uint64_t random;
};

struct watched {
	struct traffic *traffic;
	unsigned lane;
	uint64_t least;   /* of n_taken */
	uint64_t last;    /* counter at which the source was when the push had returned */
	uint64_t revoked; /* channels that both ends must have seen cut */
};

static uint64_t draw(struct traffic *traffic, uint64_t most)
{
	traffic->random = traffic->random * 6364136223846793005u + 1442695040888963407u;
	return (traffic->random >> 33) % most;
}

static bool flows(struct world *world, void *opaque)
{
	struct watched *watched = opaque;

	(void)world;
	return MAILBOX_LOAD(watched->traffic->sink->lane[watched->lane].n_taken) >= watched->least;
}

static void until_flowing(struct traffic *traffic, unsigned lane, uint64_t more)
{
	struct watched watched = {.traffic = traffic, .lane = lane};

	watched.least = MAILBOX_LOAD(traffic->sink->lane[lane].n_taken) + more;
	world_until(&traffic->world, flows, &watched, "messages flow");
}

static bool escaped(const struct watched *watched)
{
	return MAILBOX_LOAD(watched->traffic->sink->lane[watched->lane].taken) > watched->last;
}

/* Both ends have been told, or a message has come through all the same. */
static bool is_over(struct world *world, void *opaque)
{
	struct watched *watched = opaque;

	(void)world;
	return escaped(watched) ||
	       (MAILBOX_LOAD(watched->traffic->sink->lane[watched->lane].revoked) == watched->revoked &&
	        !MAILBOX_LOAD(watched->traffic->source->lane[watched->lane].is_open));
}

static struct channel *find_lane(struct world *world, unsigned lane)
{
	const char name[] = {(char)('a' + lane), '\0'};
	struct registry *registry = registry_lock(world->monitor);
	struct channel *channel = registry->first;

	while (channel && strcmp(channel->service->name, name) != 0)
		channel = channel->next;
	registry_unlock(registry);
	cr_assert_not_null(channel);
	return channel;
}

static void want(struct traffic *traffic, unsigned lane)
{
	MAILBOX_STORE(traffic->source->want, 1u << lane | 1u << LANE_C | 1u << LANE_D);
}

/* manifest: MANIFEST_TRAFFIC, or the same in two guests. */
static void traffic_open(struct traffic *traffic, const char *manifest, enum stop_mode stop)
{
	const struct world_options options = {
		.manifest = manifest, .policy = POLICY_LANE_A, .busy = true, .quiet = true};

	*traffic = (struct traffic){.stop = stop, .random = 1 + (uint64_t)stop};
	world_open(&traffic->world, &options);
	traffic->source = world_mailbox(&traffic->world, "source");
	traffic->sink = world_mailbox(&traffic->world, "sink");
	traffic->image[LANE_A] = world_image(&traffic->world);
	world_push_quietly(&traffic->world, POLICY_LANE_B, stop);
	traffic->image[LANE_B] = world_image(&traffic->world);
	world_push_quietly(&traffic->world, POLICY_LANE_A, stop);
	want(traffic, LANE_A);
	until_flowing(traffic, LANE_A, 1);
	until_flowing(traffic, LANE_C, 1);
	until_flowing(traffic, LANE_D, 1);
}

/* Mostly compiled, sometimes as text: it is the same change. */
static json_t *push(struct traffic *traffic, unsigned to)
{
	if (draw(traffic, 25))
		return world_push_image(&traffic->world, &traffic->image[to], traffic->stop);
	return world_push(&traffic->world, to == LANE_A ? POLICY_LANE_A : POLICY_LANE_B, traffic->stop);
}

/* Pushes a policy that takes `from` away and restores `to`, at a random moment. */
static void cut_and_restore(struct traffic *traffic, unsigned from, unsigned to)
{
	struct mailbox_lane *source = &traffic->source->lane[from], *sink = &traffic->sink->lane[from];
	struct channel copy = *find_lane(&traffic->world, from);
	struct watched watched = {.traffic = traffic, .lane = from, .revoked = sink->revoked + 1};
	uint64_t taken_before;
	json_t *report;

	MAILBOX_STORE(traffic->source->want, 1u << LANE_C | 1u << LANE_D);
	world_drift(&traffic->world, draw(traffic, 1500000));
	report = push(traffic, to);
	watched.last = MAILBOX_LOAD(source->attempt);
	taken_before = MAILBOX_LOAD(sink->n_taken);

	world_until(&traffic->world, is_over, &watched, "both ends of the cut channel are told");
	cr_assert(!escaped(&watched),
	          "message %llu was handed on after the push had returned, when the source was at %llu",
	          (unsigned long long)sink->taken, (unsigned long long)watched.last);
	cr_assert_leq(sink->n_taken - taken_before, 1, "more than one message followed the push");
	cr_assert_eq(source->result, CALL_REVOKED);
	cr_assert_eq(sink->ending, CALL_REVOKED);
	cr_assert_eq(sink->wrong, 0);
	cr_assert(inbox_is_empty(&copy, SIDE_CLIENT) && inbox_is_empty(&copy, SIDE_SERVER));
	cr_assert_eq(report_number(report, "flows.cut"), 2);
	cr_assert_eq(report_number(report, "flows.kept"), 4);
	cr_assert_eq(report_number(report, "vcpus.stopped"), traffic->stop == STOP_NONE ? 0 : 2);
	json_decref(report);

	want(traffic, to);
	until_flowing(traffic, to, 1 + draw(traffic, 200));
}

/* All that the source had sent by now arrives; none of it was missing. */
static void assert_unharmed(struct traffic *traffic, unsigned lane)
{
	struct mailbox_lane *source = &traffic->source->lane[lane], *sink = &traffic->sink->lane[lane];
	uint64_t ahead = MAILBOX_LOAD(source->attempt) - MAILBOX_LOAD(sink->taken);

	until_flowing(traffic, lane, ahead + 1);
	cr_assert_eq(source->opened, 1);
	cr_assert_eq(sink->accepted, 1);
	cr_assert_eq(sink->wrong, 0, "lane %c lost, repeated or reordered messages", 'a' + lane);
	cr_assert_eq(sink->revoked + sink->ended, 0, "lane %c saw a false error", 'a' + lane);
}

static void run_rounds(const char *manifest, enum stop_mode stop, unsigned rounds)
{
	const char *fewer = getenv(ROUNDS_VARIABLE);
	struct traffic traffic;

	if (fewer)
		rounds = (unsigned)atoi(fewer);
	traffic_open(&traffic, manifest, stop);
	for (unsigned round = 0; round < rounds; round++)
		cut_and_restore(&traffic, round % 2 ? LANE_B : LANE_A, round % 2 ? LANE_A : LANE_B);
	assert_unharmed(&traffic, LANE_C);
	assert_unharmed(&traffic, LANE_D);
	cr_assert_eq(traffic.world.monitor->posture->policy_number, 3 + rounds);
	world_close(&traffic.world);
}

/* I1, I4, R1, R7: each push takes one channel away and restores another, 1,000 times. */
Test(promise, i1_complete_stop_all)
{
	run_rounds(MANIFEST_TRAFFIC, STOP_ALL, SAMPLED(1000));
}

Test(promise, i1_complete_stop_affected)
{
	run_rounds(MANIFEST_TRAFFIC, STOP_AFFECTED, 150);
}

Test(promise, i1_complete_stop_none)
{
	run_rounds(MANIFEST_TRAFFIC, STOP_NONE, 150);
}

#define TRAFFIC_GUEST(guest, name, argument, context, more)                                                  \
	"{ name = \"" guest "\"; domains = ({ name = \"" name "\"; program = \"" TEST_DOMAINS                \
	"t_traffic.elf\"; args = ( \"" argument "\" ); context = \"system_u:system_r:" context               \
	":s0\"; " more " }); }"
#define LANE(lane) "{ name = \"" lane "\"; context = \"system_u:system_r:lane_" lane "_t:s0\"; }"

static const char MANIFEST_ACROSS[] =
	"guests = ( " TRAFFIC_GUEST("near", "source", "client", "source_t", "") "," TRAFFIC_GUEST(
		"far", "sink", "server", "sink_t",
		"offers = ( " LANE("a") "," LANE("b") "," LANE("c") "," LANE("d") " );") " );";

/* The same with source and sink in two guests. */
Test(cross, i1_i4_complete_stop_all)
{
	run_rounds(MANIFEST_ACROSS, STOP_ALL, SAMPLED(150));
}

Test(cross, i1_i4_complete_stop_affected)
{
	run_rounds(MANIFEST_ACROSS, STOP_AFFECTED, SAMPLED(100));
}

Test(cross, i1_i4_complete_stop_none)
{
	run_rounds(MANIFEST_ACROSS, STOP_NONE, SAMPLED(100));
}

/* The control: the same test with a commit that takes nothing away must fail, and for that reason. */
Test(promise, i1_control_notices_a_skipped_cut)
{
	char path[512], command[1024], output[65536];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	size_t used;
	FILE *child;
	int status;

	if (access("/dev/kvm", R_OK | W_OK) != 0)
		cr_skip_test("no /dev/kvm");
	cr_assert_gt(n, 0);
	path[n] = '\0';
	if (strstr(path, "-control"))
		return;
	snprintf(command, sizeof(command),
	         "env -i " ROUNDS_VARIABLE
	         "=3 %s-control -j1 --color=never --filter promise/i1_complete_stop_all 2>&1",
	         path);
	child = popen(command, "r");
	cr_assert_not_null(child);
	used = fread(output, 1, sizeof(output) - 1, child);
	output[used] = '\0';
	status = pclose(child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) != 0, "the control passed:\n%s", output);
	cr_assert(strstr(output, "was handed on after the push had returned"),
	          "the control failed for another reason:\n%s", output);
}
