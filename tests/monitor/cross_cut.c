/*
 * Cuts of channels between two guests, in every way to stop: nothing more passes, both ends know, what stays
 * is not touched, and the doorbell goes with the last flow that needs it.
 */
#include <string.h>

#include "guest/abi/record.h"
#include "guest/abi/ring.h"
#include "tests/monitor/cross_support.h"
#include "tests/monitor/world_annex.h"
#include "vmm/machine_state.h"
#include "vmm/stop.h"
#include "vmm/window.h"

#define N_MODES 3
#define N_RINGS 10000u

static const enum stop_mode modes[N_MODES] = {STOP_ALL, STOP_AFFECTED, STOP_NONE};

static bool runs(struct world *world, void *opaque)
{
	return MAILBOX_LOAD(world_mailbox(world, opaque)->value[1]) > 0;
}

static bool has_looked_on(struct world *world, void *opaque)
{
	const uint64_t *least = opaque;

	return MAILBOX_LOAD(world_mailbox(world, "six")->value[0]) > *least;
}

/*
 * R3, I1: one writes into its outbox without end, six in the other guest reads it without end. When the push
 * has returned no look sees anything any more; a look that was under way may be counted after.
 */
Test(cross, r3_spinning_reader_sees_nothing_after_the_push)
{
	struct world world;
	struct pair pair;

	cross_open(&world);
	for (int i = 0; i < N_MODES; i++) {
		struct mailbox *six = world_mailbox(&world, "six");
		uint64_t looks, enough;

		pair = pair_open(&world, "one", "six", "sub");
		actor_begin(&world, "one", (struct command){ACTOR_COUNT, {pair.at_client}, NULL});
		actor_begin(&world, "six", (struct command){ACTOR_WATCH, {pair.at_server}, NULL});
		world_until(&world, runs, "six", "six sees one's words");
		world_push_quietly(&world, POLICY_NOTHING, modes[i]);
		looks = MAILBOX_LOAD(six->value[0]);
		cr_assert(inbox_is_empty(pair.channel, SIDE_SERVER));
		enough = looks + 1000;
		world_until(&world, has_looked_on, &enough, "six looks a thousand times more");
		cr_assert_leq(MAILBOX_LOAD(six->value[2]), looks + 1, "a value came after the push");
		actor_end_loop(&world, "one");
		actor_end_loop(&world, "six");
		cr_assert_eq(actor_finish(&world, "one"), CALL_OK);
		cr_assert_eq(actor_finish(&world, "six"), CALL_OK);
		assert_revoked(&world, &pair);
		pair_close(&world, &pair);
		world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	}
	world_close(&world);
}

/* R5, R2: whoever waits in either guest is told; what was queued is gone and counted; the flow back too. */
Test(cross, r5_blocked_ends_in_both_guests_are_told)
{
	struct world world;

	cross_open(&world);
	for (int i = 0; i < N_MODES; i++) {
		struct pair full = pair_open(&world, "one", "six", "sub");
		struct pair idle = pair_open(&world, "three", "six", "sub");
		struct pair kept = pair_open(&world, "five", "two", "svc");
		json_t *report;

		cr_assert_eq(pair_send(&world, &full, true, 1, RING_CELLS), CALL_OK);
		actor_begin(&world, "one",
		            (struct command){ACTOR_SEND, {full.at_client, 99, 1, 8, NO_TIMEOUT}, NULL});
		actor_begin(&world, "six",
		            (struct command){ACTOR_RECEIVE, {idle.at_server, 1, NO_TIMEOUT}, NULL});
		actor_until_blocked(&world, "one");
		actor_until_blocked(&world, "six");
		report = world_push(&world, policy_of("(call can_connect (three_t two_t))"), modes[i]);
		cr_assert_eq(report_number(report, "flows.cut"), 4);
		cr_assert_eq(report_number(report, "flows.kept"), 2);
		cr_assert_eq(report_number(report, "cuts.0.discarded_messages") +
		                     report_number(report, "cuts.1.discarded_messages"),
		             RING_CELLS);
		json_decref(report);
		cr_assert_eq(actor_finish(&world, "one"), CALL_REVOKED);
		cr_assert_eq(actor_finish(&world, "six"), CALL_REVOKED);
		assert_flowing(&world, &kept);
		pair_close(&world, &full);
		pair_close(&world, &idle);
		pair_close(&world, &kept);
		world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	}
	world_close(&world);
}

