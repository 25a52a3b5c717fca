/* Plans, changes that meet, and channels that end by themselves while changes are made. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/ring.h"
#include "monitor/loop.h"
#include "tests/monitor/world.h"
#include "tests/monitor/world_proxy.h"
#include "vmm/stop.h"

/* ---- plan ---- */

/* A plan changes nothing, and says what the push then cuts. */
Test(row, plan_has_no_side_effect_and_equals_the_push)
{
	struct world world;
	struct pair one, three;
	json_t *plan, *report;
	char *before;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	three = pair_open(&world, "three", "four", "aux");
	cr_assert_eq(pair_send(&world, &one, true, 1, 4), CALL_OK);
	before = world_snapshot(&world, SNAPSHOT_QUIET);
	plan = world_plan(&world, POLICY_NO_CONNECT);
	snapshot_assert_equal(before, world_snapshot(&world, SNAPSHOT_QUIET), "a plan");
	cr_assert(json_is_true(json_object_get(plan, "planned")));
	cr_assert_eq(report_number(plan, "policy_number"), 1);
	cr_assert_eq(machine_stop_requests(world_guest(&world)->machine), 0);
	cr_assert_eq(pair_receive(&world, &one, false, 1), 8);

	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_assert(json_equal(json_object_get(plan, "flows"), json_object_get(report, "flows")));
	cr_assert_eq(json_array_size(json_object_get(plan, "cuts")),
	             json_array_size(json_object_get(report, "cuts")));
	for (size_t i = 0; i < json_array_size(json_object_get(plan, "cuts")); i++) {
		static const char *const keys[] = {"channel", "from", "to", "permissions", "reason"};
		json_t *planned = json_array_get(json_object_get(plan, "cuts"), i);
		json_t *done = json_array_get(json_object_get(report, "cuts"), i);

		for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
			cr_assert(
				json_equal(json_object_get(planned, keys[k]), json_object_get(done, keys[k])),
				"%s of cut %zu", keys[k], i);
	}
	json_decref(plan);
	json_decref(report);
	cr_assert_eq(pair_send(&world, &three, true, 1, 1), CALL_OK);
	world_close(&world);
}

/* What is cut now and would be allowed again is listed; nothing comes back by itself. */
Test(row, plan_lists_what_a_new_connect_would_get)
{
	struct world world;
	struct pair one;
	json_t *report;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	world_push_quietly(&world, POLICY_NO_SEND, STOP_ALL);
	report = world_push(&world, POLICY_OPEN, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), 0);
	cr_assert_eq(report_number(report, "flows.allowed"), 1);
	cr_assert_str_eq(report_text(report, "allowed.0.from"), "test/one");
	json_decref(report);
	cr_assert_eq(pair_send(&world, &one, true, 1, 1), CALL_REVOKED);
	world_close(&world);
}

/* ---- two at once ---- */

struct begun {
	bool done;
	int status;
	json_t *report;
};

static void on_done(void *opaque, int status, json_t *report, const char *why)
{
	struct begun *begun = opaque;

	(void)why;
	*begun = (struct begun){true, status, report};
}

static bool is_done(struct world *world, void *opaque)
{
	(void)world;
	return ((struct begun *)opaque)->done;
}

static bool harm_is_done(struct world *world, void *opaque)
{
	(void)world;
	(void)opaque;
	return proxy_fired();
}

static struct registry *watched_registry;

static bool gate_is_closed(void)
{
	return __atomic_load_n(&watched_registry->gate_closed, __ATOMIC_SEQ_CST);
}

#define AT_THE_GATE 0u /* hold the first answer that comes when the gate is closed */

