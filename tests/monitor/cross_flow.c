/*
 * Channels between two guests are the same as within one: calls, names, sizes, sleeping, silence.
 */
#include <string.h>
#include <sys/resource.h>

#include "guest/abi/record.h"
#include "guest/abi/ring.h"
#include "monitor/guest.h"
#include "monitor/loop.h"
#include "tests/monitor/cross_support.h"
#include "tests/support/rounds.h"
#include "vmm/stop.h"
#include "vmm/window.h"

#define N_CALLS SAMPLED(2000u)
#define DEADLINE_NS 60000000000u

/* Both ways, and both ends connect: a client here, and a client there. */
Test(cross, messages_both_ways)
{
	struct world world;
	struct pair pairs[2];

	cross_open(&world);
	pairs[0] = pair_open(&world, "one", "six", "sub");
	pairs[1] = pair_open(&world, "five", "two", "svc");
	for (int p = 0; p < 2; p++) {
		for (int server = 0; server < 2; server++) {
			cr_assert_eq(pair_send(&world, &pairs[p], !server, 1, 50), CALL_OK);
			cr_assert_eq(pair_receive(&world, &pairs[p], server, 50), 8);
		}
		cr_assert_eq(world_mailbox(&world, pairs[p].client)->value[3], 0);
	}
	pair_close(&world, &pairs[0]);
	pair_close(&world, &pairs[1]);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	cross_until_settled(&world);
	cr_assert_null(cross_guest(&world, "test")->bells);
	cr_assert_null(cross_guest(&world, "other")->bells);
	world_close(&world);
}

/*
 * I10, P12: sleeping ends, on vCPUs that both have other domains, while guests are stopped at any moment. A
 * lost wake-up is a call that does not end. No notification is an exit.
 */
Test(cross, i10_p12_calls_between_sleepers_across_stops)
{
	struct world world;
	struct machine *machine[2];
	struct pair pair;
	char why[WHY_BYTES];

	cross_open(&world);
	machine[0] = cross_guest(&world, "test")->machine;
	machine[1] = cross_guest(&world, "other")->machine;
	pair = pair_open(&world, "one", "six", "sub");
	actor_begin(&world, "six", (struct command){ACTOR_PONG, {pair.at_server, N_CALLS}, NULL});
	actor_begin(&world, "one", (struct command){ACTOR_PING, {pair.at_client, N_CALLS}, NULL});
	for (unsigned i = 0; !actor_is_done(&world, "one"); i++) {
		struct machine **some = &machine[i % 3 == 0];
		size_t n = i % 3 == 2 ? 2 : 1;

		cr_assert_eq(stop_machines(some, n, loop_now() + DEADLINE_NS, NULL, NULL, why), 0, "%s", why);
		world_drift(&world, 1 + i % 5 * 50000);
		cr_assert_eq(resume_machines(some, n, loop_now() + DEADLINE_NS, why), 0, "%s", why);
		world_drift(&world, 1 + i % 7 * 100000);
	}
	cr_assert_eq(actor_finish(&world, "one"), CALL_OK);
	cr_assert_eq(actor_finish(&world, "six"), CALL_OK);
	cr_assert_eq(world_mailbox(&world, "one")->value[0], N_CALLS);
	cr_assert_eq(machine_counters(machine[0]).stray_rings + machine_counters(machine[1]).stray_rings, 0);
	world_close(&world);
}

/* The same where the host has no descriptor for a doorbell: each ring is an exit, and none is lost. */
Test(cross, i10_calls_without_a_doorbell)
{
	struct rlimit few, before;
	struct world world;
	struct pair pair;
	uint64_t exits;

	cross_open(&world);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){.rlim_cur = 3, .rlim_max = before.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	pair = pair_open(&world, "one", "six", "sub");
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	exits = machine_counters(cross_guest(&world, "test")->machine).exits;
	actor_begin(&world, "six", (struct command){ACTOR_PONG, {pair.at_server, 200}, NULL});
	actor_begin(&world, "one", (struct command){ACTOR_PING, {pair.at_client, 200}, NULL});
	cr_assert_eq(actor_finish(&world, "one"), CALL_OK);
	cr_assert_eq(actor_finish(&world, "six"), CALL_OK);
	cr_assert_gt(machine_counters(cross_guest(&world, "test")->machine).exits, exits);
	cr_assert_eq(machine_counters(cross_guest(&world, "test")->machine).stray_rings, 0);
	pair_close(&world, &pair);
	world_close(&world);
}

