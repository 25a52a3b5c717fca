/* What a cut does to a channel that was in use: rows R1, R2, and what the report says of it. */
#include <stdlib.h>
#include <string.h>

#include "guest/abi/ring.h"
#include "tests/monitor/world_annex.h"
#include "vmm/window.h"

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

static void fill(struct world *world, const struct pair *pair, bool from_client, uint64_t bytes, uint64_t n)
{
	int64_t result = actor_do(
		world, from_client ? pair->client : pair->server,
		(struct command){
			ACTOR_SEND, {from_client ? pair->at_client : pair->at_server, 1, n, bytes, 0}, NULL});

	cr_assert_eq(result, CALL_OK);
}

/* R2: what is queued at the cut is never handed on, and counted exactly, both ways. */
Test(row, r2_full_ring_is_discarded_and_counted)
{
	struct world world;
	struct pair pair;
	json_t *report;
	size_t client_first;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	fill(&world, &pair, true, 8, RING_CELLS);
	cr_assert_eq(pair_send(&world, &pair, true, 9, 1), CALL_AGAIN);
	cr_assert_eq(pair_receive(&world, &pair, false, 10), 8);
	fill(&world, &pair, false, 1000, 5);
	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	client_first = strcmp(report_text(report, "cuts.0.from"), "test/one") == 0 ? 0 : 1;
	cr_assert_eq(report_number(report,
	                           client_first ? "cuts.1.discarded_messages" : "cuts.0.discarded_messages"),
	             RING_CELLS - 10);
	cr_assert_eq(
		report_number(report, client_first ? "cuts.1.discarded_bytes" : "cuts.0.discarded_bytes"),
		(RING_CELLS - 10) * 8);
	cr_assert_eq(report_number(report,
	                           client_first ? "cuts.0.discarded_messages" : "cuts.1.discarded_messages"),
	             5);
	cr_assert_eq(
		report_number(report, client_first ? "cuts.0.discarded_bytes" : "cuts.1.discarded_bytes"),
		5000);
	json_decref(report);
	cr_assert_eq(pair_receive(&world, &pair, false, 1), CALL_REVOKED);
	cr_assert_eq(pair_receive(&world, &pair, true, 1), CALL_REVOKED);
	cr_assert_eq(world_mailbox(&world, "one")->value[0], 0);
	world_close(&world);
}

/* Losing only the back-pressure cuts the flow; a new connect gets a diode. */
Test(row, r1_lost_flowctl_cuts_and_a_new_connect_is_a_diode)
{
	struct world world;
	struct pair pair;
	json_t *report;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	report = world_push(&world, POLICY_NO_FLOWCTL, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), 1);
	cr_assert_str_eq(report_text(report, "cuts.0.permissions.0"), "flowctl");
	cr_assert_str_eq(report_text(report, "cuts.0.from"), "test/one");
	json_decref(report);
	cr_assert_eq(pair_send(&world, &pair, true, 1, 1), CALL_REVOKED);
	cr_assert_eq(pair_send(&world, &pair, false, 1, 1), CALL_OK);
	cr_assert_eq(pair_receive(&world, &pair, true, 1), 8);
	pair_close(&world, &pair);

	pair = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_INFO, {pair.at_client}, NULL}), CALL_OK);
	cr_assert_eq(world_mailbox(&world, "one")->value[4], 2,
	             "sends without back-pressure, receives with it");
	/* A slow reader never holds the writer up. */
	fill(&world, &pair, true, 8, 3 * RING_CELLS);
	cr_assert_geq(pair_receive(&world, &pair, false, 1), 0);
	world_close(&world);
}

