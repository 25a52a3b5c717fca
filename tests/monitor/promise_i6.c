/*
 * I6, the host is the truth: whatever a domain or a guest kernel writes or asks for,
 * the host's state is as before, nothing is widened, and others are served (H1, H7, H8, H13).
 */
#include <stdlib.h>
#include <string.h>

#include "guest/abi/record.h"
#include "guest/abi/ring.h"
#include "monitor/view.h"
#include "tests/monitor/world_annex.h"
#include "tests/monitor/world_faults.h"
#include "vmm/window.h"

static bool has_scribbled(struct world *world, void *opaque)
{
	uint64_t *rounds = opaque;

	return MAILBOX_LOAD(world_mailbox(world, "two")->value[0]) >= *rounds;
}

static void assert_served(struct world *world, const struct pair *pair, uint64_t counter)
{
	cr_assert_eq(pair_send(world, pair, true, counter, 3), CALL_OK);
	cr_assert_eq(pair_receive(world, pair, false, 3), 8);
	cr_assert_eq(world_mailbox(world, pair->server)->value[2], counter + 2);
}

/* Every number that a guest has counted itself is within what a ring can hold. */
static void assert_cuts_are_sane(const json_t *report)
{
	for (size_t i = 0; i < json_array_size(json_object_get(report, "cuts")); i++) {
		const json_t *cut = json_array_get(json_object_get(report, "cuts"), i);
		json_int_t messages = report_number(cut, "discarded_messages");
		json_int_t bytes = report_number(cut, "discarded_bytes");

		cr_assert(messages >= 0 && messages <= RING_CELLS, "%lld messages", (long long)messages);
		cr_assert(bytes >= 0 && bytes <= (json_int_t)RING_CELLS * MAX_BULK_BYTES, "%lld bytes",
		          (long long)bytes);
	}
}

static void assert_view_is_sane(struct world *world)
{
	json_t *channels = view_channels(world->monitor);

	for (size_t i = 0; i < json_array_size(channels); i++)
		for (size_t f = 0; f < 2; f++) {
			const json_t *flow =
				json_array_get(json_object_get(json_array_get(channels, i), "flows"), f);

			cr_assert_geq(report_number(flow, "messages"), 0);
			cr_assert_geq(report_number(flow, "bytes"), 0);
			cr_assert_geq(report_number(flow, "unread_bytes"), 0);
		}
	json_decref(channels);
}

/*
 * H1: a peer writes random numbers and the edges of all ranges over everything that it can
 * write, without pause, while the other end sends and receives, and is cut. The host's state
 * is that of the requests alone; a third channel does not notice.
 */
Test(promise, i6_h1_scribbled_outboxes)
{
	struct world world;
	struct pair bad, good;
	uint64_t rounds = 0;
	char *before;

	world_open(&world, &(struct world_options){.busy = true});
	good = pair_open(&world, "three", "four", "aux");
	for (int i = 0; i < 8; i++) {
		json_t *report;

		bad = pair_open(&world, "one", "two", "svc");
		before = world_snapshot(&world, SNAPSHOT_BUSY);
		actor_begin(&world, "two",
		            (struct command){ACTOR_SCRIBBLE, {0x9e3779b9u + (uint64_t)i}, NULL});
		for (rounds = 1; rounds < 40; rounds += 4) {
			int64_t result;

			world_until(&world, has_scribbled, &rounds, "it scribbles");
			result = pair_send(&world, &bad, true, rounds, 3);
			cr_assert(result == CALL_OK || result == CALL_AGAIN || result == CALL_BROKEN,
			          "send: %lld", (long long)result);
			result = pair_receive(&world, &bad, true, 3);
			cr_assert(result >= 0 || result == CALL_AGAIN || result == CALL_BROKEN,
			          "receive: %lld", (long long)result);
			assert_view_is_sane(&world);
			assert_served(&world, &good, 1000 * (uint64_t)(i + 1) + rounds);
		}
		snapshot_assert_equal(before, world_snapshot(&world, SNAPSHOT_BUSY), "scribbling");
		report = world_push(&world, POLICY_NO_CONNECT,
		                    i % 3 == 0   ? STOP_ALL
		                    : i % 3 == 1 ? STOP_AFFECTED
		                                 : STOP_NONE);
		cr_assert_eq(report_number(report, "flows.cut"), 2);
		assert_cuts_are_sane(report);
		json_decref(report);
		cr_assert(inbox_is_empty(bad.channel, SIDE_CLIENT));
		cr_assert_eq(pair_receive(&world, &bad, true, 1), CALL_REVOKED);
		actor_end_loop(&world, "two");
		cr_assert_eq(actor_finish(&world, "two"), CALL_OK);
		pair_close(&world, &bad);
		world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	}
	world_close(&world);
}