/* ---- names ---- */

/* "svc" in three guests: the own guest's first, then by the names of guests; a path means one. */
Test(cross, names_of_services)
{
	static const struct cross_domain domains[] = {
		{"test", "one", 0, "one_t:s0", NULL, NULL},  {"zeta", "zed", 0, "two_t:s0", "svc", NULL},
		{"alpha", "ay", 0, "two_t:s0", "svc", NULL}, {"mu", "em", 0, "one_t:s0", NULL, NULL},
		{"mu", "other", 0, "two_t:s0", "svc", NULL},
	};
	struct world world;
	struct pair pair;

	world_open(&world, &(struct world_options){.manifest = CROSS_MANIFEST(domains)});
	pair_open(&world, "one", "ay", "svc");
	pair_open(&world, "em", "other", "svc");
	pair = pair_open(&world, "one", "zed", "zeta/svc");
	cr_assert_eq(pair_send(&world, &pair, true, 1, 1), CALL_OK);
	pair_open(&world, "em", "ay", "alpha/svc");
	pair_open(&world, "em", "other", "mu/svc");
	cr_assert_eq(connect_result(&world, "one", "beta/svc"), CALL_NO_SERVICE);
	cr_assert_eq(connect_result(&world, "one", "zeta/aux"), CALL_NO_SERVICE);
	cr_assert_eq(connect_result(&world, "one", "zeta/"), CALL_BAD_ARGUMENT);
	cr_assert_eq(connect_result(&world, "one", "a/b/c"), CALL_BAD_ARGUMENT);
	world_close(&world);
}

/* F6 over all guests: a member rule picks by level, wherever the instance is; I5: what a guest brings cuts
 * nothing. */
Test(cross, f6_instances_in_two_guests)
{
	static const struct cross_domain domains[] = {
		{"test", "one", 0, "one_t:s0", NULL, NULL},
		{"test", "three", 0, "one_t:s1", NULL, NULL},
		{"test", "two", 0, "two_t:s0", "svc", NULL},
		{"other", "four", 0, "two_t:s1", "svc", NULL},
	};
	const char *const rules = "(call can_connect (one_t two_t)) (typemember one_t two_t channel two_t)";
	struct world world;
	struct pair low, high;

	world_open(&world,
	           &(struct world_options){.manifest = CROSS_MANIFEST(domains), .policy = policy_of(rules)});
	low = pair_open(&world, "one", "two", "svc");
	high = pair_open(&world, "three", "four", "svc");
	assert_flowing(&world, &low);
	assert_flowing(&world, &high);
	json_decref(push_planned(&world, policy_of(rules), STOP_ALL, 0));
	assert_flowing(&world, &high);
	world_close(&world);
}

/* ---- bulk areas of different sizes ---- */

#define SMALL_BYTES 4096u
#define N_LONG 40u

static int64_t send_long(struct world *world, const char *name, uint64_t handle, uint64_t bytes)
{
	return actor_do(world, name, (struct command){ACTOR_SEND, {handle, 1, 1, bytes, 0}, NULL});
}

/* The smaller area holds for both ends: what fits arrives, what does not is refused at the sender, both ways.
 */
Test(cross, bulk_areas_of_different_sizes)
{
	static const struct cross_domain domains[] = {
		{"test", "one", 0, "one_t:s0", NULL, NULL},
		{"other", "two", 0, "two_t:s0", "svc", "bulk_bytes = 4096;"},
	};
	struct world world;
	struct pair pair;

	world_open(&world,
	           &(struct world_options){.manifest = CROSS_MANIFEST(domains), .policy = POLICY_OPEN});
	pair = pair_open(&world, "one", "two", "svc");
	for (unsigned i = 0; i < N_LONG; i++)
		for (int server = 0; server < 2; server++) {
			const char *from = server ? "two" : "one";
			uint64_t handle = server ? pair.at_server : pair.at_client;

			cr_assert_eq(send_long(&world, from, handle, SMALL_BYTES + 1), CALL_TOO_LONG);
			cr_assert_eq(send_long(&world, from, handle, SMALL_BYTES - i * 64), CALL_OK);
			cr_assert_eq(pair_receive(&world, &pair, server, 1), SMALL_BYTES - i * 64);
		}
	world_close(&world);
}

