/*
 * Changes of the policy itself: a push, a boolean (R14), and what all kinds have in common:
 * the three stop modes, authors that would lock themselves out, one change at a time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "tests/monitor/kind_support.h"

#define WITH_BOOLEAN                                                                                         \
	"(call can_open (one_t two_t)) (call can_flow (two_t one_t))"                                        \
	"(allow two_t one_t (channel (recv flowctl)))"                                                       \
	"(call can_connect (three_t two_t)) (boolean one_sends true)"                                        \
	"(booleanif one_sends (true (allow one_t two_t (channel (send)))))"
#define WITHOUT_BOOLEAN "(call can_connect (one_t two_t)) (call can_connect (three_t two_t))"

Test(kind, boolean_takes_a_flow)
{
	struct world world;
	struct pair pair, other;
	json_t *report;

	world_open(&world, &(struct world_options){.policy = policy_of(WITH_BOOLEAN)});
	pair = pair_open(&world, "one", "two", "svc");
	other = pair_open(&world, "three", "two", "svc");
	change_quietly(&world, to_boolean("one_sends", true), 0);
	report = change_planned(&world, to_boolean("one_sends", false), 1);
	cr_assert_str_eq(report_text(report, "change"), "boolean");
	cr_assert_str_eq(report_text(report, "cuts.0.permissions.0"), "send");
	cr_assert_str_eq(report_text(report, "cuts.0.from"), "test/one");
	cr_assert_str_eq(report_text(report, "kept_with_flowctl.0.from"), "test/two");
	json_decref(report);
	assert_flows(&pair, "cut open");
	cr_assert_eq(pair_send(&world, &pair, true, 1, 1), CALL_REVOKED);
	cr_assert_eq(pair_send(&world, &pair, false, 1, 1), CALL_OK);
	cr_assert_eq(pair_receive(&world, &pair, true, 1), 8);
	assert_flowing(&world, &other);

	report = change_planned(&world, to_boolean("one_sends", true), 0);
	cr_assert_eq(report_number(report, "flows.allowed"), 1);
	json_decref(report);
	assert_flows(&pair, "cut open");
	pair = pair_open(&world, "one", "two", "svc");
	assert_flowing(&world, &pair);
	change_refused(&world, to_boolean("one_dreams", true), -ENOENT, "it has one_sends");
	world_close(&world);
}

/* R14: a boolean keeps its value over a push that still has it, and is forgotten with one that has not. */
Test(kind, r14_boolean_survives_a_push)
{
	struct world world;
	struct pair pair;
	policy_files with, without;

	with = policy_of(WITH_BOOLEAN);
	without = policy_of(WITHOUT_BOOLEAN);
	world_open(&world, &(struct world_options){.policy = with});
	change_quietly(&world, to_boolean("one_sends", false), 0);
	json_decref(push_planned(&world, with, STOP_ALL, 0));
	json_decref(push_planned(&world, policy_of(WITH_BOOLEAN "(boolean other false)"), STOP_ALL, 0));
	cr_assert_eq(world.monitor->posture->settings.n_booleans, 1);
	pair = pair_open(&world, "one", "two", "svc");
	assert_flows(&pair, "denied open");

	json_decref(push_planned(&world, without, STOP_ALL, 0));
	cr_assert_eq(world.monitor->posture->settings.n_booleans, 0);
	change_refused(&world, to_boolean("one_sends", true), -ENOENT, "has no boolean");
	pair = pair_open(&world, "one", "two", "svc");
	assert_flowing(&world, &pair);
	json_decref(push_planned(&world, with, STOP_ALL, 0));
	assert_flowing(&world, &pair);
	world_close(&world);
}

/* A push that is refused leaves the booleans as they were. */
Test(kind, boolean_outlives_a_refused_push)
{
	struct world world;
	policy_files with;
	int status;

	with = policy_of(WITH_BOOLEAN);
	world_open(&world, &(struct world_options){.policy = with});
	change_quietly(&world, to_boolean("one_sends", false), 0);
	cr_assert_null(world_try_push(&world, policy_of("(allow one_t nowhere_t (channel (send)))"), STOP_ALL,
	                              &status));
	cr_assert_eq(status, -EBADMSG);
	cr_assert_eq(world.monitor->posture->settings.n_booleans, 1);
	change_refused(&world, to_boolean("one_dreams", true), -ENOENT, "one_sends");
	cr_assert_eq(world.monitor->posture->settings.n_booleans, 1);
	json_decref(push_planned(&world, with, STOP_ALL, 0));
	cr_assert_eq(world.monitor->posture->settings.n_booleans, 1);
	cr_assert_not(world.monitor->posture->settings.booleans[0].value);
	world_close(&world);
}

