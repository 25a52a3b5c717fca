/*
 * R5, I1: whoever is blocked on a flow when it is cut is told, however it waits. When
 * the push has returned its result stands in its record and it has been woken; what it
 * gets is "revoked", with the count of what was lost in the report.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/record.h"
#include "guest/abi/ring.h"
#include "tests/monitor/world.h"

#define CUT_BITS (RECORD_OUT_CUT | RECORD_IN_CUT)
#define POLL_MESSAGE 1u /* guest/lib/include/portcullis.h */

static uint64_t record_word(const struct channel *channel, enum channel_side side)
{
	const struct endpoint *end = &channel->end[side];

	return __atomic_load_n(&machine_record(end->domain->guest->machine, end->slot)->word,
	                       __ATOMIC_SEQ_CST);
}

static uint64_t events_of(struct world *world, const char *name)
{
	struct domain *domain = world_domain(world, name);

	return __atomic_load_n(&machine_domain_page(domain->guest->machine, domain->index)->host_events,
	                       __ATOMIC_SEQ_CST);
}

/* Lets `name` block in the command, pushes, and expects "revoked". The report. */
static json_t *cut_while_blocked(struct world *world, const char *name, struct command command,
                                 const struct channel *channel, enum channel_side side, policy_files policy)
{
	uint64_t events;
	json_t *report;
	int64_t result;

	actor_begin(world, name, command);
	actor_until_blocked(world, name);
	events = events_of(world, name);
	report = world_push(world, policy, STOP_ALL);
	cr_assert_gt(events_of(world, name), events, "%s was not woken", name);
	if (channel)
		cr_assert(record_word(channel, side) & CUT_BITS);
	result = actor_finish(world, name);
	cr_assert_eq(result, CALL_REVOKED, "%s got %lld", name, (long long)result);
	return report;
}

static json_int_t cancelled_calls(const json_t *report)
{
	json_int_t sum = 0;

	for (size_t i = 0; i < json_array_size(json_object_get(report, "cuts")); i++) {
		char path[64];

		snprintf(path, sizeof(path), "cuts.%zu.cancelled_calls", i);
		sum += report_number(report, path);
	}
	return sum;
}

Test(row, r5_blocked_reader_without_any_traffic)
{
	struct world world;
	struct pair pair;
	json_t *report;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	report = cut_while_blocked(&world, "two",
	                           (struct command){ACTOR_RECEIVE, {pair.at_server, 1, NO_TIMEOUT}, NULL},
	                           pair.channel, SIDE_SERVER, POLICY_NO_CONNECT);
	cr_assert_eq(cancelled_calls(report), 1);
	cr_assert_eq(report_number(report, "cuts.0.discarded_messages"), 0);
	json_decref(report);
	world_close(&world);
}

/* Only the other direction is cut: a reader of what stays does not stir. */
Test(row, r5_reader_of_a_kept_flow_sleeps_on)
{
	struct world world;
	struct pair pair;
	json_t *report;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	actor_begin(&world, "one", (struct command){ACTOR_RECEIVE, {pair.at_client, 1, NO_TIMEOUT}, NULL});
	actor_until_blocked(&world, "one");
	report = world_push(&world, POLICY_NO_SEND, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), 1);
	cr_assert_eq(report_number(report, "flows.kept"), 1);
	cr_assert_eq(cancelled_calls(report), 0);
	json_decref(report);
	cr_assert_eq(pair_send(&world, &pair, false, 7, 1), CALL_OK);
	cr_assert_eq(actor_finish(&world, "one"), 8);
	cr_assert_eq(world_mailbox(&world, "one")->value[2], 7);
	cr_assert_eq(pair_send(&world, &pair, true, 1, 1), CALL_REVOKED);
	cr_assert_eq(pair_receive(&world, &pair, false, 1), CALL_REVOKED);
	world_close(&world);
}

/* It says how much had been transferred, and the full ring is discarded (R2). */
Test(row, r5_blocked_in_full_send)
{
	struct world world;
	struct pair pair;
	json_t *report;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	report = cut_while_blocked(
		&world, "one",
		(struct command){ACTOR_SEND, {pair.at_client, 1, RING_CELLS + 5, 8, NO_TIMEOUT}, NULL},
		pair.channel, SIDE_CLIENT, POLICY_NO_SEND);
	cr_assert_eq(world_mailbox(&world, "one")->value[0], RING_CELLS);
	cr_assert_eq(cancelled_calls(report), 1);
	cr_assert_eq(report_number(report, "cuts.0.discarded_messages"), RING_CELLS);
	cr_assert_eq(report_number(report, "cuts.0.discarded_bytes"), RING_CELLS * 8);
	json_decref(report);
	cr_assert_eq(pair_receive(&world, &pair, false, 1), CALL_REVOKED);
	world_close(&world);
}

