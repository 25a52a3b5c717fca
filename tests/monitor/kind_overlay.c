/* Overlays: single permissions taken back and given back again (F11), rows R7 and R13. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "tests/monitor/kind_support.h"

/* Revokes that mean nobody here. */
static struct change_request forced(struct change_request request)
{
	request.force = true;
	return request;
}

/* R7: one pair is revoked, and the other's messages go on with the numbers that they had. */
Test(kind, r7_revoke_takes_one_pair_alone)
{
	struct world world;
	struct pair ab, cd;
	json_t *report;

	world_open(&world, NULL);
	ab = pair_open(&world, "one", "two", "svc");
	cd = pair_open(&world, "three", "four", "aux");
	cr_assert_eq(pair_send(&world, &ab, true, 1, 5), CALL_OK);
	cr_assert_eq(pair_send(&world, &cd, true, 1, 5), CALL_OK);

	report = change_planned(&world, to_revoke("one_t", "two_t", "send"), 1);
	cr_assert_str_eq(report_text(report, "change"), "overlay");
	cr_assert_str_eq(report_text(report, "cuts.0.from"), "test/one");
	cr_assert_str_eq(report_text(report, "cuts.0.permissions.0"), "send");
	cr_assert_str_eq(report_text(report, "cuts.0.reason"), "revoked: one_t two_t:channel { send }");
	cr_assert_eq(report_number(report, "cuts.0.discarded_messages"), 5);
	cr_assert_eq(report_number(report, "cuts.0.discarded_bytes"), 40);
	cr_assert_str_eq(report_text(report, "kept_with_flowctl.0.from"), "test/two");
	json_decref(report);

	assert_flows(&ab, "cut open");
	cr_assert_eq(pair_send(&world, &ab, true, 6, 1), CALL_REVOKED);
	cr_assert_eq(pair_receive(&world, &ab, false, 1), CALL_REVOKED);
	cr_assert_eq(pair_send(&world, &ab, false, 1, 3), CALL_OK);
	cr_assert_eq(pair_receive(&world, &ab, true, 3), 8);

	cr_assert_eq(pair_send(&world, &cd, true, 6, 5), CALL_OK);
	cr_assert_eq(pair_receive(&world, &cd, false, 10), 8);
	cr_assert_eq(world_mailbox(&world, "four")->value[1], 1);
	cr_assert_eq(world_mailbox(&world, "four")->value[2], 10);
	cr_assert_eq(actor_do(&world, "four", (struct command){ACTOR_INFO, {cd.at_server}, NULL}), CALL_OK);
	cr_assert_eq(world_mailbox(&world, "four")->value[3], 10);
	world_close(&world);
}

/* A cut is for good: granting again opens nothing, and what a new connect gets is another channel. */
Test(kind, cut_stays_cut_after_grant)
{
	struct world world;
	struct pair old, new;
	char *line;

	world_open(&world, NULL);
	old = pair_open(&world, "one", "two", "svc");
	change_quietly(&world, to_revoke("one_t", "two_t", "connect"), 2);
	assert_revoked(&world, &old);
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_DENIED);
	line = audit_find(&world, "reason=\"revoked: one_t two_t:channel { connect }\"");
	cr_assert_not_null(line, "the denial names the revoke");
	free(line);
	change_quietly(&world, to_grant("one_t", "two_t", "connect"), 0);
	assert_revoked(&world, &old);

	new = pair_open(&world, "one", "two", "svc");
	cr_assert_gt(new.channel->number, old.channel->number);
	assert_flowing(&world, &new);
	assert_revoked(&world, &old);
	{
		uint32_t slot = old.channel->end[SIDE_CLIENT].slot;
		uint64_t generation = old.channel->end[SIDE_CLIENT].generation;
		struct pair again;

		pair_close(&world, &old);
		again = pair_open(&world, "one", "two", "svc");
		cr_assert_eq(again.channel->end[SIDE_CLIENT].slot, slot);
		cr_assert_gt(again.channel->end[SIDE_CLIENT].generation, generation);
		assert_flowing(&world, &again);
	}
	world_close(&world);
}

Test(kind, grant_only_ends_a_revoke)
{
	struct world world;

	world_open(&world, &(struct world_options){.policy = POLICY_NO_CONNECT});
	change_refused(&world, to_grant("one_t", "two_t", "connect"), -ENOENT, "only ends a revoke");
	change_quietly(&world, to_revoke("one_t", "two_t", "connect"), 0);
	change_refused(&world, to_grant("one_t", "two_t", "send"), -ENOENT, "only ends a revoke");
	change_refused(&world, to_grant("*", "two_t", "connect"), -ENOENT, "only ends a revoke");
	change_quietly(&world, to_grant("one_t", "two_t", "connect"), 0);
	cr_assert_eq(world.monitor->posture->overlay.n_rules, 0);
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_DENIED, "a grant has widened the policy");
	world_close(&world);
}

