/* Stopping and resuming (rows P1 to P6), with real vCPUs. tests/tsan/stop.c has the same without KVM.
 */
#include "tests/vmm/rig.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "tests/support/rounds.h"
#include "vmm/vcpu.h"

#define SECOND_NS 1000000000ull

/* ---- P1: the window between the look at the word and KVM_RUN ---- */

static uint32_t window_armed, in_window; /* atomic */

/*
 * The handshake: announces that the vCPU is in the window, and leaves it when the
 * handler of the kick has run. Kicks are blocked but for ppoll, so none is missed.
 */
static void hold_in_window(struct vcpu *vcpu)
{
	sigset_t kick, before;

	(void)vcpu;
	if (__atomic_exchange_n(&window_armed, 0, __ATOMIC_SEQ_CST) == 0)
		return;
	sigemptyset(&kick);
	sigaddset(&kick, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &kick, &before);
	__atomic_store_n(&in_window, 1, __ATOMIC_SEQ_CST);
	const struct timespec patience = {.tv_sec = RIG_PATIENCE_NS / SECOND_NS};
	(void)ppoll(NULL, 0, &patience, &before);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void wait_for_window(void)
{
	UNTIL(__atomic_load_n(&in_window, __ATOMIC_SEQ_CST) == 1);
	__atomic_store_n(&in_window, 0, __ATOMIC_SEQ_CST);
}

Test(stop, p1_kick_in_the_window_is_never_lost, .timeout = 300)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "spin", .n_vcpus = 1, .hook = hold_in_window});
	window_armed = 1;
	rig_start(&rig);
	for (int round = 0; round < 300; round++) {
		wait_for_window();
		rig_stop(&rig);
		__atomic_store_n(&window_armed, 1, __ATOMIC_SEQ_CST);
		rig_resume(&rig);
	}
	wait_for_window();
	rig_destroy(&rig);
}

/* The control: with a handler that does nothing the same stop must be seen to fail. */
Test(stop, p1_control_an_empty_handler_loses_the_kick, .timeout = 300)
{
	struct rig rig;
	struct stop_report report;

	rig_create(&rig, &(struct rig_spec){.kernel = "spin", .n_vcpus = 1, .hook = hold_in_window});
	window_armed = 1;
	vcpu_break_kicks(true);
	rig_start(&rig);
	wait_for_window();
	int error = stop_machines(&rig.machine, 1, monotonic_ns() + SECOND_NS / 2, &report, NULL, rig.why);
	cr_expect_eq(error, -ETIMEDOUT);
	cr_expect_eq(report.n_late, 1);
	cr_expect_str_eq(rig.why, "past the deadline: guest rig vCPU 0 (stop requested)");
	vcpu_break_kicks(false);
	rig_resume(&rig);
	rig_stop(&rig);
	rig_destroy(&rig);
}

/* ---- P2, P3 ---- */

static void until_running(struct rig *rig)
{
	for (uint32_t i = 0; i < rig->machine->layout.n_vcpus; i++)
		UNTIL(rig_state(rig, i) == STOP_RUNNING);
}

/* n pairs with no pause between them. */
static void stop_and_resume(const char *kernel, uint32_t n_vcpus, int n_pairs)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = kernel, .n_vcpus = n_vcpus});
	rig_start(&rig);
	until_running(&rig);
	for (int pair = 0; pair < n_pairs; pair++) {
		struct stop_report report = rig_stop(&rig);

		cr_assert_eq(report.n_stopped, n_vcpus);
		rig_resume(&rig);
		/* P3: acknowledged means that none is still waking up. */
		for (uint32_t i = 0; i < n_vcpus; i++)
			cr_assert_eq(rig_state(&rig, i), STOP_RUNNING);
	}
	cr_expect_eq(machine_stop_count(rig.machine), 0);
	cr_expect_eq(machine_stop_requests(rig.machine), (uint64_t)n_pairs * n_vcpus);
	rig_destroy(&rig);
}

/*
 * 100,000 pairs in all. Few of them with more busy vCPUs than cores to spare: there every
 * pair waits for the scheduler to give each vCPU its turn, milliseconds at a time.
 */
