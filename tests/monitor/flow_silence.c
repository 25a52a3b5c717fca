/*
 * One-way flows (design: 4): without flowctl the writer must learn nothing of its reader. Here
 * the policy's levels take it away: the writer is at s0, the reader at s1, on a vCPU of its own.
 */
#include <stdio.h>
#include <string.h>

#include "guest/abi/call.h"
#include "guest/abi/record.h"
#include "tests/monitor/kind_support.h"
#include "vmm/window.h"

#define DOMAIN(name, vcpu, context, more)                                                                    \
	"{ name = \"" name "\"; program = \"" TEST_DOMAINS "t_actor.elf\"; vcpu = " vcpu                     \
	"; context = \"system_u:system_r:" context "\"; " more " }"

/* Both may do everything with each other; what is left is what the levels leave. */
#define RULES "(call can_connect (one_t two_t)) (call can_connect (three_t two_t))"

static const char MANIFEST[] =
	"name = \"test\"; vcpus = 2; domains = (" DOMAIN("one", "0", "one_t:s0", "slots = 32;") "," DOMAIN(
		"two", "1", "two_t:s1", "offers = ( \"svc\" );") "," DOMAIN("three", "0", "three_t:s1",
                                                                            "") ");";
/* The writer is the server here. */
static const char MANIFEST_BACK[] =
	"name = \"test\"; vcpus = 2; domains = (" DOMAIN("one", "0", "one_t:s1", "") "," DOMAIN(
		"two", "1", "two_t:s0", "offers = ( \"svc\" );") "," DOMAIN("three", "0", "three_t:s1",
                                                                            "") ");";

#define MOST_SLOTS 32u
#define N_CONNECTS 20u

/* All that a domain can see of what others do: its events, its records, its inbox. */
struct view {
	uint64_t host_events;
	uint64_t kernel_events;
	uint64_t words[MOST_SLOTS];
	bool inbox_is_zero;
};

