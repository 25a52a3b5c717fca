/* I7, a denial leaves no trace (H5, R15); I8, a slot that is used again shows nothing of its predecessor. */
#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "guest/abi/record.h"
#include "guest/abi/ring.h"
#include "monitor/mediation.h"
#include "monitor/proposal.h"
#include "tests/monitor/world.h"
#include "tests/monitor/world_faults.h"
#include "vmm/window.h"

static void expect_no_trace(struct world *world, const char *name, const char *service, int64_t expected)
{
	char *before = world_snapshot(world, SNAPSHOT_BUSY);
	int64_t result = actor_do(world, name, (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, service});

	cr_assert_eq(result, expected, "connect to \"%s\": %lld", service, (long long)result);
	snapshot_assert_equal(before, world_snapshot(world, SNAPSHOT_BUSY), "a connect that was refused");
}

/* Asked for the first time, answered from the cache, after a push, for each permission that a connect needs.
 */
Test(promise, i7_denied_connect_leaves_no_trace)
{
	const struct world_options options = {.policy = POLICY_NO_CONNECT};
	struct world world;
	struct pair pair;

	world_open(&world, &options);
	pair = pair_open(&world, "three", "two", "svc");
	for (int i = 0; i < 3; i++)
		expect_no_trace(&world, "one", "svc", CALL_DENIED);
	world_push_quietly(&world, POLICY_NOTHING, STOP_ALL);
	for (int i = 0; i < 3; i++)
		expect_no_trace(&world, "one", "aux", CALL_DENIED);
	expect_no_trace(&world, "two", "aux", CALL_DENIED);
	expect_no_trace(&world, "one", "nobody", CALL_NO_SERVICE);
	cr_assert_eq(world.monitor->registry->counters.denials, 7);
	pair_close(&world, &pair);
	world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	pair = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(pair_send(&world, &pair, true, 1, 1), CALL_OK);
	cr_assert_eq(pair.channel->end[SIDE_CLIENT].slot, world_domain(&world, "one")->first_slot);
	cr_assert_eq(pair.channel->end[SIDE_CLIENT].generation, 1, "no denial has used a slot up");
	world_close(&world);
}

/* A connect that waits while its domain is quarantined is not granted afterwards. */
Test(promise, i7_quarantine_meets_a_pending_connect)
{
	struct world world;
	struct registry *registry;
	struct proposal proposal = {.kind = CHANGE_QUARANTINE, .enforcing = true};
	char *before;
	int64_t result;

	world_open(&world, NULL);
	proposal.domain = world_domain(&world, "one");
	registry = registry_lock(world.monitor);
	registry_close_gate(registry);
	registry_unlock(registry);
	before = world_snapshot(&world, SNAPSHOT_BUSY);
	free(before);
	actor_begin(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"});
	actor_until_blocked(&world, "one");
	registry = registry_lock(world.monitor);
	cr_assert(world_domain(&world, "one")->pending.active);
	proposal_enact(registry, &proposal);
	registry_open_gate(registry);
	registry_unlock(registry);
	mediation_pump(world.monitor);
	result = actor_finish(&world, "one");
	cr_assert(result == CALL_QUARANTINED || result == CALL_DENIED, "%lld", (long long)result);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	world_close(&world);
}

static size_t nonzero_words(const void *memory, size_t bytes)
{
	const uint64_t *words = memory;
	size_t n = 0;

	for (size_t i = 0; i < bytes / 8; i++)
		n += words[i] != 0;
	return n;
}

/* The outbox is zero, the generation new, the record of before is gone. */
Test(promise, i8_slot_is_zero_and_new_when_used_again)
{
	struct world world;
	struct pair first, second;
	struct endpoint before, after;

	world_open(&world, NULL);
	first = pair_open(&world, "one", "two", "svc");
	before = first.channel->end[SIDE_CLIENT];
	cr_assert_eq(actor_do(&world, "one",
	                      (struct command){ACTOR_SEND, {first.at_client, 0x5ec7e7, 8, 4000, 0}, NULL}),
	             CALL_OK);
	cr_assert_gt(nonzero_words(window_outbox(before.domain->guest->machine, before.slot), 65536), 8);
	pair_close(&world, &first);
	cr_assert_eq(nonzero_words(window_outbox(before.domain->guest->machine, before.slot), 65536), 0);

	second = pair_open(&world, "one", "four", "aux");
	after = second.channel->end[SIDE_CLIENT];
	cr_assert_eq(after.slot, before.slot, "the lowest free slot is taken");
	cr_assert_gt(after.generation, before.generation);
	cr_assert_eq(machine_record(after.domain->guest->machine, after.slot)->word >>
	                     RECORD_GENERATION_SHIFT,
	             after.generation);
	cr_assert_eq(actor_do(&world, "four", (struct command){ACTOR_LOOK, {0}, NULL}), 0);
	cr_assert_eq(world_mailbox(&world, "four")->value[0], 0, "the new peer sees bytes of before");
	world_close(&world);
}

/*
 * Two closes a cut channel and accepts another on the same slot, while one still holds
 * its end of the first: that end sees nothing of the second, and cannot act on it.
 */
Test(promise, i8_stale_end_sees_nothing_of_the_successor)
{
	struct world world;
	struct pair stale, fresh;

	world_open(&world, NULL);
	stale = pair_open(&world, "one", "two", "svc");
	world_push_quietly(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {stale.at_server}, NULL}),
	             CALL_OK);
	fresh = pair_open(&world, "three", "two", "svc");
	cr_assert_eq(fresh.channel->end[SIDE_SERVER].slot, stale.channel->end[SIDE_SERVER].slot);
	cr_assert_eq(pair_send(&world, &fresh, false, 0x5ec7e7, 9), CALL_OK);
	cr_assert(inbox_is_empty(stale.channel, SIDE_CLIENT));
	cr_assert_eq(pair_receive(&world, &stale, true, 1), CALL_REVOKED);
	cr_assert_eq(pair_send(&world, &stale, true, 1, 1), CALL_REVOKED);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {stale.at_client}, NULL}),
	             CALL_OK);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {stale.at_client}, NULL}),
	             CALL_NOT_OPEN);
	cr_assert_eq(pair_receive(&world, &fresh, true, 9), 8);
	cr_assert_eq(world_mailbox(&world, "three")->value[0], 9);
	world_close(&world);
}