Test(stop, p2_back_to_back_in_ring_3, .timeout = 600)
{
	stop_and_resume("enter", 1, SAMPLED(40000));
}

Test(stop, p2_back_to_back_halted, .timeout = 600)
{
	stop_and_resume("halt", 1, SAMPLED(38500));
}

Test(stop, p2_back_to_back_two_vcpus, .timeout = 600)
{
	stop_and_resume("enter", 2, SAMPLED(1000));
	stop_and_resume("halt", 2, SAMPLED(15000));
}

Test(stop, p2_back_to_back_four_vcpus, .timeout = 600)
{
	stop_and_resume("enter", 4, SAMPLED(500));
	stop_and_resume("halt", 4, SAMPLED(5000));
}

Test(stop, p3_nothing_runs_while_stopped, .timeout = 300)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "enter", .n_vcpus = 2});
	rig_start(&rig);
	for (int round = 0; round < 50; round++) {
		uint64_t seen[2], n = 0;

		rig_stop(&rig);
		for (uint32_t i = 0; i < 2; i++)
			seen[i] = rig_count(&rig, i);
		/* Other threads get the cores meanwhile: whoever wanted to run could. */
		for (int i = 0; i < 20; i++)
			rig_pause();
		for (uint32_t i = 0; i < 2; i++)
			n += rig_count(&rig, i) - seen[i];
		cr_assert_eq(n, 0, "%lu rounds while stopped", n);
		rig_resume(&rig);
		UNTIL(rig_count(&rig, 0) > seen[0] && rig_count(&rig, 1) > seen[1]);
	}
	rig_destroy(&rig);
}

Test(stop, p3_a_machine_can_start_stopped, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "enter", .n_vcpus = 2});
	rig_stop(&rig);
	rig_start(&rig);
	for (int i = 0; i < 50; i++)
		rig_pause();
	cr_expect_eq(rig_count(&rig, 0) + rig_count(&rig, 1), 0);
	rig_resume(&rig);
	UNTIL(rig_count(&rig, 0) > 0 && rig_count(&rig, 1) > 0);
	rig_destroy(&rig);
}

/* ---- P4 ---- */

static struct rig *dying;

/* vCPU 3 enters once more although it was told to stop, and meets its triple fault: the middle of a stop. */
static void die_in_the_stop(struct vcpu *vcpu)
{
	sigset_t kick;

	if (vcpu->index != 3)
		return;
	sigemptyset(&kick);
	sigaddset(&kick, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &kick, NULL);
	__atomic_store_n(&in_window, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&vcpu->run->immediate_exit, __ATOMIC_SEQ_CST) == 0)
		rig_pause();
	__atomic_store_n(&rig_mail(dying, 3)->command, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&vcpu->run->immediate_exit, 0, __ATOMIC_SEQ_CST);
}

static void die_once(void)
{
	struct rig rig;

	dying = &rig;
	rig_create(&rig, &(struct rig_spec){.kernel = "spin", .n_vcpus = 4, .hook = die_in_the_stop});
	rig_start(&rig);
	until_running(&rig);
	wait_for_window();
	struct stop_report report = rig_stop(&rig);
	cr_assert_eq(report.n_stopped, 3, "%u parked", report.n_stopped);
	cr_assert_eq(report.n_gone, 1, "%u gone", report.n_gone);
	cr_assert_eq(machine_state(rig.machine), MACHINE_CRASHED);
	rig_resume(&rig);
	for (uint32_t i = 0; i < 4; i++)
		UNTIL(rig_state(&rig, i) == STOP_GONE);
	/* Nobody is left to signal, and nobody to wait for. */
	report = rig_stop(&rig);
	cr_assert_eq(report.n_gone, 4);
	cr_assert_eq(rig_load(&rig.n_crashes), 1);
	rig_destroy(&rig);
}

Test(stop, p4_triple_fault_in_the_middle, .timeout = 300)
{
	for (int round = 0; round < SAMPLED(1000); round++)
		die_once();
}

/* ---- P5 ---- */