/* Every other kind of change that cuts, across guests. */
Test(cross, kinds_of_change)
{
	struct world world;
	struct pair pair;

	cross_open(&world);
	pair = pair_open(&world, "one", "six", "sub");
	change_quietly(&world, to_quarantine("one"), 2);
	assert_revoked(&world, &pair);
	pair_close(&world, &pair);
	change_quietly(&world, to_release("one"), 0);
	pair = pair_open(&world, "one", "six", "sub");
	change_quietly(&world, to_relabel("one", "system_u:system_r:two_t:s0"), 2);
	pair_close(&world, &pair);
	change_quietly(&world, to_relabel("one", "system_u:system_r:one_t:s0"), 0);
	pair = pair_open(&world, "one", "six", "sub");
	change_quietly(&world, to_cut(pair.channel->number), 2);
	assert_revoked(&world, &pair);
	world_close(&world);
}

/* --stop=affected asks nobody who holds no end of a cut flow. */
Test(cross, an_unrelated_guest_gets_no_stop_request)
{
	static const struct cross_domain domains[] = {
		{"test", "one", 0, "one_t:s0", NULL, NULL},
		{"other", "four", 0, "four_t:s0", "aux", NULL},
		{"bystander", "three", 0, "three_t:s0", NULL, NULL},
		{"bystander", "two", 0, "two_t:s0", "svc", NULL},
	};
	const struct machine *test, *other, *bystander;
	struct world world;
	struct pair pair, kept;
	uint64_t requests;
	json_t *report;

	world_open(&world, &(struct world_options){.manifest = CROSS_MANIFEST(domains)});
	test = cross_guest(&world, "test")->machine;
	other = cross_guest(&world, "other")->machine;
	bystander = cross_guest(&world, "bystander")->machine;
	pair = pair_open(&world, "one", "four", "aux");
	kept = pair_open(&world, "three", "two", "svc");
	report = world_push(&world, policy_of("(call can_connect (three_t two_t))"), STOP_AFFECTED);
	cr_assert_eq(report_number(report, "flows.cut"), 2);
	cr_assert_eq(report_number(report, "vcpus.stopped"), 2);
	json_decref(report);
	cr_assert_eq(machine_stop_requests(test), 1);
	cr_assert_eq(machine_stop_requests(other), 1);
	cr_assert_eq(machine_stop_requests(bystander), 0);
	assert_revoked(&world, &pair);
	assert_flowing(&world, &kept);
	/* The control: the same with all. */
	pair_close(&world, &pair);
	world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	pair = pair_open(&world, "one", "four", "aux");
	requests = machine_stop_requests(bystander);
	world_push_quietly(&world, policy_of("(call can_connect (three_t two_t))"), STOP_ALL);
	cr_assert_eq(machine_stop_requests(bystander), requests + 1);
	world_close(&world);
}

/* ---- doorbells ---- */

/* tests/hostile/mailbox.h, whose name another mailbox has here. */
struct kernel_mail {
	uint64_t counter, events, command, value;
};
#define KERNEL_MAIL_OFFSET 4064

/* The kernel of the annex, tests/hostile/kernels/bell.c: it rings whatever its records say. */
struct ringer {
	struct world world;
	struct guest *guest;
	struct kernel_mail *mail;
};

static bool has_rung(struct world *world, void *opaque)
{
	const struct ringer *ringer = opaque;

	(void)world;
	return MAILBOX_LOAD(ringer->mail->counter) == ringer->mail->command;
}

static void ring(struct ringer *ringer, uint64_t n)
{
	ringer->mail->value = n << 32 | world_guest(&ringer->world)->number;
	MAILBOX_STORE(ringer->mail->command, ringer->mail->command + 1);
	machine_wake(ringer->guest->machine, 0);
	world_until(&ringer->world, has_rung, ringer, "the kernel has rung");
}

static void ringer_open(struct ringer *ringer)
{
	const struct machine *machine;

	world_open(&ringer->world, NULL);
	ringer->guest = annex_open(&ringer->world, TEST_KERNELS "bell.elf");
	machine = ringer->guest->machine;
	ringer->mail = (void *)(machine->ram + machine->layout.cpus.gpa + KERNEL_MAIL_OFFSET);
}

struct heard {
	const char *name;
	uint64_t least;
};

static bool is_heard(struct world *world, void *opaque)
{
	const struct heard *heard = opaque;

	return cross_events(world, heard->name) >= heard->least;
}