/* An end whose peer has closed in order keeps what it may still read; only then is that slot used again. */
Test(promise, i8_slot_waits_until_its_last_reader_has_closed)
{
	struct world world;
	struct pair first, second;
	uint32_t slot;

	world_open(&world, NULL);
	first = pair_open(&world, "one", "two", "svc");
	slot = first.channel->end[SIDE_CLIENT].slot;
	cr_assert_eq(pair_send(&world, &first, true, 1, 3), CALL_OK);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {first.at_client}, NULL}),
	             CALL_OK);
	second = pair_open(&world, "one", "two", "svc");
	cr_assert_neq(second.channel->end[SIDE_CLIENT].slot, slot);
	cr_assert_eq(pair_send(&world, &second, true, 100, 3), CALL_OK);
	cr_assert_eq(pair_receive(&world, &first, false, 3), 8);
	cr_assert_eq(world_mailbox(&world, "two")->value[2], 3);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {first.at_server}, NULL}),
	             CALL_OK);
	first = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(first.channel->end[SIDE_CLIENT].slot, slot);
	cr_assert_eq(pair_receive(&world, &first, false, 1), CALL_AGAIN);
	world_close(&world);
}

static void expect_free(struct world *world, const char *name, uint64_t slot)
{
	const struct domain *domain = world_domain(world, name);

	cr_expect_null(domain->slots[slot - domain->first_slot].channel, "%s keeps a channel that is gone",
	               name);
}

/* A slot whose bytes the host does not take back is nobody's any more, and used by nobody. */
Test(promise, i8_a_slot_that_cannot_be_cleaned)
{
	struct world world;
	struct pair first, second;
	uint32_t slot[N_SIDES];

	world_open(&world, NULL);
	first = pair_open(&world, "one", "two", "svc");
	for (unsigned side = 0; side < N_SIDES; side++)
		slot[side] = first.channel->end[side].slot;
	fault_holes(true);
	pair_close(&world, &first);
	fault_holes(false);
	expect_free(&world, "one", slot[SIDE_CLIENT]);
	expect_free(&world, "two", slot[SIDE_SERVER]);
	second = pair_open(&world, "one", "two", "svc");
	for (unsigned side = 0; side < N_SIDES; side++)
		cr_expect_neq(second.channel->end[side].slot, slot[side]);
	world_close(&world);
}

static bool has_no_channel(struct world *world, void *opaque)
{
	(void)opaque;
	return !world->monitor->registry->first;
}

/* A close that the host refuses the mapping for loses the guest, and no slot keeps the channel. */
Test(promise, i3_a_close_without_a_mapping)
{
	struct world world;
	struct pair pair;
	uint32_t slot[N_SIDES];

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	for (unsigned side = 0; side < N_SIDES; side++)
		slot[side] = pair.channel->end[side].slot;
	/* What the server leaves unread stays mapped until the client closes. */
	cr_assert_eq(pair_send(&world, &pair, false, 1, 1), CALL_OK);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {pair.at_server}, NULL}), CALL_OK);
	fault_mappings(true);
	actor_begin(&world, "one", (struct command){ACTOR_CLOSE, {pair.at_client}, NULL});
	world_until(&world, has_no_channel, NULL, "the guest is lost");
	fault_mappings(false);
	expect_free(&world, "one", slot[SIDE_CLIENT]);
	expect_free(&world, "two", slot[SIDE_SERVER]);
	world_close(&world);
}