/* Begins a push of which the nth answer is held. The sources are closed again: nothing of them is needed. */
static void begin_held_push(struct world *world, policy_files files, unsigned n, struct begun *begun)
{
	struct policy_source sources[8];
	struct change_request request = {.kind = CHANGE_POLICY,
	                                 .stop = STOP_ALL,
	                                 .author = posture_self(world->monitor),
	                                 .sources = sources};
	char why[WHY_BYTES];

	for (; files[request.n_sources]; request.n_sources++) {
		struct policy_source *source = &sources[request.n_sources];

		source->name = files[request.n_sources];
		source->fd = file_seal(source->name, MAX_POLICY_BYTES, &source->bytes, why);
		cr_assert_geq(source->fd, 0, "%s", why);
	}
	*begun = (struct begun){0};
	watched_registry = world->monitor->registry;
	if (n == AT_THE_GATE)
		proxy_arm_when(PROXY_HOLD, gate_is_closed);
	else
		proxy_arm(PROXY_HOLD, n);
	cr_assert_eq(change_begin(world->monitor, &request, on_done, begun, why), 0, "%s", why);
	world_until(world, harm_is_done, NULL, "an answer is held");
}

static void finish_held_push(struct world *world, struct begun *begun, json_int_t n_cut)
{
	proxy_let_go();
	world_until(world, is_done, begun, "the change ends");
	cr_assert_eq(begun->status, 0);
	cr_assert_eq(report_number(begun->report, "flows.cut"), n_cut);
	json_decref(begun->report);
}

/* How many answers a push of this policy takes when nothing new appears: its last one is an explanation. */
static unsigned count_answers(struct world *world, policy_files files)
{
	proxy_arm(PROXY_NONE, 0);
	json_decref(world_plan(world, files));
	cr_assert_gt(proxy_answers(), 4);
	return proxy_answers();
}

Test(row, second_change_is_refused_as_busy)
{
	struct world world;
	struct pair one;
	struct begun begun;
	int status;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	begin_held_push(&world, POLICY_NO_SEND, 2, &begun);
	cr_assert_null(world_try_push(&world, POLICY_NOTHING, STOP_ALL, &status));
	cr_assert_eq(status, -EBUSY);
	cr_assert_eq(pair_send(&world, &one, true, 1, 1), CALL_OK, "guests run while a change is prepared");
	finish_held_push(&world, &begun, 1);
	world_push_quietly(&world, POLICY_NOTHING, STOP_ALL);
	world_close(&world);
}

/* A client that goes away during prepare takes its change along, without a trace. */
Test(row, abandoned_change_leaves_no_trace)
{
	struct world world;
	struct pair one;
	struct begun begun;
	unsigned n_answers;
	char *before;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	n_answers = count_answers(&world, POLICY_NO_SEND);
	for (unsigned n = 1; n <= n_answers; n++) {
		before = world_snapshot(&world, SNAPSHOT_QUIET);
		begin_held_push(&world, POLICY_NO_SEND, n, &begun);
		change_abandon(world.monitor, &begun);
		proxy_let_go();
		world_turn(&world);
		cr_assert_not(begun.done);
		snapshot_assert_equal(before, world_snapshot(&world, SNAPSHOT_QUIET), "an abandoned change");
		cr_assert_eq(pair_send(&world, &one, true, n, 1), CALL_OK);
	}
	world_push_quietly(&world, POLICY_NO_SEND, STOP_ALL);
	world_close(&world);
}

/* ---- a connect meets a change ---- */

static bool connect_waits(struct world *world, void *opaque)
{
	struct registry *registry = registry_lock(world->monitor);
	bool waits = ((struct domain *)opaque)->pending.active;

	registry_unlock(registry);
	return waits;
}

/* F8, P11: a connect that arrives at the closed gate is decided under the new number; here it was allowed
 * before. */