/* The next ring is heard by the domain, and it is the first since. */
static void assert_heard(struct ringer *ringer, const char *name, uint64_t before)
{
	struct heard heard = {name, before + 1};

	ring(ringer, 1);
	world_until(&ringer->world, is_heard, &heard, "the ring is heard");
	cr_assert_eq(cross_events(&ringer->world, name), before + 1, "%s heard a ring that was not for it",
	             name);
}

static uint64_t strays(const struct ringer *ringer)
{
	return machine_counters(ringer->guest->machine).stray_rings;
}

/* I10: after the cut 10,000 rings raise no interrupt, and the guest that rings pays for them. */
static void ten_thousand_in_vain(struct ringer *ringer, const char *name)
{
	uint64_t before = cross_events(&ringer->world, name), n = strays(ringer);

	ring(ringer, N_RINGS);
	cr_assert_eq(strays(ringer), n + N_RINGS);
	cr_assert_eq(cross_events(&ringer->world, name), before);
	/* What comes next is the next that is allowed. */
	annex_channel(&ringer->world, name, "six");
	assert_heard(ringer, name, before);
}

Test(cross, i10_after_a_cut_ten_thousand_rings_raise_nothing)
{
	struct ringer ringer;
	struct channel *first, *second;
	struct pair near;

	ringer_open(&ringer);
	ring(&ringer, 5);
	cr_assert_eq(strays(&ringer), 5, "no channel yet");
	near = pair_open(&ringer.world, "three", "two", "svc");
	first = annex_channel(&ringer.world, "one", "six");
	second = annex_channel(&ringer.world, "three", "six");
	assert_heard(&ringer, "one", 0);
	/* It stays bound for the second, and is not heard by whose channel was cut. */
	change_quietly(&ringer.world, to_cut(first->number), 2);
	assert_heard(&ringer, "three", cross_events(&ringer.world, "three"));
	cr_assert_eq(cross_events(&ringer.world, "one"), 1);
	cr_assert_eq(strays(&ringer), 5);
	change_quietly(&ringer.world, to_cut(second->number), 2);
	ten_thousand_in_vain(&ringer, "three");
	assert_flowing(&ringer.world, &near);
	world_close(&ringer.world);
}

static bool domain_is_dead(struct world *world, void *opaque)
{
	const struct domain *domain = opaque;
	struct registry *registry = registry_lock(world->monitor);
	bool dead = domain->life != LIFE_RUNNING;

	registry_unlock(registry);
	return dead;
}

/* The same when an end closes it, and when an end dies. */
Test(cross, i10_after_a_close_or_a_death_too)
{
	struct ringer ringer;
	struct domain *one;

	ringer_open(&ringer);
	annex_channel(&ringer.world, "three", "six");
	cr_assert_eq(actor_do(&ringer.world, "three",
	                      (struct command){ACTOR_SYSTEM_CALL,
	                                       {SYS_CLOSE, world_domain(&ringer.world, "three")->first_slot},
	                                       NULL}),
	             CALL_OK);
	cross_until_settled(&ringer.world);
	ten_thousand_in_vain(&ringer, "three");
	one = world_domain(&ringer.world, "three");
	actor_begin(&ringer.world, one->name, (struct command){ACTOR_FAULT, {0}, NULL});
	world_until(&ringer.world, domain_is_dead, one, "three dies");
	cross_until_settled(&ringer.world);
	ring(&ringer, 100);
	cr_assert_eq(strays(&ringer), N_RINGS + 100);
	world_close(&ringer.world);
}

/* H7: rings without end are the guest's own time; the other guest serves on, and its memory does not grow. */
Test(cross, h7_rings_that_are_allowed_hold_nobody_up)
{
	struct ringer ringer;
	struct pair near;
	uint64_t before;

	ringer_open(&ringer);
	near = pair_open(&ringer.world, "three", "two", "svc");
	annex_channel(&ringer.world, "one", "six");
	before = resident_bytes();
	ringer.mail->value = (uint64_t)200000 << 32 | world_guest(&ringer.world)->number;
	MAILBOX_STORE(ringer.mail->command, ringer.mail->command + 1);
	machine_wake(ringer.guest->machine, 0);
	do {
		assert_flowing(&ringer.world, &near);
	} while (!has_rung(&ringer.world, &ringer));
	cr_assert_eq(strays(&ringer), 0);
	cr_assert_leq(resident_bytes(), before + (4u << 20));
	world_close(&ringer.world);
}