/* F13: a context that the new policy does not know loses all that it holds, and can do nothing. */
Test(row, r1_forgotten_context_loses_everything)
{
	struct world world;
	struct pair to_two, to_four, other;
	json_t *report;

	world_open(&world, NULL);
	to_two = pair_open(&world, "one", "two", "svc");
	to_four = pair_open(&world, "one", "four", "aux");
	other = pair_open(&world, "three", "four", "aux");
	report = world_push(&world, POLICY_FORGET, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), 4);
	cr_assert_eq(report_number(report, "flows.kept"), 2);
	json_decref(report);
	cr_assert_eq(pair_send(&world, &to_two, true, 1, 1), CALL_REVOKED);
	cr_assert_eq(pair_receive(&world, &to_four, true, 1), CALL_REVOKED);
	cr_assert_eq(pair_send(&world, &other, true, 1, 1), CALL_OK);
	cr_assert_eq(pair_receive(&world, &other, false, 1), 8);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"}),
	             CALL_DENIED);
	cr_assert_not(sid_known(world.monitor->posture->sids, world_domain(&world, "one")->sid));
	/* A policy that knows it again gives it its rights back, for new connects only (F8). */
	world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	cr_assert_eq(pair_send(&world, &to_two, true, 1, 1), CALL_REVOKED);
	pair_close(&world, &to_two);
	to_two = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(pair_send(&world, &to_two, true, 1, 1), CALL_OK);
	world_close(&world);
}

/* R11: many channels are cut at once, each end by end, with nothing walked that a guest controls. */
Test(row, r11_many_channels_at_once)
{
	enum {
		N = 12
	};
	struct pair pairs[N];
	struct world world;
	json_t *report;

	world_open(&world, NULL);
	for (int i = 0; i < N; i++)
		pairs[i] = pair_open(&world, i % 2 ? "one" : "three", "two", "svc");
	report = world_push(&world, POLICY_NOTHING, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), 2 * N);
	cr_assert_eq(json_array_size(json_object_get(report, "cuts")), 2 * N);
	json_decref(report);
	for (int i = 0; i < N; i++) {
		cr_assert(inbox_is_empty(pairs[i].channel, SIDE_CLIENT));
		cr_assert(inbox_is_empty(pairs[i].channel, SIDE_SERVER));
		cr_assert_eq(pair_send(&world, &pairs[i], true, 1, 1), CALL_REVOKED);
		pair_close(&world, &pairs[i]);
	}
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	world_close(&world);
}

/* I9: each cut has its line in the audit trail, and so has a denial. */
Test(row, r16_cuts_and_denials_are_audited)
{
	struct world world;
	struct pair pair;
	char *line;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(pair_send(&world, &pair, true, 1, 3), CALL_OK);
	world_push_quietly(&world, POLICY_NO_SEND, STOP_ALL);
	line = audit_find(&world, "PORTCULLIS_CUT");
	cr_assert(line && strstr(line, "from=\"test/one\" to=\"test/two\" discarded_messages=3") &&
	                  strstr(line, "no rule allows one_t two_t:channel send"),
	          "%s", line ? line : "nothing");
	cr_assert_not(strstr(line, "avc:"), "a notice must not look like a denial");
	free(line);
	world_push_quietly(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"}),
	             CALL_DENIED);
	line = audit_await(&world, "avc:  denied  { connect } for  guest=\"test\" domain=\"one\"");
	cr_assert(line && strstr(line,
	                         "scontext=system_u:system_r:one_t:s0 tcontext=system_u:system_r:two_t:s0 "
	                         "tclass=channel permissive=0"),
	          "%s", line ? line : "nothing");
	free(line);
	world_close(&world);
}

/* ---- R3, R4: memory that was mapped ---- */

static bool has_looped(struct world *world, void *opaque)
{
	uint64_t *least = opaque;

	struct mailbox *reader = world_mailbox(world, "two");

	return MAILBOX_LOAD(reader->value[0]) >= *least && MAILBOX_LOAD(reader->value[1]) > 0;
}

/*
 * One counts in its outbox on vCPU 0, two reads that word on vCPU 1 without a look at any
 * record. From the return of the push on it reads zero.
 */