static bool is_zero(const struct machine *machine, uint32_t slot)
{
	const uint64_t *words = window_inbox(machine, slot);
	size_t bytes = (size_t)((const uint8_t *)window_inbox(machine, 1) -
	                        (const uint8_t *)window_inbox(machine, 0));

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		if (__atomic_load_n(&words[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

/* Asking takes a command, which is one event of the host's. */
static struct view look(struct world *world, const char *name)
{
	const struct domain *domain = world_domain(world, name);
	struct machine *machine = domain->guest->machine;
	struct view view = {.inbox_is_zero = true};

	view.host_events = machine_domain_page(machine, domain->index)->host_events;
	for (uint32_t i = 0; i < domain->n_slots; i++) {
		view.words[i] = machine_record(machine, domain->first_slot + i)->word;
		view.inbox_is_zero &= is_zero(machine, domain->first_slot + i);
	}
	cr_assert_eq(actor_do(world, name, (struct command){ACTOR_EVENTS, {0}, NULL}), CALL_OK);
	view.kernel_events = world_mailbox(world, name)->value[0];
	return view;
}

/* Nothing but the test's own commands has happened to the domain since. */
static void assert_unaware(struct world *world, const char *name, const struct view *before,
                           uint64_t n_commands, const char *what)
{
	struct view now = look(world, name);

	cr_assert(now.inbox_is_zero, "%s: something stands in the writer's inbox", what);
	for (unsigned i = 0; i < MOST_SLOTS; i++)
		cr_assert_eq(now.words[i], before->words[i], "%s: the record of slot %u changed: %llx, %llx",
		             what, i, (unsigned long long)before->words[i], (unsigned long long)now.words[i]);
	cr_assert_eq(now.host_events, before->host_events + n_commands + 1, "%s: the writer was woken", what);
	cr_assert_eq(now.kernel_events, before->kernel_events, "%s: the reader notified the writer", what);
}

static void levels(struct world *world, const char *manifest)
{
	world_open(world, &(struct world_options){.manifest = manifest, .policy = policy_of(RULES)});
}

static uint64_t connect_blind(struct world *world)
{
	cr_assert_eq(connect_result(world, "one", "svc"), CALL_OK);
	return world_mailbox(world, "one")->value[0];
}

static int64_t send(struct world *world, const char *name, uint64_t handle, uint64_t n)
{
	return actor_do(world, name, (struct command){ACTOR_SEND, {handle, 1, n, 8, 0}, NULL});
}

/* The writer connects, and whatever the reader does then is the same to it. */
Test(flow, writer_learns_nothing_of_its_reader)
{
	struct world world;
	uint64_t at_writer, at_reader;
	struct view before;

	levels(&world, MANIFEST);
	at_writer = connect_blind(&world);
	before = look(&world, "one");
	cr_assert(before.inbox_is_zero);
	cr_assert_eq(before.words[0] & 0xffff, RECORD_LIVE | RECORD_OUT | RECORD_NOTIFY);

	cr_assert_eq(send(&world, "one", at_writer, 3), CALL_OK);
	assert_unaware(&world, "one", &before, 1, "sending before an accept");
	before = look(&world, "one");
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL}), CALL_OK);
	at_reader = world_mailbox(&world, "two")->value[0];
	assert_unaware(&world, "one", &before, 0, "accept");

	before = look(&world, "one");
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_RECEIVE, {at_reader, 3, 0}, NULL}), 8);
	cr_assert_eq(world_mailbox(&world, "two")->value[2], 3);
	assert_unaware(&world, "one", &before, 0, "receive");

	before = look(&world, "one");
	actor_begin(&world, "two", (struct command){ACTOR_RECEIVE, {at_reader, 1, NO_TIMEOUT}, NULL});
	actor_until_blocked(&world, "two");
	assert_unaware(&world, "one", &before, 0, "blocking in receive");
	before = look(&world, "one");
	cr_assert_eq(send(&world, "one", at_writer, 1), CALL_OK);
	cr_assert_eq(actor_finish(&world, "two"), 8);
	assert_unaware(&world, "one", &before, 1, "waking from receive");

	before = look(&world, "one");
	cr_assert_eq(send(&world, "two", at_reader, 1), CALL_NOT_OPEN);
	cr_assert_lt(actor_do(&world, "two",
	                      (struct command){ACTOR_SYSTEM_CALL,
	                                       {SYS_NOTIFY, world_domain(&world, "two")->first_slot},
	                                       NULL}),
	             0);
	assert_unaware(&world, "one", &before, 0, "sending and notifying back");

	/* The reader writes all over its outboxes: the writer has nothing of them mapped. */
	before = look(&world, "one");
	actor_begin(&world, "two", (struct command){ACTOR_SCRIBBLE, {7}, NULL});
	world_drift(&world, 3000000);
	actor_end_loop(&world, "two");
	cr_assert_eq(actor_finish(&world, "two"), CALL_OK);
	assert_unaware(&world, "one", &before, 0, "scribbling");

	before = look(&world, "one");
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {at_reader}, NULL}), CALL_OK);
	assert_unaware(&world, "one", &before, 0, "close");
	before = look(&world, "one");
	cr_assert_eq(send(&world, "one", at_writer, 200), CALL_OK);
	assert_unaware(&world, "one", &before, 1, "sending to nobody");
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_INFO, {at_writer}, NULL}), CALL_OK);
	cr_assert_eq((int64_t)world_mailbox(&world, "one")->value[0], CALL_OK);
	cr_assert_eq((int64_t)world_mailbox(&world, "one")->value[1], CALL_NOT_OPEN);
	world_close(&world);
}

static bool has_died(struct world *world, void *opaque)
{
	return world_domain(world, opaque)->life != LIFE_RUNNING;
}

/* A reader that dies, or has died, or has no slot or no place in its queue left, looks like any other. */
static void assert_reader_dies(bool accepted, struct command how)
{
	struct world world;
	uint64_t at_writer;
	struct view before;

	levels(&world, MANIFEST);
	at_writer = connect_blind(&world);
	if (accepted)
		cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL}),
		             CALL_OK);
	before = look(&world, "one");
	actor_begin(&world, "two", how);
	world_until(&world, has_died, (void *)"two", "the reader ends");
	assert_unaware(&world, "one", &before, 0, "death");
	cr_assert_eq(send(&world, "one", at_writer, 70), CALL_OK);
	/* A connect to nobody: but for its number the record is the same. */
	(void)connect_blind(&world);
	before = look(&world, "one");
	cr_assert_eq(before.words[1], before.words[0]);
	cr_assert(before.inbox_is_zero);
	for (int side = 0; side < 2; side++)
		cr_assert_eq(
			actor_do(&world, "one",
		                 (struct command){ACTOR_CLOSE, {side ? at_writer + 1 : at_writer}, NULL}),
			CALL_OK);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	world_close(&world);
}

Test(flow, reader_fails)
{
	assert_reader_dies(true, (struct command){ACTOR_FAULT, {0}, NULL});
}

Test(flow, reader_exits_before_accept)
{
	assert_reader_dies(false, (struct command){ACTOR_EXIT, {0}, NULL});
}

/* The reader has sixteen slots: what the seventeenth connect leads to is nothing, and looks like the others.
 */