Test(row, r5_blocked_in_call)
{
	struct world world;
	struct pair pair;
	json_t *report;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	report = cut_while_blocked(&world, "one",
	                           (struct command){ACTOR_CALL, {pair.at_client, 1, NO_TIMEOUT}, NULL},
	                           pair.channel, SIDE_CLIENT, POLICY_NO_CONNECT);
	cr_assert_eq(world_mailbox(&world, "one")->value[0], 1, "the request had gone");
	cr_assert_eq(cancelled_calls(report), 1);
	cr_assert_eq(report_number(report, "cuts.0.discarded_messages"), 1);
	json_decref(report);
	world_close(&world);
}

/* A poll ends: the message that it waited for is the news of the cut. */
Test(row, r5_blocked_in_wait)
{
	struct world world;
	struct pair pair;
	json_t *report;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	actor_begin(&world, "two",
	            (struct command){ACTOR_POLL, {pair.at_server, POLL_MESSAGE, NO_TIMEOUT}, NULL});
	actor_until_blocked(&world, "two");
	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_assert_eq(cancelled_calls(report), 1);
	json_decref(report);
	cr_assert_eq(actor_finish(&world, "two"), 1);
	cr_assert_eq(world_mailbox(&world, "two")->value[0], POLL_MESSAGE);
	cr_assert_eq(pair_receive(&world, &pair, false, 1), CALL_REVOKED);
	world_close(&world);
}

/* A connect that nobody has accepted yet; the service's backlog forgets it, both slots are free again. */
static void cut_unaccepted(policy_files before, policy_files after, json_int_t n_cut)
{
	const struct world_options options = {.policy = before};
	struct world world;
	json_t *report;

	world_open(&world, &options);
	actor_begin(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"});
	actor_until_awaiting(&world, "one");
	report = world_push(&world, after, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), n_cut);
	cr_assert_eq(cancelled_calls(report), 1);
	json_decref(report);
	cr_assert_eq(actor_finish(&world, "one"), CALL_REVOKED);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	cr_assert_eq(world_domain(&world, "two")->n_used, 0);
	cr_assert_eq(world_domain(&world, "two")->services[0].n_backlog, 0);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_ACCEPT, {0}, NULL}), CALL_AGAIN);
	world_close(&world);
}

Test(row, r5_connect_not_accepted)
{
	cut_unaccepted(POLICY_OPEN, POLICY_NO_CONNECT, 2);
}

/* The same where only the answers of the server were allowed at all. */
Test(row, r5_connect_not_accepted_of_a_listener)
{
	cut_unaccepted(POLICY_NO_SEND, POLICY_NO_CONNECT, 1);
}

/* Several domains blocked in a chain: each link's ends are told about their own link (design: 7). */
Test(row, r5_chain_of_blocked_calls)
{
	struct world world;
	struct pair first, second;
	json_t *report;

	world_open(&world, NULL);
	first = pair_open(&world, "one", "two", "svc");
	second = pair_open(&world, "three", "four", "aux");
	actor_begin(&world, "one", (struct command){ACTOR_CALL, {first.at_client, 1, NO_TIMEOUT}, NULL});
	actor_begin(&world, "two", (struct command){ACTOR_RECEIVE, {first.at_server, 9, NO_TIMEOUT}, NULL});
	actor_begin(&world, "three", (struct command){ACTOR_CALL, {second.at_client, 1, NO_TIMEOUT}, NULL});
	actor_begin(&world, "four", (struct command){ACTOR_RECEIVE, {second.at_server, 9, NO_TIMEOUT}, NULL});
	actor_until_blocked(&world, "one");
	actor_until_blocked(&world, "two");
	actor_until_blocked(&world, "three");
	actor_until_blocked(&world, "four");
	report = world_push(&world, POLICY_NOTHING, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), 4);
	cr_assert_eq(cancelled_calls(report), 4);
	json_decref(report);
	cr_assert_eq(actor_finish(&world, "one"), CALL_REVOKED);
	cr_assert_eq(actor_finish(&world, "two"), CALL_REVOKED);
	cr_assert_eq(actor_finish(&world, "three"), CALL_REVOKED);
	cr_assert_eq(actor_finish(&world, "four"), CALL_REVOKED);
	cr_assert_eq(world_mailbox(&world, "two")->value[0], 1, "the request had been read before");
	world_close(&world);
}
