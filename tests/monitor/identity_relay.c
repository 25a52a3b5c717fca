/*
 * Effective identity: whoever connects on behalf of another (F4, F5), and what becomes of it
 * when that other is cut (R12).
 */
#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "monitor/change_internal.h"
#include "tests/monitor/identity_support.h"
#include "tests/monitor/world_proxy.h"

/* F4: the server learns whom it serves, the client whom it reached; a relay is not who is named. */
Test(identity, each_end_learns_the_others_context)
{
	struct world world;
	struct chain chain;

	chain_world(&world, RULES_CHAIN);
	chain = chain_open(&world);
	cr_assert_str_eq(peer_of(&world, &chain.first, true), SUBJECT("two_t"));
	cr_assert_str_eq(peer_of(&world, &chain.first, false), SUBJECT("one_t"));
	cr_assert_str_eq(peer_of(&world, &chain.second, true), SUBJECT("three_t"));
	cr_assert_str_eq(peer_of(&world, &chain.second, false), SUBJECT("one_t"));
	cr_assert_str_eq(peer_of(&world, &chain.third, false), SUBJECT("one_t"));
	assert_flowing(&world, &chain.third);
	world_close(&world);
}

static void assert_chain_flows(const struct chain *chain, const char *first, const char *second,
                               const char *third)
{
	assert_flows(&chain->first, first);
	assert_flows(&chain->second, second);
	assert_flows(&chain->third, third);
}

static void assert_chain_revoked(struct world *world, const struct chain *chain)
{
	assert_revoked(world, &chain->first);
	assert_revoked(world, &chain->second);
	assert_revoked(world, &chain->third);
}

/* R12: whatever cuts the first client cuts what two relays have opened on its behalf. */
static void assert_r12(struct change_request request, enum stop_mode stop)
{
	struct world world;
	struct chain chain;
	struct pair own;

	chain_world(&world, RULES_CHAIN "(call can_connect (two_t three_t))");
	chain = chain_open(&world);
	own = pair_open(&world, "two", "three", "rel");
	if (request.kind == CHANGE_CUT)
		request.channel = chain.first.channel->number;
	request.stop = stop;
	change_quietly(&world, request, 6);
	assert_chain_revoked(&world, &chain);
	cr_assert_eq(connect_for_result(&world, &chain.first, "rel"), CALL_DENIED);
	/* What the relay has opened for itself goes on. */
	assert_flowing(&world, &own);
	world_close(&world);
}

Test(identity, r12_overlay)
{
	assert_r12(to_revoke("one_t", "two_t", "connect"), STOP_ALL);
}

Test(identity, r12_relabel)
{
	assert_r12(to_relabel("one", SUBJECT("four_t")), STOP_AFFECTED);
}

Test(identity, r12_quarantine)
{
	assert_r12(to_quarantine("one"), STOP_NONE);
}

Test(identity, r12_channel_cut)
{
	assert_r12(to_cut(0), STOP_ALL);
}

Test(identity, r12_push)
{
	struct world world;
	struct chain chain;
	json_t *report;
	char *line;

	chain_world(&world, RULES_CHAIN);
	chain = chain_open(&world);
	report = push_planned(&world,
	                      policy_of("(allow two_t one_t (channel (accept)))"
	                                "(call can_flow (one_t two_t)) (call can_flow (two_t one_t))"
	                                "(call can_connect (one_t three_t)) (call can_connect (one_t four_t))"
	                                "(call can_relay (two_t one_t)) (call can_relay (three_t one_t))"),
	                      STOP_ALL, 6);
	cr_assert_str_eq(report_text(report, "cuts.0.reason"), "no rule allows one_t two_t:channel connect");
	cr_assert_str_eq(report_text(report, "cuts.2.reason"),
	                 "the channel on whose behalf it was opened is cut");
	cr_assert_str_eq(report_text(report, "cuts.5.reason"),
	                 "the channel on whose behalf it was opened is cut");
	json_decref(report);
	assert_chain_revoked(&world, &chain);
	cr_assert_eq(connect_for_result(&world, &chain.first, "rel"), CALL_DENIED);
	line = audit_find(&world, "PORTCULLIS_DENIED");
	cr_assert(line && strstr(line, "on whose behalf it connects is cut"), "%s", line ? line : "no line");
	free(line);
	world_close(&world);
}

/* One direction of the first channel takes the same direction of what hangs on it, and no other. */
Test(identity, r12_one_direction)
{
	struct world world;
	struct chain chain;
	struct pair again;

	chain_world(&world, RULES_CHAIN);
	chain = chain_open(&world);
	change_quietly(&world, to_revoke("two_t", "one_t", "send"), 3);
	assert_chain_flows(&chain, "open cut", "open cut", "open cut");
	cr_assert_eq(pair_send(&world, &chain.third, true, 1, 2), CALL_OK);
	cr_assert_eq(pair_receive(&world, &chain.third, false, 2), 8);
	/* Nor does a new connect on its behalf get more than it has. */
	change_quietly(&world, to_reset(), 0);
	again = pair_open_for(&world, &chain.first, "three", "rel");
	assert_flows(&again, "open denied");
	world_close(&world);
}

