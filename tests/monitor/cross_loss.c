/*
 * A guest that crashes, is killed, or leaves takes only its channels along: peers are told at once, no page
 * of it stays readable, everybody else goes on, and when it is started again nothing of its former run is
 * left.
 */
#include <string.h>

#include "guest/abi/record.h"
#include "guest/abi/ring.h"
#include "monitor/guest.h"
#include "tests/monitor/cross_support.h"
#include "tests/monitor/world_annex.h"
#include "vmm/machine_state.h"
#include "vmm/window.h"

/* How "other" is lost. */
enum loss {
	LOSS_KILLED,
	LOSS_CRASHED,
	N_LOSSES
};

static void lose(struct world *world, struct guest *guest, enum loss loss)
{
	if (loss == LOSS_KILLED) {
		struct registry *registry = registry_lock(world->monitor);

		guest_lose(registry, guest, "the test has killed it");
		registry_unlock(registry);
	} else {
		const struct machine_crash crash = {.domain = NO_DOMAIN, .text = "the test has crashed it"};

		machine_crashed(guest->machine, &crash);
	}
}

/* Blocked on the lost guest: one in a receive, two in a send. Kept: three and four, near. */
static void lose_with_blocked_peers(enum loss loss)
{
	struct world world;
	struct pair waits, full, near;
	struct endpoint ends[2];
	struct guest *other;

	cross_open(&world);
	other = cross_guest(&world, "other");
	waits = pair_open(&world, "one", "six", "sub");
	full = pair_open(&world, "five", "two", "svc");
	near = pair_open(&world, "three", "four", "aux");
	cr_assert_eq(pair_send(&world, &waits, false, 1, 5), CALL_OK);
	cr_assert_eq(pair_receive(&world, &waits, true, 1), 8);
	cr_assert_eq(pair_send(&world, &full, false, 1, RING_CELLS), CALL_OK);
	actor_begin(&world, "two",
	            (struct command){ACTOR_SEND, {full.at_server, 99, 1, 8, NO_TIMEOUT}, NULL});
	actor_begin(&world, "one", (struct command){ACTOR_RECEIVE, {waits.at_client, 99, NO_TIMEOUT}, NULL});
	actor_until_blocked(&world, "two");
	actor_until_blocked(&world, "one");
	ends[0] = waits.channel->end[SIDE_CLIENT];
	ends[1] = full.channel->end[SIDE_SERVER];
	lose(&world, other, loss);
	cross_until_over(&world, other);

	for (int i = 0; i < 2; i++) {
		const uint64_t *words = window_inbox(ends[i].domain->guest->machine, ends[i].slot);

		cr_assert_neq(cross_word(&ends[i]) & RECORD_PEER_DIED, 0);
		cr_assert_eq(cross_word(&ends[i]) & (RECORD_IN | RECORD_OUT | RECORD_NOTIFY), 0);
		for (size_t w = 0; w < (SLOT_BULK_OFFSET + DEFAULT_BULK_BYTES) / 8; w++)
			cr_assert_eq(words[w], 0, "the lost guest can still be read");
	}
	cr_assert_eq(actor_finish(&world, "one"), CALL_PEER_DIED);
	cr_assert_eq(actor_finish(&world, "two"), CALL_PEER_DIED);
	cr_assert_not(annex_can_read(window_inbox(other->machine, 0)) && loss == LOSS_KILLED);
	assert_flowing(&world, &near);
	cr_assert_eq(connect_result(&world, "one", "sub"), CALL_PEER_DIED);
	world_push_quietly(&world, POLICY_NOTHING, STOP_ALL);
	assert_revoked(&world, &near);
	world_close(&world);
}

Test(cross, a_killed_guest_takes_only_its_channels)
{
	lose_with_blocked_peers(LOSS_KILLED);
}

Test(cross, a_crashed_guest_takes_only_its_channels)
{
	lose_with_blocked_peers(LOSS_CRASHED);
}

/* ---- it leaves, and comes again ---- */

static struct guest *start_again(struct world *world)
{
	static const struct cross_domain domains[] = {
		{"other", "five", 0, "three_t:s0", NULL, NULL},
		{"other", "six", 0, "four_t:s0", "sub", NULL},
	};

	return annex_open_as(world, CROSS_MANIFEST(domains), NULL);
}

/* In order: what it had sent can be read, then the peer is told; what it was is forgotten with the last end.
 */
Test(cross, a_guest_that_leaves_in_order)
{
	struct world world;
	struct pair pair;

	cross_open(&world);
	pair = pair_open(&world, "one", "six", "sub");
	cr_assert_eq(pair_send(&world, &pair, false, 1, 5), CALL_OK);
	guest_destroy(cross_guest(&world, "other"));
	cr_assert_eq(world.monitor->registry->n_guests, 1);
	cr_assert_eq(pair_receive(&world, &pair, true, 5), 8);
	cr_assert_eq(pair_receive(&world, &pair, true, 1), CALL_PEER_CLOSED);
	/* Changes judge, list and cut what is left of it. */
	world_push_quietly(&world, POLICY_NO_CONNECT, STOP_ALL);
	world_push_quietly(&world, POLICY_OPEN, STOP_AFFECTED);
	cr_assert_eq(connect_result(&world, "one", "sub"), CALL_NO_SERVICE);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {pair.at_client}, NULL}), CALL_OK);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	world_close(&world);
}

