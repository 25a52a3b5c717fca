/* H4, H7: storms and floods between guests. */
#include <string.h>

#include "guest/abi/record.h"
#include "tests/monitor/cross_support.h"
#include "tests/support/rounds.h"

#define N_STORM SAMPLED(1500u)
#define N_FLOOD 20000u

static void begin_storm(struct world *world, const char *client, uint64_t n)
{
	actor_begin(world, client, (struct command){ACTOR_STORM, {n, 2000000}, "sub"});
}

static uint64_t answers(struct world *world, const char *name)
{
	uint64_t sum = 0;

	for (int i = 0; i < 4; i++)
		sum += MAILBOX_LOAD(world_mailbox(world, name)->value[i]);
	return sum;
}

/*
 * H4: one slot of each of two guests is connected, accepted, closed by both ends, notified and cut, all at
 * once and over and over, in every way to stop. Afterwards nothing is left, and the same slot serves.
 */
Test(cross, h4_storm_on_one_slot)
{
	static const enum stop_mode modes[] = {STOP_ALL, STOP_AFFECTED, STOP_NONE};
	struct world world;
	struct pair pair;
	unsigned n_pushes = 0;

	cross_open(&world);
	actor_begin(&world, "six", (struct command){ACTOR_SERVE, {0}, NULL});
	begin_storm(&world, "one", N_STORM);
	/* Its own slot, whether it holds a channel at the moment or not. */
	actor_begin(&world, "five", (struct command){ACTOR_NOTIFY, {0, UINT64_MAX}, NULL});
	for (; !actor_is_done(&world, "one"); n_pushes++)
		world_push_quietly(&world, n_pushes % 2 ? POLICY_OPEN : POLICY_NOTHING, modes[n_pushes % 3]);
	cr_assert_eq(actor_finish(&world, "one"), CALL_OK);
	cr_assert_eq(answers(&world, "one"), N_STORM);
	cr_assert_gt(n_pushes, 1);
	world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	/* One that was granted after its time-out is given back by the next connect. */
	cr_assert_eq(connect_result(&world, "one", "nobody"), CALL_NO_SERVICE);
	actor_end_loop(&world, "six");
	actor_end_loop(&world, "five");
	cr_assert_eq(actor_finish(&world, "six"), CALL_OK);
	cr_assert_eq(actor_finish(&world, "five"), CALL_OK);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	cross_until_settled(&world);
	cr_assert_null(cross_guest(&world, "test")->bells);
	cr_assert_null(cross_guest(&world, "other")->bells);
	pair = pair_open(&world, "one", "six", "sub");
	cr_assert_eq(pair.channel->end[SIDE_CLIENT].slot, world_domain(&world, "one")->first_slot);
	assert_flowing(&world, &pair);
	world_close(&world);
}

/* H7: connects that nobody accepts, and notifications to one who does not look. Others are served; memory is
 * flat. */
Test(cross, h7_floods_of_connects_and_notifications)
{
	struct world world;
	struct pair noisy, calm;
	uint64_t before;
	unsigned n_served = 0;

	cross_open(&world);
	noisy = pair_open(&world, "one", "six", "sub");
	calm = pair_open(&world, "five", "two", "svc");
	before = resident_bytes();
	actor_begin(&world, "one", (struct command){ACTOR_NOTIFY, {0, N_FLOOD}, NULL});
	begin_storm(&world, "three", 40);
	for (; !actor_is_done(&world, "one") || !actor_is_done(&world, "three"); n_served++)
		assert_flowing(&world, &calm);
	cr_assert_eq(actor_finish(&world, "one"), CALL_OK);
	cr_assert_eq(world_mailbox(&world, "one")->value[0], N_FLOOD);
	cr_assert_eq(actor_finish(&world, "three"), CALL_OK);
	cr_assert_gt(n_served, 0);
	cr_assert_leq(resident_bytes(), before + (4u << 20));
	assert_flowing(&world, &noisy);
	world_close(&world);
}
