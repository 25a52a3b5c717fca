/* What a cut does to a channel that was in use: rows R1, R2, and what the report says of it. */
#include <stdlib.h>
#include <string.h>

#include "guest/abi/ring.h"
#include "tests/monitor/world.h"

/* R1: an open channel does not outlive its rule: the first send after the push fails, at both ends. */
Test(row, r1_first_send_after_push_fails)
{
	struct world world;
	struct pair pair, other;
	json_t *report;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	other = pair_open(&world, "three", "two", "svc");
	cr_assert_eq(pair_send(&world, &pair, true, 1, 3), CALL_OK);
	cr_assert_eq(pair_receive(&world, &pair, false, 3), 8);

	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_assert_eq(report_number(report, "policy_number"), 2);
	cr_assert_eq(report_number(report, "previous"), 1);
	cr_assert_eq(report_number(report, "flows.examined"), 4);
	cr_assert_eq(report_number(report, "flows.cut"), 2);
	cr_assert_eq(report_number(report, "flows.kept"), 2);
	cr_assert_eq(report_number(report, "vcpus.stopped"), 2);
	cr_assert_str_eq(report_text(report, "cuts.0.from"), "test/one");
	cr_assert_str_eq(report_text(report, "cuts.0.to"), "test/two");
	cr_assert_str_eq(report_text(report, "cuts.0.permissions.0"), "connect");
	cr_assert_str_eq(report_text(report, "cuts.0.reason"), "no rule allows one_t two_t:channel connect");
	json_decref(report);

	cr_assert_eq(pair_send(&world, &pair, true, 4, 1), CALL_REVOKED);
	cr_assert_eq(pair_send(&world, &pair, false, 4, 1), CALL_REVOKED);
	cr_assert_eq(pair_receive(&world, &pair, true, 1), CALL_REVOKED);
	cr_assert_eq(pair_receive(&world, &pair, false, 1), CALL_REVOKED);
	cr_assert(inbox_is_empty(pair.channel, SIDE_CLIENT));
	cr_assert(inbox_is_empty(pair.channel, SIDE_SERVER));
	/* R7: the other client's channel goes on. */
	cr_assert_eq(pair_send(&world, &other, true, 1, 2), CALL_OK);
	cr_assert_eq(pair_receive(&world, &other, false, 2), 8);
	cr_assert_eq(world_mailbox(&world, "two")->value[2], 2);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"}),
	             CALL_DENIED);
	world_close(&world);
}