Test(row, connect_at_the_gate_is_decided_by_the_new_policy)
{
	struct world world;
	struct begun begun;

	world_open(&world, NULL);
	pair_open(&world, "one", "two", "svc");
	begin_held_push(&world, POLICY_NO_CONNECT, AT_THE_GATE, &begun);
	cr_assert(world.monitor->registry->gate_closed);
	actor_begin(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"});
	world_until(&world, connect_waits, world_domain(&world, "one"), "the connect waits");
	cr_assert_not(actor_is_done(&world, "one"));
	finish_held_push(&world, &begun, 2);
	cr_assert_eq(actor_finish(&world, "one"), CALL_DENIED);
	world_close(&world);
}

/* And the other way: denied before, allowed after. Every revocation precedes every grant (F10). */
Test(row, connect_at_the_gate_is_granted_by_the_new_policy)
{
	const struct world_options options = {.policy = POLICY_NO_CONNECT};
	struct world world;
	struct pair three;
	struct begun begun;

	world_open(&world, &options);
	three = pair_open(&world, "three", "two", "svc");
	begin_held_push(&world, POLICY_SWAP, AT_THE_GATE, &begun);
	cr_assert(world.monitor->registry->gate_closed);
	actor_begin(&world, "two", (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL});
	actor_begin(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"});
	world_until(&world, connect_waits, world_domain(&world, "one"), "the connect waits");
	finish_held_push(&world, &begun, 2);
	cr_assert_eq(actor_finish(&world, "one"), CALL_OK);
	cr_assert_eq(actor_finish(&world, "two"), CALL_OK);
	cr_assert_eq(world.monitor->registry->last->opened_at_policy, 2);
	cr_assert_eq(pair_send(&world, &three, true, 1, 1), CALL_REVOKED);
	world_close(&world);
}

/* P11: a connect whose decisions are being made while the change comes: the old answer is thrown away (F2).
 */
Test(row, connect_in_the_middle_of_mediation_is_decided_again)
{
	struct world world;
	json_t *report;

	world_open(&world, NULL);
	/* The server in force is stopped: it has been asked, and will not answer before the push. */
	proxy_signal_latest(SIGSTOP);
	actor_begin(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"});
	world_until(&world, connect_waits, world_domain(&world, "one"), "the connect waits");
	world_turn(&world);
	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), 0);
	json_decref(report);
	cr_assert_eq(actor_finish(&world, "one"), CALL_DENIED);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	world_close(&world);
}

/* A channel that appears after the candidate was asked: its decisions are asked for in a second round. */
Test(row, channel_that_appears_during_prepare_is_planned_too)
{
	struct world world;
	struct pair one;
	struct begun begun;

	world_open(&world, NULL);
	begin_held_push(&world, POLICY_NO_CONNECT, 4, &begun); /* sources, then the load */
	one = pair_open(&world, "one", "two", "svc");
	finish_held_push(&world, &begun, 2);
	cr_assert_eq(pair_send(&world, &one, true, 1, 1), CALL_REVOKED);
	cr_assert_eq(pair_receive(&world, &one, false, 1), CALL_REVOKED);
	world_close(&world);
}

/* A channel that an end closes between plan and commit is no loss; its slot is not touched. */
Test(row, channel_closed_between_plan_and_commit)
{
	struct world world;
	struct pair one, three;
	struct begun begun;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	three = pair_open(&world, "three", "two", "svc");
	begin_held_push(&world, POLICY_NOTHING, AT_THE_GATE, &begun);
	pair_close(&world, &one);
	finish_held_push(&world, &begun, 2);
	cr_assert_eq(pair_send(&world, &three, true, 1, 1), CALL_REVOKED);
	cr_assert_eq(world.monitor->registry->n_channels, 1);
	world_close(&world);
}

/* ---- ends that are no cut ---- */

/* An orderly close: the peer reads what was sent, then is told. */
Test(row, close_lets_the_peer_read_what_was_sent)
{
	struct world world;
	struct pair one;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(pair_send(&world, &one, true, 1, 5), CALL_OK);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {one.at_client}, NULL}), CALL_OK);
	cr_assert_eq(pair_receive(&world, &one, false, 5), 8);
	cr_assert_eq(world_mailbox(&world, "two")->value[2], 5);
	cr_assert_eq(pair_receive(&world, &one, false, 1), CALL_PEER_CLOSED);
	cr_assert_eq(pair_send(&world, &one, false, 1, 1), CALL_PEER_CLOSED);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {one.at_server}, NULL}), CALL_OK);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	cr_assert_eq(world_domain(&world, "one")->n_used + world_domain(&world, "two")->n_used, 0);
	world_close(&world);
}

