/*
 * One-way flows under load: a writer that overwrites and a reader that counts what it lost, and channels
 * that lose one direction while the other is in full use (I4).
 */

#include "guest/abi/call.h"
#include "tests/monitor/kind_support.h"

#define DIODE(name, vcpu, level, more)                                                                       \
	"{ name = \"" name "\"; program = \"" TEST_DOMAINS "t_diode.elf\"; vcpu = " vcpu                     \
	"; context = \"system_u:system_r:" level "\"; " more " }"

static const char MANIFEST[] = "name = \"test\"; vcpus = 2; bulk_bytes = 16384; domains = (" DIODE(
	"writer", "0", "one_t:s0",
	"args = ( \"writer\" );") "," DIODE("reader", "1", "two_t:s1",
                                            "args = ( \"reader\" ); offers = ( \"diode\" );") ");";

struct diode {
	struct mailbox_lane *writer, *reader;
	uint64_t least_taken, least_lost;
};

static bool is_connected(struct world *world, void *opaque)
{
	(void)world;
	return MAILBOX_LOAD(((struct diode *)opaque)->writer->is_open);
}

static bool has_seen_enough(struct world *world, void *opaque)
{
	struct diode *diode = opaque;

	(void)world;
	return MAILBOX_LOAD(diode->reader->n_taken) >= diode->least_taken &&
	       MAILBOX_LOAD(diode->reader->ended) >= diode->least_lost;
}

static bool is_told(struct world *world, void *opaque)
{
	(void)world;
	return MAILBOX_LOAD(((struct diode *)opaque)->reader->revoked);
}

static bool has_caught_up(struct world *world, void *opaque)
{
	struct diode *diode = opaque;

	(void)world;
	return MAILBOX_LOAD(diode->reader->taken) == MAILBOX_LOAD(diode->writer->attempt);
}

/* Whole messages in their order, each either handed on or counted as lost, whatever they look like. */
Test(flow, reader_counts_what_was_overwritten)
{
	struct world world;
	struct diode diode = {.least_taken = 1, .least_lost = 1}; /* how many depends on the machine */

	world_open(&world, &(struct world_options){.manifest = MANIFEST,
	                                           .policy = policy_of("(call can_connect (one_t two_t))"),
	                                           .busy = true});
	diode.writer = &world_mailbox(&world, "writer")->lane[0];
	diode.reader = &world_mailbox(&world, "reader")->lane[0];
	MAILBOX_STORE(world_mailbox(&world, "writer")->want, 1);
	world_until(&world, is_connected, &diode, "the writer connects");
	world_until(&world, has_seen_enough, &diode, "messages arrive and are lost");
	MAILBOX_STORE(world_mailbox(&world, "writer")->want, 0);
	world_until(&world, has_caught_up, &diode, "the last message arrives");
	cr_assert_eq(diode.reader->wrong, 0, "the reader was handed %llu messages that were none",
	             (unsigned long long)diode.reader->wrong);
	cr_assert_eq(diode.reader->n_taken + diode.reader->ended, diode.writer->attempt,
	             "%llu taken and %llu lost of %llu", (unsigned long long)diode.reader->n_taken,
	             (unsigned long long)diode.reader->ended, (unsigned long long)diode.writer->attempt);
	cr_assert_gt(diode.reader->ended, 0);

	MAILBOX_STORE(world_mailbox(&world, "writer")->want, 1);
	json_decref(change_do(&world, to_revoke("one_t", "two_t", "send")));
	world_until(&world, is_told, &diode, "the reader is told of the cut");
	cr_assert_eq(diode.reader->ending, CALL_REVOKED);
	cr_assert_eq(diode.reader->wrong, 0);
	world_close(&world);
}

/* ---- a direction of two is cut ---- */

#define N_MESSAGES 4000u

/*
 * One sends to two without a pause, and while it does the way back is cut; then the
 * same with the roles changed. Nothing of what goes on is lost, repeated, reordered or refused.
 */
static void assert_other_direction_goes_on(bool from_client, enum stop_mode stop)
{
	const char *source = from_client ? "one" : "two", *sink = from_client ? "two" : "one";
	struct change_request request =
		from_client ? to_revoke("two_t", "one_t", "send") : to_revoke("one_t", "two_t", "send");
	struct world world;
	struct pair pair;
	uint64_t at_source, at_sink;
	json_t *report;

	world_open(&world, &(struct world_options){.busy = true});
	pair = pair_open(&world, "one", "two", "svc");
	at_source = from_client ? pair.at_client : pair.at_server;
	at_sink = from_client ? pair.at_server : pair.at_client;
	cr_assert_eq(pair_send(&world, &pair, !from_client, 1, 7), CALL_OK);
	actor_begin(&world, sink, (struct command){ACTOR_RECEIVE, {at_sink, N_MESSAGES, NO_TIMEOUT}, NULL});
	actor_begin(&world, source,
	            (struct command){ACTOR_SEND, {at_source, 1, N_MESSAGES, 8, NO_TIMEOUT}, NULL});
	request.stop = stop;
	report = change_do(&world, request);
	cr_assert_not(actor_is_done(&world, source), "the cut came too late to matter");
	cr_assert_eq(report_number(report, "flows.cut"), 1);
	cr_assert_eq(report_number(report, "cuts.0.discarded_messages"), 7);
	cr_assert_str_eq(report_text(report, "kept_with_flowctl.0.from"),
	                 from_client ? "test/one" : "test/two");
	json_decref(report);
	cr_assert_eq(actor_finish(&world, source), CALL_OK);
	cr_assert_eq(actor_finish(&world, sink), 8);
	cr_assert_eq(world_mailbox(&world, sink)->value[0], N_MESSAGES);
	cr_assert_eq(world_mailbox(&world, sink)->value[1], 1);
	cr_assert_eq(world_mailbox(&world, sink)->value[2], N_MESSAGES);
	cr_assert_eq(world_mailbox(&world, sink)->value[3], 0, "messages came out of order");
	cr_assert_eq(pair_send(&world, &pair, !from_client, 8, 1), CALL_REVOKED);
	cr_assert_eq(pair_receive(&world, &pair, from_client, 1), CALL_REVOKED);
	/* All that the source still sees of its peer is the header. */
	cr_assert_eq(pair.channel->end[from_client ? SIDE_CLIENT : SIDE_SERVER].part, WINDOW_HEADER);
	world_close(&world);
}

Test(flow, i4_way_back_is_cut_stop_all)
{
	assert_other_direction_goes_on(true, STOP_ALL);
	assert_other_direction_goes_on(false, STOP_ALL);
}

Test(flow, i4_way_back_is_cut_stop_none)
{
	assert_other_direction_goes_on(true, STOP_NONE);
	assert_other_direction_goes_on(false, STOP_NONE);
}
