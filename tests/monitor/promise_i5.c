/* I5, idle: a policy of the same meaning cuts nothing and stops nothing (R6, F12, R9, R10). */
#include <string.h>

#include "monitor/view.h"
#include "tests/monitor/world.h"
#include "vmm/stop.h"

struct progress {
	struct mailbox_lane *lane;
	uint64_t least;
};

static bool has_progressed(struct world *world, void *opaque)
{
	struct progress *progress = opaque;

	(void)world;
	return MAILBOX_LOAD(progress->lane->n_taken) >= progress->least;
}

/* The same policy 1,000 times under traffic: nobody is stopped, nothing is lost, and status readers see a
 * whole. */
Test(promise, i5_r6_same_policy_under_traffic)
{
	static const struct world_options options = {
		.manifest = MANIFEST_TRAFFIC, .policy = POLICY_LANE_A, .busy = true, .quiet = true};
	static const unsigned lanes[] = {0, 2, 3};
	struct world world;
	struct mailbox *source, *sink;
	struct progress progress = {.least = 1};
	const char *fingerprint;
	struct image image;

	world_open(&world, &options);
	image = world_image(&world);
	source = world_mailbox(&world, "source");
	sink = world_mailbox(&world, "sink");
	MAILBOX_STORE(source->want, 13);
	progress.lane = &sink->lane[3];
	world_until(&world, has_progressed, &progress, "messages flow");
	for (json_int_t round = 1; round <= 1000; round++) {
		json_t *report = round % 50 ? world_push_image(&world, &image, STOP_ALL)
		                            : world_push(&world, POLICY_LANE_A, STOP_ALL);
		json_t *status;

		cr_assert_eq(report_number(report, "flows.cut"), 0);
		cr_assert_eq(report_number(report, "flows.allowed"), 0);
		cr_assert_eq(report_number(report, "flows.kept"), report_number(report, "flows.examined"));
		cr_assert_eq(report_number(report, "vcpus.stopped"), 0);
		json_decref(report);
		if (round % 100)
			continue;
		status = view_status(world.monitor);
		cr_assert_eq(report_number(status, "policy_number"), 1 + round);
		fingerprint = report_text(status, "fingerprint");
		cr_assert_eq(strlen(fingerprint), 32);
		json_decref(status);
	}
	cr_assert_eq(machine_stop_requests(world_guest(&world)->machine), 0, "a vCPU was stopped");
	for (size_t i = 0; i < 3; i++) {
		struct mailbox_lane *lane = &sink->lane[lanes[i]], *from = &source->lane[lanes[i]];

		progress.lane = lane;
		progress.least = MAILBOX_LOAD(lane->n_taken) + MAILBOX_LOAD(from->attempt) -
		                 MAILBOX_LOAD(lane->taken) + 1;
		world_until(&world, has_progressed, &progress, "messages flow on");
		cr_assert_eq(from->opened, 1);
		cr_assert_eq(lane->wrong + lane->revoked + lane->ended, 0, "lane %c was harmed",
		             'a' + (int)lanes[i]);
	}
	world_close(&world);
}