/* Of the greater slot no more can be seen than a smaller one holds, and behind the smaller one nothing. */
Test(cross, i6_nothing_beyond_the_smaller_slot_is_seen)
{
	static const struct cross_domain domains[] = {
		{"test", "one", 0, "one_t:s0", NULL, NULL},
		{"other", "two", 0, "two_t:s0", "svc", "bulk_bytes = 4096;"},
	};
	struct world world;
	struct pair pair;
	const struct endpoint *client, *server;
	uint8_t *outbox;
	const uint8_t *inbox;

	world_open(&world,
	           &(struct world_options){.manifest = CROSS_MANIFEST(domains), .policy = POLICY_OPEN});
	pair = pair_open(&world, "one", "two", "svc");
	client = &pair.channel->end[SIDE_CLIENT];
	server = &pair.channel->end[SIDE_SERVER];
	/* The greater writes everywhere: what the smaller sees ends with its own slot. */
	outbox = window_outbox(client->domain->guest->machine, client->slot);
	memset(outbox, 0x5a, SLOT_BULK_OFFSET + DEFAULT_BULK_BYTES);
	inbox = window_inbox(server->domain->guest->machine, server->slot);
	cr_assert_eq(inbox[SLOT_BULK_OFFSET + SMALL_BYTES - 1], 0x5a);
	inbox = window_inbox(server->domain->guest->machine, server->slot + 1);
	cr_assert_eq(inbox[0], 0);
	/* The smaller fills its neighbour: the greater does not see it behind the slot that it is shown. */
	outbox = window_outbox(server->domain->guest->machine, server->slot + 1);
	memset(outbox, 0xa5, SLOT_BULK_OFFSET + SMALL_BYTES);
	inbox = window_inbox(client->domain->guest->machine, client->slot);
	for (size_t i = 16384; i < SLOT_BULK_OFFSET + DEFAULT_BULK_BYTES; i++)
		cr_assert_eq(inbox[i], 0, "byte %zu", i);
	world_close(&world);
}

/* ---- silence ---- */

/*
 * A diode: the writer, in another guest, is told nothing, and its doorbell does not change whatever the
 * reader does, since a ring without one is slower. The reader has none to the writer.
 */
Test(cross, diode_without_a_way_back)
{
	static const struct cross_domain domains[] = {
		{"test", "one", 0, "one_t:s0", NULL, NULL},
		{"other", "two", 0, "two_t:s1", "svc", NULL},
	};
	struct world world;
	uint64_t handle, at_reader, exits, word, events;
	struct machine *writer;

	world_open(&world, &(struct world_options){.manifest = CROSS_MANIFEST(domains),
	                                           .policy = policy_of("(call can_connect (one_t two_t))")});
	writer = cross_guest(&world, "test")->machine;
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_OK);
	handle = world_mailbox(&world, "one")->value[0];
	word = machine_record(writer, world_domain(&world, "one")->first_slot)->word;
	events = cross_events(&world, "one");
	exits = machine_counters(writer).exits;
	cr_assert_eq(pair_send(&world, &(struct pair){.client = "one", .at_client = handle}, true, 1, 3),
	             CALL_OK);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL}), CALL_OK);
	at_reader = world_mailbox(&world, "two")->value[0];
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_RECEIVE, {at_reader, 3, 0}, NULL}), 8);
	/* Asleep, the reader is woken by the writer's doorbell. */
	actor_begin(&world, "two", (struct command){ACTOR_RECEIVE, {at_reader, 1, NO_TIMEOUT}, NULL});
	actor_until_blocked(&world, "two");
	cr_assert_eq(pair_send(&world, &(struct pair){.client = "one", .at_client = handle}, true, 4, 1),
	             CALL_OK);
	cr_assert_eq(actor_finish(&world, "two"), 8);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {at_reader}, NULL}), CALL_OK);
	cr_assert_eq(pair_send(&world, &(struct pair){.client = "one", .at_client = handle}, true, 5, 100),
	             CALL_OK);
	/* The reader's guest is gone altogether. */
	guest_destroy(cross_guest(&world, "other"));
	cr_assert_eq(pair_send(&world, &(struct pair){.client = "one", .at_client = handle}, true, 105, 100),
	             CALL_OK);
	cr_assert_eq(machine_counters(writer).exits, exits, "a ring of the writer's was an exit");
	cr_assert_eq(machine_record(writer, world_domain(&world, "one")->first_slot)->word, word);
	cr_assert_eq(cross_events(&world, "one"), events, "the reader's guest rang");
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {handle}, NULL}), CALL_OK);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	world_close(&world);
}