Test(stop, p5_every_hypercall_while_stops_arrive, .timeout = 300)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "calls", .n_vcpus = 2});
	rig_start(&rig);
	for (int round = 0; round < SAMPLED(1000); round++) {
		rig_stop(&rig);
		uint64_t calls = rig_load(&rig.n_requests);
		cr_assert(rig.machine->vcpu[0].pending == false && rig.machine->vcpu[1].pending == false);
		rig_resume(&rig);
		if (round % 100 == 0)
			UNTIL(rig_load(&rig.n_requests) > calls + 10);
	}
	cr_expect_eq(rig_load(&rig.n_crashes), 0, "%s", rig.crash.text);
	cr_expect_eq(rig_load(&rig.n_bad), 0);
	rig_destroy(&rig);
}

/* ---- P6 ---- */

static void *stop_at_random(void *argument)
{
	struct rig *rig = argument;
	unsigned seed = (unsigned)(uintptr_t)&seed;
	uint64_t deadline_ns = monotonic_ns() + RIG_PATIENCE_NS;
	char why[WHY_BYTES];
	int depth = 0;

	for (int i = 0; i < 2000 || depth > 0; i++) {
		if (depth < 3 && i < 2000 && (depth == 0 || rand_r(&seed) % 2 == 0)) {
			if (stop_machines(&rig->machine, 1, deadline_ns, NULL, NULL, why) != 0)
				return "a stop failed";
			/* While this thread's stop counts, whoever else resumes, nothing runs. */
			if (rig_state(rig, 0) != STOP_PARKED || rig_state(rig, 1) != STOP_PARKED)
				return "a vCPU ran within a stop";
			depth++;
		} else {
			if (resume_machines(&rig->machine, 1, deadline_ns, why) != 0)
				return "a resume failed";
			depth--;
		}
	}
	return NULL;
}

Test(stop, p6_two_stoppers, .timeout = 300)
{
	struct rig rig;
	pthread_t other;
	void *complaint;

	rig_create(&rig, &(struct rig_spec){.kernel = "enter", .n_vcpus = 2});
	rig_start(&rig);
	pthread_create(&other, NULL, stop_at_random, &rig);
	const char *own = stop_at_random(&rig);
	pthread_join(other, &complaint);
	cr_expect_null(own, "%s", own);
	cr_expect_null(complaint, "%s", (const char *)complaint);
	cr_expect_eq(machine_stop_count(rig.machine), 0);
	uint64_t seen = rig_count(&rig, 0);
	UNTIL(rig_count(&rig, 0) > seen);
	rig_destroy(&rig);
}

Test(stop, p6_a_resume_too_many_is_refused, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "enter", .n_vcpus = 1});
	rig_start(&rig);
	cr_expect_eq(resume_machines(&rig.machine, 1, monotonic_ns() + SECOND_NS, rig.why), -EINVAL);
	cr_expect_str_eq(rig.why, "guest rig is not stopped");
	cr_expect_eq(machine_stop_count(rig.machine), 0);
	rig_stop(&rig);
	rig_resume(&rig);
	cr_expect_eq(resume_machines(&rig.machine, 1, monotonic_ns() + SECOND_NS, rig.why), -EINVAL);
	rig_destroy(&rig);
}

/* Several machines: all are kicked before any is waited for; only the late one is named. */
Test(stop, several_machines_at_once, .timeout = 180)
{
	struct rig rigs[3];
	struct machine *machines[3];
	struct stop_report report;
	bool late[3];

	for (int i = 0; i < 3; i++) {
		rig_create(&rigs[i], &(struct rig_spec){.kernel = "enter", .n_vcpus = 1});
		rig_start(&rigs[i]);
		machines[i] = rigs[i].machine;
	}
	for (int round = 0; round < 200; round++) {
		int error = stop_machines(machines, 3, monotonic_ns() + RIG_PATIENCE_NS, &report, late,
		                          rigs[0].why);
		cr_assert_eq(error, 0, "%s", rigs[0].why);
		cr_assert_eq(report.n_stopped, 3);
		cr_assert(!late[0] && !late[1] && !late[2]);
		error = resume_machines(machines, 3, monotonic_ns() + RIG_PATIENCE_NS, rigs[0].why);
		cr_assert_eq(error, 0, "%s", rigs[0].why);
	}
	for (int i = 0; i < 3; i++)
		rig_destroy(&rigs[i]);
}