/* What flow control means for a cut: without it the flow goes, though sending is still allowed. */
Test(kind, push_that_takes_flowctl)
{
	struct world world;
	struct pair pair;
	json_t *report;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	report = push_planned(&world, POLICY_NO_FLOWCTL, STOP_ALL, 1);
	cr_assert_str_eq(report_text(report, "cuts.0.permissions.0"), "flowctl");
	cr_assert_str_eq(report_text(report, "cuts.0.reason"), "no rule allows two_t one_t:channel flowctl");
	json_decref(report);
	assert_flows(&pair, "cut open");
	pair = pair_open(&world, "one", "two", "svc");
	assert_flows(&pair, "open open");
	cr_assert_not(pair.channel->flow[SIDE_CLIENT].flowctl);
	/* A diode stays one: what the writer may not learn it is not told later either. */
	json_decref(push_planned(&world, POLICY_OPEN, STOP_ALL, 0));
	cr_assert_not(pair.channel->flow[SIDE_CLIENT].flowctl);
	json_decref(push_planned(&world, POLICY_NO_FLOWCTL, STOP_ALL, 0));
	assert_flows(&pair, "open open");
	world_close(&world);
}

/* ---- all kinds ---- */

struct scene {
	struct world *world;
	struct pair pair;
	enum stop_mode stop;
};

static void cut_by(struct scene *scene, struct change_request request)
{
	json_t *report;

	scene->pair = pair_open(scene->world, "one", "two", "svc");
	if (request.kind == CHANGE_CUT)
		request.channel = scene->pair.channel->number;
	request.stop = scene->stop;
	report = change_planned(scene->world, request, 2);
	cr_assert_eq(report_number(report, "vcpus.stopped"), scene->stop == STOP_NONE ? 0 : 2);
	cr_assert_str_eq(report_text(report, "stop"), stop_mode_name(scene->stop));
	json_decref(report);
	assert_revoked(scene->world, &scene->pair);
	pair_close(scene->world, &scene->pair);
}

/* Every kind cuts in every way to stop, and its opposite gives back what a new connect needs. */
static void all_kinds(enum stop_mode stop)
{
	struct world world;
	struct scene scene = {.world = &world, .stop = stop};

	world_open(&world,
	           &(struct world_options){
			   .policy = policy_of(WITHOUT_BOOLEAN "(boolean on true) (boolean off false)")});
	cut_by(&scene, to_revoke("one_t", "two_t", "connect"));
	change_quietly(&world, to_reset(), 0);
	cut_by(&scene, to_quarantine("two"));
	change_quietly(&world, to_release("two"), 0);
	cut_by(&scene, to_relabel("one", SUBJECT("four_t")));
	change_quietly(&world, to_enforcing(false), 0);
	cut_by(&scene, to_enforcing(true));
	change_quietly(&world, to_relabel("one", SUBJECT("three_t")), 0);
	cut_by(&scene, to_cut(0));
	json_decref(push_planned(&world,
	                         policy_of("(boolean on true)"
	                                   "(booleanif on (true (allow three_t two_t (channel (connect)))))"
	                                   "(allow two_t three_t (channel (accept)))"
	                                   "(call can_flow (three_t two_t)) (call can_flow (two_t three_t))"),
	                         stop, 0));
	cut_by(&scene, to_boolean("on", false));
	/* What cuts nothing stops nothing. */
	{
		json_t *report = change_planned(&world, to_boolean("on", true), 0);

		cr_assert_eq(report_number(report, "vcpus.stopped"), 0);
		json_decref(report);
	}
	world_close(&world);
}

Test(kind, all_stop_all)
{
	all_kinds(STOP_ALL);
}

Test(kind, all_stop_affected)
{
	all_kinds(STOP_AFFECTED);
}

Test(kind, all_stop_none)
{
	all_kinds(STOP_NONE);
}

/* ---- one at a time ---- */

struct ending {
	bool done;
	int status;
};

static void on_done(void *opaque, int status, json_t *report, const char *why)
{
	struct ending *ending = opaque;

	(void)why;
	ending->done = true;
	ending->status = status;
	json_decref(report);
}

static bool has_ended(struct world *world, void *opaque)
{
	(void)world;
	return ((struct ending *)opaque)->done;
}

/* A second change, of any kind, is refused while one is being prepared; an abandoned one leaves nothing. */
Test(kind, one_change_at_a_time)
{
	struct world world;
	struct ending ending = {0};
	struct policy_source sources[4];
	struct change_request push,
		others[] = {
			to_revoke("*", "*", "*"), to_enforcing(false), to_relabel("one", SUBJECT("two_t")),
			to_quarantine("one"),     to_cut(1),           to_boolean("b", true),
			to_enforcing(true)};
	struct pair pair;
	char why[WHY_BYTES];

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	push = push_request(POLICY_NO_CONNECT, sources);
	others[6].plan_only = true;
	cr_assert_eq(change_begin(world.monitor, &push, on_done, &ending, why), 0, "%s", why);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		cr_assert_eq(change_begin(world.monitor, &others[i], on_done, &others, why), -EBUSY);
		cr_assert_str_eq(why, "another change is under way; try again when it has ended");
	}
	world_until(&world, has_ended, &ending, "the push ends");
	cr_assert_eq(ending.status, 0);
	assert_revoked(&world, &pair);

	ending.done = false;
	push = push_request(POLICY_NOTHING, sources);
	cr_assert_eq(change_begin(world.monitor, &push, on_done, &ending, why), 0, "%s", why);
	change_abandon(world.monitor, &ending);
	pair = pair_open(&world, "three", "two", "svc");
	change_quietly(&world, to_enforcing(true), 0);
	cr_assert_not(ending.done);
	assert_flowing(&world, &pair);
	cr_assert_eq(world.monitor->posture->policy_number, 3);
	world_close(&world);
}