/* A flow of the parent that goes because its flow control does takes what hangs on it as well. */
Test(identity, r12_flow_control)
{
	struct world world;
	struct chain chain;
	struct pair again;

	chain_world(&world, RULES_CHAIN);
	chain = chain_open(&world);
	change_quietly(&world, to_revoke("two_t", "one_t", "flowctl"), 3);
	assert_chain_flows(&chain, "cut open", "cut open", "cut open");
	cr_assert_eq(pair_send(&world, &chain.third, false, 1, 2), CALL_OK);
	cr_assert_eq(pair_receive(&world, &chain.third, true, 2), 8);
	again = pair_open_for(&world, &chain.first, "three", "rel");
	assert_flows(&again, "denied open");
	world_close(&world);
}

Test(identity, specify_client_lost)
{
	struct world world;
	struct chain chain;
	json_t *report;

	chain_world(&world, RULES_CHAIN);
	chain = chain_open(&world);
	report = change_planned(&world, to_revoke("three_t", "one_t", "specify_client"), 2);
	cr_assert_str_eq(report_text(report, "cuts.0.permissions.0"), "specify_client");
	json_decref(report);
	assert_chain_flows(&chain, "open open", "open open", "cut cut");
	cr_assert_eq(connect_for_result(&world, &chain.second, "aux"), CALL_DENIED);
	change_quietly(&world, to_reset(), 0);
	pair_close(&world, &chain.third);
	chain.third = pair_open_for(&world, &chain.second, "four", "aux");

	report = push_planned(&world,
	                      policy_of("(call can_connect (one_t two_t)) (call can_connect (one_t three_t))"
	                                "(call can_connect (one_t four_t)) (call can_relay (three_t one_t))"),
	                      STOP_ALL, 4);
	cr_assert_str_eq(report_text(report, "cuts.0.reason"),
	                 "no rule allows two_t one_t:channel specify_client");
	json_decref(report);
	assert_chain_flows(&chain, "open open", "cut cut", "cut cut");
	assert_flowing(&world, &chain.first);
	world_close(&world);
}

/* A relay that is relabelled speaks for its client only if its new self may. */
Test(identity, relabel_of_a_relay)
{
	struct world world;
	struct chain chain;

	chain_world(&world, RULES_CHAIN);
	chain = chain_open(&world);
	change_quietly(&world, to_relabel("three", SUBJECT("two_t")), 0);
	assert_flowing(&world, &chain.third);
	change_quietly(&world, to_relabel("three", SUBJECT("four_t")), 2);
	assert_chain_flows(&chain, "open open", "open open", "cut cut");
	world_close(&world);
}

/* The client decides, not the relay: it gets nothing for its client that the client may not have. */
Test(identity, relay_is_bounded_by_its_client)
{
	struct world world;
	struct pair first, own;

	chain_world(&world, "(call can_connect (one_t two_t)) (call can_relay (two_t one_t))"
	                    "(call can_connect (two_t three_t)) (call can_connect (one_t four_t))");
	first = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(connect_for_result(&world, &first, "rel"), CALL_DENIED);
	own = pair_open(&world, "two", "three", "rel");
	assert_flowing(&world, &own);
	/* And the other way round: the client's right is enough, though the relay has none. */
	own = pair_open_for(&world, &first, "four", "aux");
	assert_flowing(&world, &own);
	cr_assert_eq(connect_result(&world, "two", "aux"), CALL_DENIED);
	world_close(&world);
}

/* Only a channel that the domain itself has accepted, and still holds, names a client. */
Test(identity, parent_must_be_accepted)
{
	struct world world;
	struct pair first, other;

	chain_world(&world, RULES_CHAIN "(call can_connect (two_t three_t)) (call can_relay (two_t two_t))");
	first = pair_open(&world, "one", "two", "svc");
	other = pair_open(&world, "two", "three", "rel");
	cr_assert_eq(actor_do(&world, "two",
	                      (struct command){ACTOR_CONNECT_FOR, {other.at_client, NO_TIMEOUT}, "rel"}),
	             CALL_NOT_OPEN);
	for (uint64_t slot = 0; slot < 70; slot++)
		if (slot != first.channel->end[SIDE_SERVER].slot)
			cr_assert_eq(actor_do(&world, "two",
			                      (struct command){ACTOR_SYSTEM_CALL,
			                                       {SYS_CONNECT_FOR, 0, slot},
			                                       NULL}) < 0,
			             true);
	pair_close(&world, &first);
	cr_assert_eq(connect_for_result(&world, &first, "rel"), CALL_NOT_OPEN);
	world_close(&world);
}

