/* I2, timely: a change returns within its two deadlines, whatever guests do (P1, P5, P10, P11, F9). */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "guest/abi/record.h"
#include "monitor/guest.h"
#include "monitor/loop.h"
#include "tests/monitor/world_annex.h"
#include "tests/monitor/world_faults.h"
#include "vmm/stop.h"
#include "vmm/window.h"

/* P1: a kernel that spins with interrupts off is stopped like any other, and loses what it holds. */
Test(promise, i2_guest_that_spins_with_interrupts_off)
{
	struct world world;

	fault_kernel(TEST_KERNELS "spin.elf");
	world_open(&world, &(struct world_options){.not_ready = true});
	for (int round = 0; round < 10; round++) {
		struct channel *channel = annex_channel(&world, "one", "two");
		json_t *report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);

		cr_assert_eq(report_number(report, "flows.cut"), 2);
		cr_assert_eq(report_number(report, "vcpus.stopped"), 2);
		cr_assert_eq(json_array_size(json_object_get(report, "killed")), 0);
		json_decref(report);
		cr_assert(inbox_is_empty(channel, SIDE_CLIENT) && inbox_is_empty(channel, SIDE_SERVER));
		world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	}
	cr_assert_eq(machine_state(world_guest(&world)->machine), MACHINE_RUNNING);
	world_close(&world);
	fault_kernel(NULL);
}

static bool handler_is_held(struct world *world, void *opaque)
{
	(void)world;
	(void)opaque;
	return fault_handler_is_held();
}

static uint64_t word_of(const struct endpoint *end)
{
	return machine_record(end->domain->guest->machine, end->slot)->word;
}

/*
 * One vCPU cannot be stopped: past the deadline its guest is killed and named, its window
 * is closed, it is severed from its peers in the other guest, who go on.
 */
Test(promise, i2_guest_that_cannot_be_stopped_is_killed_and_named)
{
	struct world world;
	struct guest *stuck, *other;
	struct channel *across;
	struct endpoint far;
	json_t *report;
	char *line;
	int status;

	world_open(&world, &(struct world_options){.deadline_seconds = 1.5});
	stuck = world_guest(&world);
	other = annex_open(&world, NULL);
	across = annex_channel(&world, "three", "six");
	far = across->end[SIDE_SERVER];
	pair_open(&world, "one", "two", "svc");
	fault_hold_handler();
	actor_begin(&world, "one", (struct command){ACTOR_SYSTEM_CALL, {SYS_INFO, 0, 0}, NULL});
	world_until(&world, handler_is_held, NULL, "a handler is held");

	report = world_try_push(&world, POLICY_NO_CONNECT, STOP_ALL, &status);
	cr_assert_eq(status, -EOWNERDEAD);
	cr_assert_eq(report_number(report, "policy_number"), 2);
	cr_assert_eq(json_array_size(json_object_get(report, "killed")), 1);
	cr_assert_str_eq(report_text(report, "killed.0"), "test");
	json_decref(report);

	cr_assert_eq(machine_state(stuck->machine), MACHINE_KILLED);
	cr_assert_not(annex_can_read(window_inbox(stuck->machine, 0)), "its inbox window is still open");
	cr_assert_eq(word_of(&far) & (RECORD_IN | RECORD_OUT), 0);
	cr_assert_neq(word_of(&far) & RECORD_PEER_DIED, 0);
	for (size_t i = 0; i < 4096; i += 8)
		cr_assert_eq(*(const uint64_t *)((const uint8_t *)window_inbox(other->machine, far.slot) + i),
		             0);
	cr_assert_eq(machine_state(other->machine), MACHINE_RUNNING);
	line = audit_find(&world, "PORTCULLIS_KILL");
	cr_assert(line && strstr(line, "guest=\"test\" ") && strstr(line, "vCPU 0"), "%s",
	          line ? line : "nothing");
	free(line);

	/* The other guest and the monitor go on. */
	cr_assert_eq(actor_do(&world, "five", (struct command){ACTOR_SYSTEM_CALL, {SYS_YIELD}, NULL}), 0);
	world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	cr_assert_eq(machine_stop_count(other->machine), 0);
	fault_let_handler_go();
	world_close(&world);
}

static bool has_stormed(struct world *world, void *opaque)
{
	struct mailbox *mail = world_mailbox(world, "one");
	uint64_t sum = 0, *least = opaque;

	for (int i = 0; i < 4; i++)
		sum += MAILBOX_LOAD(mail->value[i]);
	return sum >= *least;
}

/*
 * P5, R9, H4: connect, accept and close without a pause while pushes take the right away and
 * give it back. Each connect gets the old answer or the new one, and nothing else.
 */
Test(promise, i2_calls_in_a_loop_while_changes_are_made)
{
	struct world world;
	struct mailbox *mail;
	uint64_t seen = 0;

	world_open(&world, &(struct world_options){.busy = true});
	mail = world_mailbox(&world, "one");
	actor_begin(&world, "two", (struct command){ACTOR_SERVE, {0}, NULL});
	actor_begin(&world, "one", (struct command){ACTOR_STORM, {1000000, NO_TIMEOUT}, "svc"});
	for (int i = 0; i < 60; i++) {
		world_push_quietly(&world, i % 2 ? POLICY_OPEN : POLICY_NO_CONNECT,
		                   i % 3 == 0   ? STOP_ALL
		                   : i % 3 == 1 ? STOP_AFFECTED
		                                : STOP_NONE);
		seen += 3;
		world_until(&world, has_stormed, &seen, "connects go on");
	}
	cr_assert_eq(mail->value[3], 0, "a connect got %lld", (long long)mail->value[4]);
	cr_assert_gt(mail->value[0], 0);
	cr_assert_gt(mail->value[1], 0);
	world_close(&world);
}

/* ---- P10: a stopped machine can be ended ---- */

Test(promise, p10_sigterm_while_stopped)
{
	struct world world;
	struct machine *machine;
	char why[WHY_BYTES];

	world_open(&world, NULL);
	machine = world_guest(&world)->machine;
	cr_assert_eq(stop_machines(&machine, 1, loop_now() + 30000000000u, NULL, NULL, why), 0, "%s", why);
	cr_assert_str_eq(guest_state_name(world_guest(&world)), "suspended");
	raise(SIGTERM);
	monitor_run(world.monitor);
	world_close(&world);
}

Test(promise, p10_end_of_a_stopped_guest_is_told)
{
	struct world world;
	struct pair one;
	struct machine *machine;
	struct registry *registry;
	char why[WHY_BYTES];

	world_open(&world, NULL);
	one = pair_open(&world, "one", "two", "svc");
	machine = world_guest(&world)->machine;
	cr_assert_eq(stop_machines(&machine, 1, loop_now() + 30000000000u, NULL, NULL, why), 0, "%s", why);
	registry = registry_lock(world.monitor);
	domain_end(registry, world_domain(&world, "one"), true, 0);
	registry_unlock(registry);
	/* A push while it is stopped already: stops are counted, it stays stopped. */
	world_push_quietly(&world, POLICY_NOTHING, STOP_ALL);
	cr_assert_eq(machine_stop_count(machine), 1);
	cr_assert_eq(resume_machines(&machine, 1, loop_now() + 30000000000u, why), 0, "%s", why);
	cr_assert_eq(pair_receive(&world, &one, false, 1), CALL_PEER_DIED);
	world_close(&world);
}