/* A cut of what a guest that has left had sent, and nobody has read yet. */
Test(cross, r2_what_a_guest_left_behind_is_cut_too)
{
	struct world world;
	struct pair pair;
	json_t *report;

	cross_open(&world);
	pair = pair_open(&world, "one", "six", "sub");
	cr_assert_eq(pair_send(&world, &pair, false, 1, 5), CALL_OK);
	guest_destroy(cross_guest(&world, "other"));
	report = world_push(&world, POLICY_NOTHING, STOP_AFFECTED);
	cr_assert_eq(report_number(report, "flows.cut"), 1);
	cr_assert_eq(report_number(report, "cuts.0.discarded_messages"), 5);
	json_decref(report);
	cr_assert_eq(pair_receive(&world, &pair, true, 1), CALL_REVOKED);
	cr_assert(inbox_is_empty(pair.channel, SIDE_CLIENT));
	world_close(&world);
}

/* A connect of five that two has not accepted, with five messages; its guest has left, or only five has. */
static void leave_in_backlog(struct world *world, bool guest_leaves)
{
	uint64_t handle;

	cross_open(world);
	cr_assert_eq(actor_do(world, "five", (struct command){ACTOR_OPEN, {NO_TIMEOUT}, "svc"}), CALL_OK);
	handle = world_mailbox(world, "five")->value[0];
	cr_assert_eq(actor_do(world, "five", (struct command){ACTOR_SEND, {handle, 1, 5, 8, 0}, NULL}),
	             CALL_OK);
	if (guest_leaves)
		guest_destroy(cross_guest(world, "other"));
	else
		cr_assert_eq(actor_do(world, "five", (struct command){ACTOR_CLOSE, {handle}, NULL}), CALL_OK);
}

static void expect_backlog_of_nobody(struct world *world)
{
	cr_expect_eq(world->monitor->registry->n_channels, 0);
	cr_expect_eq(world_domain(world, "two")->n_used, 0);
	cr_expect_eq(actor_do(world, "two", (struct command){ACTOR_ACCEPT, {0}, NULL}), CALL_AGAIN);
	world_close(world);
}

/* Also what it had sent before anybody accepted: mapped from memory that has outlived its machine. */
Test(cross, a_guest_that_leaves_before_the_accept)
{
	struct world world;
	uint64_t handle;

	leave_in_backlog(&world, true);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_ACCEPT, {0}, NULL}), CALL_OK);
	handle = world_mailbox(&world, "two")->value[0];
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_RECEIVE, {handle, 6, 0}, NULL}),
	             CALL_PEER_CLOSED);
	cr_assert_eq(world_mailbox(&world, "two")->value[0], 5);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {handle}, NULL}), CALL_OK);
	expect_backlog_of_nobody(&world);
}

Test(cross, r2_what_a_guest_left_in_a_backlog_is_cut_too)
{
	struct world world;
	json_t *report;

	leave_in_backlog(&world, true);
	report = world_push(&world, POLICY_NOTHING, STOP_AFFECTED);
	cr_expect_eq(report_number(report, "flows.cut"), 1);
	cr_expect_eq(report_number(report, "cuts.0.discarded_messages"), 5);
	json_decref(report);
	expect_backlog_of_nobody(&world);
}

Test(cross, a_lost_guest_leaves_nothing_in_a_backlog)
{
	struct world world;

	leave_in_backlog(&world, false);
	lose(&world, cross_guest(&world, "other"), LOSS_KILLED);
	cross_until_over(&world, cross_guest(&world, "other"));
	expect_backlog_of_nobody(&world);
}

/* I8, H7: runs follow each other while a peer holds ends of some of them; it can tell them apart, and memory
 * is given back. */
Test(cross, i8_h7_a_guest_that_is_started_again_and_again)
{
	enum {
		N_RUNS = 12
	};
	struct world world;
	uint64_t generation = 0, resident = 0;

	cross_open(&world);
	for (int run = 0; run < N_RUNS; run++) {
		struct pair pair = pair_open(&world, "one", "six", "sub");
		const struct endpoint *far = &pair.channel->end[SIDE_SERVER];

		cr_assert_gt(far->generation, generation, "run %d", run);
		generation = far->generation;
		cr_assert_eq(cross_word(far) >> RECORD_GENERATION_SHIFT, generation);
		/* Zeroed: nothing of the former run stands in its outbox. */
		cr_assert_eq(window_outbox_counters(far->domain->guest->machine, far->slot).written, 0);
		assert_flowing(&world, &pair);
		guest_destroy(cross_guest(&world, "other"));
		cr_assert_eq(pair_receive(&world, &pair, true, 1), CALL_PEER_CLOSED);
		/* Half of them are never closed. */
		if (run % 2)
			cr_assert_eq(actor_do(&world, "one",
			                      (struct command){ACTOR_CLOSE, {pair.at_client}, NULL}),
			             CALL_OK);
		if (run == 2)
			resident = resident_bytes();
		start_again(&world);
	}
	cr_assert_eq(world.monitor->registry->n_channels, N_RUNS / 2);
#ifdef __SANITIZE_ADDRESS__ /* it keeps what was freed */
	(void)resident;
#else
	cr_assert_leq(resident_bytes(), resident + (8u << 20));
#endif
	world_close(&world);
}