/* What was opened for a client stays when that closes in order, with the identity that it had. */
Test(identity, closing_in_order_leaves_it)
{
	struct world world;
	struct chain chain;

	chain_world(&world, RULES_CHAIN);
	chain = chain_open(&world);
	pair_close(&world, &chain.first);
	assert_flowing(&world, &chain.second);
	assert_flowing(&world, &chain.third);
	change_quietly(&world, to_relabel("one", SUBJECT("four_t")), 0);
	change_quietly(&world, to_quarantine("one"), 0);
	assert_flowing(&world, &chain.third);
	change_quietly(&world, to_revoke("one_t", "four_t", "connect"), 2);
	assert_flowing(&world, &chain.second);
	assert_revoked(&world, &chain.third);
	/* The relay in the middle is the first now. */
	change_quietly(&world, to_reset(), 0);
	pair_close(&world, &chain.third);
	chain.third = pair_open_for(&world, &chain.second, "four", "aux");
	change_quietly(&world, to_cut(chain.second.channel->number), 4);
	assert_revoked(&world, &chain.third);
	world_close(&world);
}

/* ---- a parent that closes while a change is being prepared ---- */

static bool is_held(struct world *world, void *opaque)
{
	(void)opaque;
	return proxy_fired() || !world->monitor->change;
}

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

/* Answers until the relabel had its last explanation; with n, the nth is held while that channel closes. */
static unsigned relabel_one(struct world *world, const struct pair *closing, unsigned n)
{
	struct change_request request = to_relabel("one", SUBJECT("four_t"));
	struct ending ending = {0};
	char why[WHY_BYTES];

	cr_assert_eq(change_begin(world->monitor, &request, on_done, &ending, why), 0, "%s", why);
	if (n) {
		world_until(world, is_held, NULL, "an answer is held");
		cr_assert(world->monitor->change, "the change ended before answer %u", n);
		pair_close(world, closing);
		proxy_let_go();
	}
	world_until(world, has_ended, &ending, "the relabel ends");
	cr_assert_eq(ending.status, 0);
	return proxy_answers();
}

static unsigned relabel_while_closing(unsigned n)
{
	struct world world;
	struct chain chain;
	unsigned answers;

	proxy_arm(n ? PROXY_HOLD : PROXY_NONE, n);
	chain_world(&world, RULES_CHAIN);
	chain = chain_open(&world);
	answers = relabel_one(&world, &chain.first, n);
	if (!n)
		assert_chain_revoked(&world, &chain);
	assert_flows(&chain.second,
	             strcmp(flows_of(&chain.third), "open open") == 0 ? "open open" : "cut cut");
	if (strcmp(flows_of(&chain.second), "open open") == 0)
		assert_flowing(&world, &chain.third);
	else
		assert_revoked(&world, &chain.third);
	world_close(&world);
	return answers;
}

/* H10: at each answer that the relabel waits for, the client whose identity it would change closes. */
Test(identity, h10_parent_closes_during_relabel)
{
	unsigned n = relabel_while_closing(0), stages = 0;

	for (unsigned i = n; i > 0 && stages < 4; i--, stages++)
		(void)relabel_while_closing(i);
}

static unsigned relabel_of_its_own_server(unsigned n)
{
	struct world world;
	struct pair first, own, lost;
	unsigned answers;

	proxy_arm(n ? PROXY_HOLD : PROXY_NONE, n);
	chain_world(&world, "(call can_connect (one_t two_t)) (call can_connect (one_t one_t))"
	                    "(call can_connect (four_t two_t)) (call can_connect (four_t four_t))"
	                    "(call can_relay (two_t one_t)) (call can_relay (two_t four_t))"
	                    "(call can_connect (one_t three_t))");
	first = pair_open(&world, "one", "two", "svc");
	own = pair_open_for(&world, &first, "one", "own");
	lost = pair_open(&world, "one", "three", "rel"); /* so that there is something to explain */
	answers = relabel_one(&world, &first, n);
	assert_revoked(&world, &lost);
	assert_flows(&own, "open open");
	assert_flowing(&world, &own);
	/* A later relabel does not reach the identity of one that has closed: it is four_t, and stays so. */
	if (n)
		change_quietly(&world, to_relabel("one", SUBJECT("one_t")), 2);
	world_close(&world);
	return answers;
}

/* H10: the client is the server too, so that its channel with itself has a new context at both ends or at
 * neither: the plan holds, also if the client closes when it is made. */
Test(identity, h10_parent_of_its_own_server_closes_during_relabel)
{
	(void)relabel_of_its_own_server(relabel_of_its_own_server(0));
}