Test(flow, reader_without_a_slot)
{
	struct world world;
	struct view view;

	levels(&world, MANIFEST);
	for (unsigned i = 0; i < N_CONNECTS; i++)
		(void)connect_blind(&world);
	view = look(&world, "one");
	for (unsigned i = 1; i < N_CONNECTS; i++)
		cr_assert_eq(view.words[i], view.words[0]);
	cr_assert_eq(world_domain(&world, "two")->n_used, DEFAULT_SLOTS);
	for (uint64_t handle = 0; handle < N_CONNECTS; handle++)
		cr_assert_eq(send(&world, "one", handle, 70), CALL_OK);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL}), CALL_OK);
	/* Seventy were sent: the first it finds is gone, and it goes on with the last. */
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_RECEIVE, {0, 70, 0}, NULL}), CALL_AGAIN);
	cr_assert_eq(world_mailbox(&world, "two")->value[2], 70);
	/* A cut is the policy's word, not the reader's: that the writer is told. */
	change_quietly(&world, to_quarantine("two"), N_CONNECTS);
	for (uint64_t handle = 0; handle < N_CONNECTS; handle++)
		cr_assert_eq(send(&world, "one", handle, 1), CALL_REVOKED);
	for (uint64_t handle = 0; handle < N_CONNECTS; handle++)
		cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {handle}, NULL}), CALL_OK);
	world_close(&world);
}

/* A writer that opens and closes again and again gets its slots back at once, whatever its reader holds on
 * to. */
Test(flow, writer_gets_its_slots_back)
{
	struct world world;
	uint32_t first_slot;

	levels(&world, MANIFEST);
	first_slot = world_domain(&world, "one")->first_slot;
	for (unsigned round = 0; round < 40; round++) {
		uint64_t at_writer = connect_blind(&world);
		struct channel *channel = world.monitor->registry->last;

		cr_assert_eq(channel->end[SIDE_CLIENT].slot, first_slot, "round %u shows what the reader did",
		             round);
		if (round % 4 > 0 && round < 12)
			cr_assert_eq(
				actor_do(&world, "two", (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL}),
				CALL_OK);
		cr_assert_eq(send(&world, "one", at_writer, 3), CALL_OK);
		if (round % 4 == 2 && round < 12)
			cr_assert_eq(actor_do(&world, "two",
			                      (struct command){ACTOR_CLOSE,
			                                       {world_mailbox(&world, "two")->value[0]},
			                                       NULL}),
			             CALL_OK);
		cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {at_writer}, NULL}),
		             CALL_OK);
	}
	world_close(&world);
}

/* The writer is the server: the client's close and death are nothing to it. */
Test(flow, server_that_only_writes)
{
	struct world world;
	uint64_t at_client, at_server;
	struct view before;

	levels(&world, MANIFEST_BACK);
	actor_begin(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"});
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL}), CALL_OK);
	at_server = world_mailbox(&world, "two")->value[0];
	cr_assert_eq(actor_finish(&world, "one"), CALL_OK);
	at_client = world_mailbox(&world, "one")->value[0];
	before = look(&world, "two");
	cr_assert_eq(before.words[0] & 0xffff, RECORD_LIVE | RECORD_SERVER | RECORD_OUT | RECORD_NOTIFY);
	cr_assert_eq(send(&world, "two", at_server, 5), CALL_OK);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_RECEIVE, {at_client, 5, 0}, NULL}), 8);
	cr_assert_eq(send(&world, "one", at_client, 1), CALL_NOT_OPEN);
	assert_unaware(&world, "two", &before, 1, "receive");
	before = look(&world, "two");
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {at_client}, NULL}), CALL_OK);
	assert_unaware(&world, "two", &before, 0, "close");
	cr_assert_eq(send(&world, "two", at_server, 100), CALL_OK);
	before = look(&world, "two");
	actor_begin(&world, "one", (struct command){ACTOR_FAULT, {0}, NULL});
	world_until(&world, has_died, (void *)"one", "the client fails");
	assert_unaware(&world, "two", &before, 0, "death");
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {at_server}, NULL}), CALL_OK);
	cr_assert_eq(world.monitor->registry->n_channels, 0);
	world_close(&world);
}

/* The same level: two ends that may tell each other everything are told everything. */
Test(flow, equals_hear_each_other)
{
	struct world world;
	struct pair pair;
	struct view before, after;

	levels(&world, MANIFEST);
	pair = pair_open(&world, "three", "two", "svc");
	before = look(&world, "three");
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_CLOSE, {pair.at_server}, NULL}), CALL_OK);
	after = look(&world, "three");
	cr_assert_neq(after.words[0], before.words[0]);
	cr_assert_eq(after.host_events, before.host_events + 2);
	world_close(&world);
}
