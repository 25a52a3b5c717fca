/* I10, no wake-up is lost (P12): across stops and changes, wherever both sides are when they come. */
#include <string.h>

#include "monitor/loop.h"
#include "tests/monitor/world.h"
#include "vmm/stop.h"

#define N_CALLS 500u
#define DEADLINE_NS 60000000000u

static void assert_both_progress(struct world *world, const struct pair *pair)
{
	cr_assert_eq(actor_finish(world, pair->client), CALL_OK);
	cr_assert_eq(actor_finish(world, pair->server), CALL_OK);
	cr_assert_eq(world_mailbox(world, pair->client)->value[0], N_CALLS);
	cr_assert_eq(world_mailbox(world, pair->server)->value[0], N_CALLS);
}

static void begin_calls(struct world *world, const struct pair *pair)
{
	actor_begin(world, pair->server, (struct command){ACTOR_PONG, {pair->at_server, N_CALLS}, NULL});
	actor_begin(world, pair->client, (struct command){ACTOR_PING, {pair->at_client, N_CALLS}, NULL});
}

/* Each call sleeps twice, on vCPUs that both have other domains: 500 calls while the machine stops and
 * goes. */
Test(promise, i10_p12_calls_across_stops)
{
	struct world world;
	struct machine *machine;
	struct pair pair;
	char why[WHY_BYTES];
	unsigned n_stops = 0;

	world_open(&world, &(struct world_options){.busy = true});
	machine = world_guest(&world)->machine;
	pair = pair_open(&world, "one", "two", "svc");
	begin_calls(&world, &pair);
	while (!actor_is_done(&world, "one")) {
		cr_assert_eq(stop_machines(&machine, 1, loop_now() + DEADLINE_NS, NULL, NULL, why), 0, "%s",
		             why);
		cr_assert_eq(resume_machines(&machine, 1, loop_now() + DEADLINE_NS, why), 0, "%s", why);
		world_drift(&world, 1 + n_stops++ % 7 * 100000);
	}
	assert_both_progress(&world, &pair);
	cr_assert_gt(n_stops, 0);
	world_close(&world);
}

/* The same while changes cut and restore other channels of the same two domains. */
Test(promise, i10_p12_calls_across_changes)
{
	struct world world;
	struct pair kept;

	world_open(&world, &(struct world_options){.busy = true});
	kept = pair_open(&world, "one", "four", "aux");
	begin_calls(&world, &kept);
	for (int i = 0; !actor_is_done(&world, "one") || !actor_is_done(&world, "four"); i++) {
		struct pair cut = pair_open(&world, "three", "two", "svc");
		json_t *report = world_push(&world, POLICY_SWAP, i % 2 ? STOP_ALL : STOP_AFFECTED);

		cr_assert_eq(report_number(report, "flows.cut"), 2);
		json_decref(report);
		pair_close(&world, &cut);
		world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	}
	assert_both_progress(&world, &kept);
	world_close(&world);
}