static void watch_memory(enum stop_mode stop, int n_rounds)
{
	struct world world;

	world_open(&world, &(struct world_options){.busy = true});
	for (int round = 0; round < n_rounds; round++) {
		struct mailbox *reader = world_mailbox(&world, "two");
		struct pair pair = pair_open(&world, "one", "two", "svc");
		struct endpoint end = pair.channel->end[SIDE_SERVER];
		const uint64_t *word =
			(const uint64_t *)((uint8_t *)window_outbox(end.domain->guest->machine,
		                                                    pair.channel->end[SIDE_CLIENT].slot) +
		                           SLOT_BULK_OFFSET + ABI_PAGE_BYTES - 8);
		uint64_t least = 1000, written, loops;

		actor_begin(&world, "one", (struct command){ACTOR_COUNT, {pair.at_client}, NULL});
		actor_begin(&world, "two", (struct command){ACTOR_WATCH, {pair.at_server}, NULL});
		world_until(&world, has_looped, &least, "the reader reads");
		world_drift(&world, (uint64_t)round * 70000);
		world_push_quietly(&world, POLICY_NO_CONNECT, stop);
		loops = MAILBOX_LOAD(reader->value[0]);
		written = __atomic_load_n(word, __ATOMIC_SEQ_CST);
		/* The read of loop `loops` + 1 may have begun before; the next ones have not. */
		least = loops + 5000;
		world_until(&world, has_looped, &least, "the reader reads on");
		cr_assert_leq(reader->value[1], written, "the reader saw what was written after the push");
		cr_assert_leq(reader->value[2], loops + 1, "the reader saw something after the push");
		cr_assert(inbox_is_empty(pair.channel, SIDE_SERVER));
		actor_end_loop(&world, "one");
		actor_end_loop(&world, "two");
		actor_finish(&world, "one");
		actor_finish(&world, "two");
		pair_close(&world, &pair);
		world_push_quietly(&world, POLICY_OPEN, stop);
	}
	world_close(&world);
}

Test(row, r3_r4_spinning_reader_stop_all)
{
	watch_memory(STOP_ALL, 20);
}

Test(row, r3_r4_spinning_reader_stop_affected)
{
	watch_memory(STOP_AFFECTED, 10);
}

Test(row, r3_r4_spinning_reader_stop_none)
{
	watch_memory(STOP_NONE, 20);
}

static const char MANIFEST_WIDE[] =
	"name = \"test\"; vcpus = 2; bulk_bytes = 4096;\n"
	"domains = (\n"
	"{ name = \"one\"; program = \"" TEST_DOMAINS "t_actor.elf\"; slots = 4352; vcpu = 0;"
	"context = \"system_u:system_r:one_t:s0\"; },\n"
	"{ name = \"two\"; program = \"" TEST_DOMAINS "t_actor.elf\"; slots = 4352; vcpu = 1;"
	"context = \"system_u:system_r:two_t:s0\"; offers = ( \"svc\" ); } );\n";

/* R11: 4,096 channels at once, within the deadline; neighbours go by one mapping, so nothing runs out. */
Test(row, r11_thousands_of_channels_at_once)
{
	enum {
		N = 4096
	};
	struct world world;
	struct channel *channel = NULL;
	json_t *report;

	world_open(&world, &(struct world_options){.manifest = MANIFEST_WIDE});
	for (int i = 0; i < N; i++)
		channel = annex_channel(&world, "one", "two");
	report = world_push(&world, POLICY_NOTHING, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), 2 * N);
	cr_assert_eq(json_array_size(json_object_get(report, "killed")), 0);
	json_decref(report);
	for (int i = 0; i < N; i++, channel = channel->previous)
		cr_assert(inbox_is_empty(channel, SIDE_CLIENT) && inbox_is_empty(channel, SIDE_SERVER));
	cr_assert_null(channel);
	world_close(&world);
}