/* I1: what is left to read after a close is taken back like anything else. */
Test(row, cut_takes_what_a_closed_peer_had_sent)
{
	struct world world;
	struct pair one;
	json_t *report;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(pair_send(&world, &one, true, 1, 5), CALL_OK);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {one.at_client}, NULL}), CALL_OK);
	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), 1);
	cr_assert_eq(report_number(report, "cuts.0.discarded_messages"), 5);
	json_decref(report);
	cr_assert_eq(pair_receive(&world, &one, false, 1), CALL_REVOKED);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {one.at_server}, NULL}), CALL_OK);
	cr_assert_eq(world_domain(&world, "one")->n_used + world_domain(&world, "two")->n_used, 0);
	world_close(&world);
}

static bool has_ended(struct world *world, void *opaque)
{
	struct registry *registry = registry_lock(world->monitor);
	bool ended = ((struct domain *)opaque)->life != LIFE_RUNNING;

	registry_unlock(registry);
	return ended;
}

/* A domain that faults: its channels end, its peers are told, and the rest goes on. */
Test(row, death_of_a_domain_is_told_to_its_peers)
{
	struct world world;
	struct pair one, three;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	three = pair_open(&world, "three", "two", "svc");
	actor_begin(&world, "two", (struct command){ACTOR_RECEIVE, {one.at_server, 1, NO_TIMEOUT}, NULL});
	actor_until_blocked(&world, "two");
	actor_begin(&world, "one", (struct command){ACTOR_FAULT, {0}, NULL});
	cr_assert_eq(actor_finish(&world, "two"), CALL_PEER_DIED);
	world_until(&world, has_ended, world_domain(&world, "one"), "one has ended");
	cr_assert_eq(world_domain(&world, "one")->life, LIFE_FAILED);
	cr_assert_eq(pair_send(&world, &one, false, 1, 1), CALL_PEER_DIED);
	cr_assert_eq(pair_send(&world, &three, true, 1, 1), CALL_OK);
	cr_assert_eq(pair_receive(&world, &three, false, 1), 8);
	cr_assert_not(world_guest(&world)->lost);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {one.at_server}, NULL}), CALL_OK);
	cr_assert_eq(world_domain(&world, "one")->n_used, 0);
	world_push_quietly(&world, POLICY_NOTHING, STOP_ALL);
	cr_assert_eq(pair_receive(&world, &three, false, 1), CALL_REVOKED);
	world_close(&world);
}

/* The other end is told of an exit as of a close. */
Test(row, exit_of_a_domain_is_a_close)
{
	struct world world;
	struct pair one;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(pair_send(&world, &one, true, 1, 2), CALL_OK);
	actor_begin(&world, "one", (struct command){ACTOR_EXIT, {3}, NULL});
	world_until(&world, has_ended, world_domain(&world, "one"), "one has ended");
	cr_assert_eq(world_domain(&world, "one")->exit_status, 3);
	cr_assert_eq(pair_receive(&world, &one, false, 2), 8);
	cr_assert_eq(pair_receive(&world, &one, false, 1), CALL_PEER_CLOSED);
	world_close(&world);
}

/* What a domain had sent before it died is still the peer's to read. */
Test(row, death_leaves_what_was_sent_before)
{
	struct world world;
	struct pair one;

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(pair_send(&world, &one, true, 1, 5), CALL_OK);
	actor_begin(&world, "one", (struct command){ACTOR_FAULT, {0}, NULL});
	world_until(&world, has_ended, world_domain(&world, "one"), "one has ended");
	cr_assert_eq(pair_receive(&world, &one, false, 5), 8);
	cr_assert_eq(pair_receive(&world, &one, false, 1), CALL_PEER_DIED);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {one.at_server}, NULL}), CALL_OK);
	cr_assert_eq(world_domain(&world, "one")->n_used + world_domain(&world, "two")->n_used, 0);
	world_close(&world);
}