/* H8: ids that are no ids, at each entry that a domain has. */
Test(promise, i6_h8_wild_ids)
{
	static const uint64_t ids[] = {UINT64_MAX, 1ull << 31, UINT32_MAX, MAX_SLOTS,
	                               1ull << 63, 1ull << 32, 4096};
	static const uint64_t calls[] = {SYS_CLOSE, SYS_NOTIFY, SYS_INFO, SYS_CONNECT, SYS_LOG};
	struct world world;
	struct pair theirs;
	char *before;

	world_open(&world, NULL);
	theirs = pair_open(&world, "three", "two", "svc");
	before = world_snapshot(&world, SNAPSHOT_BUSY);
	for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
		for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
			int64_t result = actor_do(
				&world, "one",
				(struct command){ACTOR_SYSTEM_CALL, {calls[c], ids[i], ids[i]}, NULL});

			cr_assert_lt(result, 0, "call %llx with %llx", (unsigned long long)calls[c],
			             (unsigned long long)ids[i]);
		}
	/* Slots that are somebody else's: of the same guest, live. */
	for (unsigned side = 0; side < N_SIDES; side++) {
		uint64_t slot = theirs.channel->end[side].slot;

		cr_assert_lt(
			actor_do(&world, "one", (struct command){ACTOR_SYSTEM_CALL, {SYS_CLOSE, slot}, NULL}),
			0);
		cr_assert_lt(
			actor_do(&world, "one", (struct command){ACTOR_SYSTEM_CALL, {SYS_INFO, slot}, NULL}),
			0);
		cr_assert_lt(actor_do(&world, "one",
		                      (struct command){ACTOR_SYSTEM_CALL, {SYS_NOTIFY, slot}, NULL}),
		             0);
	}
	snapshot_assert_equal(before, world_snapshot(&world, SNAPSHOT_BUSY), "wild ids");
	assert_served(&world, &theirs, 1);
	world_close(&world);
}

static bool has_refused(struct world *world, void *opaque)
{
	uint64_t *least = opaque;
	struct mailbox *mail = world_mailbox(world, "one");

	return MAILBOX_LOAD(mail->value[1]) + MAILBOX_LOAD(mail->value[3]) >= *least;
}

/* H7, H12: floods of connects (denied, and to nobody) and of log lines: the host's memory stays, others are
 * served. */
Test(promise, i6_h7_floods)
{
	const struct world_options options = {.policy = POLICY_NO_CONNECT, .busy = true, .quiet = true};
	struct world world;
	struct pair good;
	uint64_t resident, refused = 300;

	world_open(&world, &options);
	good = pair_open(&world, "three", "four", "aux");
	actor_begin(&world, "one", (struct command){ACTOR_STORM, {1000000, NO_TIMEOUT}, "svc"});
	actor_begin(&world, "two", (struct command){ACTOR_LOG, {3000}, "a line of a flood"});
	world_until(&world, has_refused, &refused, "connects are refused");
	assert_served(&world, &good, 1);
	resident = resident_bytes();
	for (uint64_t n = 1; n <= 10; n++) {
		refused += 300;
		world_until(&world, has_refused, &refused, "connects are refused");
		assert_served(&world, &good, 1 + 10 * n);
	}
	actor_finish(&world, "two");
#ifdef __SANITIZE_ADDRESS__ /* it keeps what was freed */
	(void)resident;
#else
	cr_assert_lt(resident_bytes(), resident + (8u << 20),
	             "the host's memory grows with a guest's requests");
#endif
	cr_assert_eq(world.monitor->registry->n_channels, 1);
	cr_assert_geq(world.monitor->registry->counters.denials, 3000);
	world_close(&world);
}

/* A full backlog and full slots are answers, not growth (H7). */
Test(promise, i6_h7_nobody_accepts)
{
	struct world world;
	struct domain *one, *two;
	int64_t result = CALL_TIMED_OUT;

	world_open(&world, NULL);
	one = world_domain(&world, "one");
	two = world_domain(&world, "two");
	/* Each connect that times out gives its slot back. */
	for (int i = 0; i < 100 && result == CALL_TIMED_OUT; i++)
		result = actor_do(&world, "one", (struct command){ACTOR_CONNECT, {2000000}, "svc"});
	cr_assert_eq(result, CALL_TIMED_OUT, "%lld", (long long)result);
	cr_assert_leq(one->n_used, 1);
	cr_assert_leq(two->n_used, 1);
	cr_assert_leq(world.monitor->registry->n_channels, 1);
	world_close(&world);
}

