/*
 * Channels between two guests: the same as within one. "one" to "four" are in the guest "test", "five" and
 * "six" in "other" (world_annex.h).
 */
#include <string.h>

#include "guest/abi/record.h"
#include "guest/abi/ring.h"
#include "tests/monitor/world.h"
#include "tests/monitor/world_annex.h"

#define N_CALLS 2000u

/* Both ways, and both ends connect: a client here, and a client there. */
Test(cross, messages_both_ways)
{
	struct world world;
	struct pair out, in;

	world_open(&world, NULL);
	annex_open(&world, NULL);
	out = pair_open(&world, "one", "six", "sub");
	in = pair_open(&world, "five", "two", "svc");
	for (const struct pair *pair = &out; pair; pair = pair == &out ? &in : NULL)
		for (int server = 0; server < 2; server++) {
			cr_assert_eq(pair_send(&world, pair, !server, 1, 50), CALL_OK);
			cr_assert_eq(pair_receive(&world, pair, server, 50), 8);
			cr_assert_eq(world_mailbox(&world, server ? pair->client : pair->server)->value[3],
			             0);
		}
	pair_close(&world, &out);
	pair_close(&world, &in);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	world_close(&world);
}

/* I10: sleeping ends on shared vCPUs of two guests. A lost wake-up is a call that does not end. */
Test(cross, i10_calls_between_sleepers)
{
	struct world world;
	struct pair pair;

	world_open(&world, NULL);
	annex_open(&world, NULL);
	pair = pair_open(&world, "one", "six", "sub");
	actor_begin(&world, "six", (struct command){ACTOR_PONG, {pair.at_server, N_CALLS}, NULL});
	actor_begin(&world, "one", (struct command){ACTOR_PING, {pair.at_client, N_CALLS}, NULL});
	cr_assert_eq(actor_finish(&world, "one"), CALL_OK);
	cr_assert_eq(actor_finish(&world, "six"), CALL_OK);
	cr_assert_eq(world_mailbox(&world, "one")->value[0], N_CALLS);
	world_close(&world);
}