/* An overlay survives pushes, whatever they allow; reset ends it. */
Test(kind, overlay_survives_pushes)
{
	struct world world;
	struct pair pair, other;

	world_open(&world, NULL);
	change_quietly(&world, to_revoke("one_t", "two_t", "send"), 0);
	json_decref(push_planned(&world, POLICY_OPEN, STOP_ALL, 0));
	json_decref(push_planned(&world, POLICY_NO_CONNECT, STOP_ALL, 0));
	json_decref(push_planned(&world, POLICY_OPEN, STOP_ALL, 0));
	pair = pair_open(&world, "one", "two", "svc");
	other = pair_open(&world, "three", "two", "svc");
	assert_flows(&pair, "denied open");
	cr_assert_eq(pair_send(&world, &pair, true, 1, 1), CALL_NOT_OPEN);
	assert_flowing(&world, &other);

	json_decref(push_planned(&world, POLICY_OPEN, STOP_ALL, 0));
	assert_flows(&pair, "denied open");
	change_quietly(&world, to_reset(), 0);
	cr_assert_eq(world.monitor->posture->overlay.n_rules, 0);
	assert_flows(&pair, "denied open");
	pair = pair_open(&world, "one", "two", "svc");
	assert_flows(&pair, "open open");
	world_close(&world);
}

/* A side is a type, a whole context, or anybody; a permission is a name or all. */
Test(kind, overlay_wildcards)
{
	struct world world;
	struct pair one, three, aux;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	three = pair_open(&world, "three", "two", "svc");
	aux = pair_open(&world, "one", "four", "aux");

	change_refused(&world, to_revoke("one", "two_t", "*"), -ENOENT, "nobody here");
	change_refused(&world, to_revoke("one_t", "two", "*"), -ENOENT, "\"two\"");
	change_quietly(&world, forced(to_revoke("one", "two_t", "*")), 0);
	change_quietly(&world, forced(to_revoke("system_u:system_r:one_t:s1", "two_t", "*")), 0);
	change_quietly(&world, to_revoke(SUBJECT("one_t"), SUBJECT("two_t"), "*"), 2);
	assert_revoked(&world, &one);
	change_quietly(&world, to_revoke("*", "two_t", "send"), 1);
	assert_flows(&three, "cut open");
	assert_flowing(&world, &aux);
	change_quietly(&world, to_revoke("*", "*", "*"), 3);
	assert_revoked(&world, &aux);
	cr_assert_eq(connect_result(&world, "three", "aux"), CALL_DENIED);
	change_quietly(&world, to_reset(), 0);
	aux = pair_open(&world, "three", "four", "aux");
	assert_flowing(&world, &aux);
	world_close(&world);
}

/* Revoked in two steps and granted in one, and more rules than there is room for. */
Test(kind, overlay_rules_add_up)
{
	struct world world;
	struct pair pair;
	char type[32];

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	change_quietly(&world, to_revoke("one_t", "two_t", "send"), 1);
	change_quietly(&world, to_revoke("one_t", "two_t", "recv"), 1);
	assert_flows(&pair, "cut cut");
	cr_assert_eq(world.monitor->posture->overlay.n_rules, 1);
	change_quietly(&world, to_grant("one_t", "two_t", "*"), 0);
	cr_assert_eq(world.monitor->posture->overlay.n_rules, 0);
	for (unsigned i = 0; i < MAX_OVERLAY_RULES; i++) {
		snprintf(type, sizeof(type), "nobody%u_t", i);
		json_decref(change_do(&world, forced(to_revoke(type, "two_t", "send"))));
	}
	change_refused(&world, to_revoke("one_t", "two_t", "send"), -ENOSPC, "revokes are in force already");
	world_close(&world);
}

/* R13: what was granted in permissive mode ends with it, at once, and the number is raised. */
Test(kind, r13_enforcing_ends_what_permissive_granted)
{
	struct world world;
	struct pair granted, allowed;
	json_t *report;
	char *line;

	world_open(&world, &(struct world_options){.policy = POLICY_NO_CONNECT});
	allowed = pair_open(&world, "three", "two", "svc");
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_DENIED);
	report = change_planned(&world, to_enforcing(false), 0);
	cr_assert(json_is_false(json_object_get(report, "enforcing")));
	json_decref(report);

	granted = pair_open(&world, "one", "two", "svc");
	assert_flowing(&world, &granted);
	line = audit_find(&world, "permissive=1");
	cr_assert_not_null(line);
	free(line);
	/* The mode is not part of a policy: a push leaves it. */
	json_decref(push_planned(&world, POLICY_NO_CONNECT, STOP_ALL, 0));
	assert_flowing(&world, &granted);

	report = change_planned(&world, to_enforcing(true), 2);
	cr_assert_str_eq(report_text(report, "change"), "enforcing");
	cr_assert_str_eq(report_text(report, "cuts.0.reason"), "no rule allows one_t two_t:channel connect");
	cr_assert(json_is_true(json_object_get(report, "enforcing")));
	json_decref(report);
	assert_revoked(&world, &granted);
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_DENIED);
	assert_flowing(&world, &allowed);
	change_quietly(&world, to_enforcing(true), 0);
	world_close(&world);
}

/* In permissive mode a plan says what would be granted, and nothing is lost by a revoke. */
Test(kind, permissive_masks_overlay)
{
	struct world world;
	struct pair pair;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	change_quietly(&world, to_enforcing(false), 0);
	change_quietly(&world, to_revoke("one_t", "two_t", "*"), 0);
	assert_flowing(&world, &pair);
	change_quietly(&world, to_enforcing(true), 2);
	assert_revoked(&world, &pair);
	world_close(&world);
}