static bool is_lost(struct world *world, void *opaque)
{
	const struct guest *guest = opaque;
	struct registry *registry = registry_lock(world->monitor);
	bool lost = guest->lost && guest->ended;

	registry_unlock(registry);
	return lost;
}

/* H13: a kernel that writes into its read-only windows without end is ended; its peer in the other guest is
 * told. */
Test(promise, i6_h13_storm_of_window_writes)
{
	struct world world;
	struct guest *storm;
	struct channel *across;
	struct endpoint near;
	struct pair good;
	uint64_t word;

	world_open(&world, NULL);
	good = pair_open(&world, "three", "two", "svc");
	storm = annex_open(&world, TEST_KERNELS "t_storm.elf");
	across = annex_channel(&world, "one", "six");
	near = across->end[SIDE_CLIENT];
	world_until(&world, is_lost, storm, "the storm is ended");
	cr_assert_eq(machine_state(storm->machine), MACHINE_CRASHED);
	cr_assert_gt(machine_counters(storm->machine).window_writes, 0);
	word = machine_record(near.domain->guest->machine, near.slot)->word;
	cr_assert_neq(word & RECORD_PEER_DIED, 0);
	cr_assert_eq(word & (RECORD_IN | RECORD_OUT), 0);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_LOOK, {0}, NULL}), CALL_OK);
	cr_assert_eq(world_mailbox(&world, "one")->value[0], 0);
	assert_served(&world, &good, 1);
	world_push_quietly(&world, POLICY_NOTHING, STOP_ALL);
	cr_assert_eq(pair_receive(&world, &good, false, 1), CALL_REVOKED);
	world_close(&world);
}

/*
 * H13: a kernel that fills its outboxes and its RAM with nonsense and asks for everything, with a
 * channel across: what the host says of both guests is what the host did.
 */
Test(promise, i6_h13_kernel_that_scribbles_over_everything)
{
	struct world world;
	struct guest *bad;
	struct pair good;
	json_t *report;
	char *line;

	world_open(&world, NULL);
	good = pair_open(&world, "three", "two", "svc");
	bad = annex_open(&world, TEST_KERNELS "scribble.elf");
	annex_channel(&world, "one", "six");
	world_until(&world, is_lost, bad, "it is lost");
	cr_assert_eq(world.monitor->registry->n_channels, 2);
	assert_served(&world, &good, 1);
	line = audit_find(&world, "PORTCULLIS_CRASH");
	cr_assert(line && strstr(line, "guest=\"other\""), "%s", line ? line : "nothing");
	free(line);
	report = world_push(&world, POLICY_NOTHING, STOP_ALL);
	assert_cuts_are_sane(report);
	json_decref(report);
	world_close(&world);
}

static bool has_failed(struct world *world, void *opaque)
{
	struct registry *registry = registry_lock(world->monitor);
	bool failed = ((struct domain *)opaque)->life == LIFE_FAILED;

	registry_unlock(registry);
	return failed;
}

/* A domain that writes where it may only read dies of it; nothing has changed. */
Test(promise, i6_domain_writes_into_read_only_memory)
{
	static const uint64_t addresses[] = {VA_INBOX, VA_RECORD, VA_BOOT, VA_KERNEL_RECORD, VA_KERNEL};
	static const char *const names[] = {"one", "two", "three", "four"};
	struct world world;

	world_open(&world, NULL);
	for (size_t i = 0; i < 4; i++) {
		struct domain *domain = world_domain(&world, names[i]);
		uint64_t word = machine_record(domain->guest->machine, domain->first_slot)->word;
		uint64_t offset = i == 0 ? domain->first_slot * 0x20000ull : 0;

		actor_begin(&world, names[i],
		            (struct command){ACTOR_WRITE, {addresses[i] + offset, ~0ull}, NULL});
		world_until(&world, has_failed, domain, "it dies of it");
		cr_assert_eq(machine_record(domain->guest->machine, domain->first_slot)->word, word);
	}
	cr_assert_not(world_guest(&world)->lost);
	world_close(&world);
}
