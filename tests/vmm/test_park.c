/* What a stop finds vCPUs doing: I/O exits, HLT, the end (rows P7, P8, P10). */
#include "tests/vmm/rig.h"

#include <poll.h>
#include <signal.h>

#define SECOND_NS 1000000000ull

/* ---- P7 ---- */

Test(park, p7_port_exit_is_complete_before_parking, .timeout = 300)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "ports", .n_vcpus = 1});
	rig_start(&rig);
	for (int round = 0; round < 3000; round++) {
		rig_stop(&rig);
		/* Parked with the value taken: what the guest counted is at most one behind, never two. */
		uint64_t reads = rig.machine->vcpu[0].n_reads, seen = rig_load(&rig_mail(&rig, 0)->events);
		cr_assert(!rig.machine->vcpu[0].pending);
		cr_assert(seen == reads || seen + 1 == reads, "%lu reads, %lu seen", reads, seen);
		rig_resume(&rig);
	}
	uint64_t seen = rig_counter(&rig, 0);
	UNTIL(rig_counter(&rig, 0) > seen + 100);
	cr_expect_eq(rig_load(&rig.n_crashes), 0, "%s", rig.crash.text);
	rig_destroy(&rig);
}

/* ---- P8 ---- */

static void until_halted(struct rig *rig, uint32_t vcpu)
{
	for (bool halted = false; !halted;) {
		rig_stop(rig);
		halted = rig_state(rig, vcpu) == STOP_HALTED;
		rig_resume(rig);
		rig_pause();
	}
}

static void command(struct rig *rig, uint32_t vcpu, uint64_t what)
{
	__atomic_store_n(&rig_mail(rig, vcpu)->command, what, __ATOMIC_SEQ_CST);
	machine_wake(rig->machine, vcpu);
}

Test(park, p8_halted_vcpus_stop_and_stay_halted, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "halt", .n_vcpus = 2});
	rig_start(&rig);
	UNTIL(rig_load(&rig.n_ready) == 2);
	until_halted(&rig, 0);
	until_halted(&rig, 1);
	for (int round = 0; round < 100; round++) {
		rig_stop(&rig);
		cr_assert_eq(rig_state(&rig, 0), STOP_HALTED);
		cr_assert_eq(rig_state(&rig, 1), STOP_HALTED);
		rig_resume(&rig);
	}
	cr_expect_eq(rig_counter(&rig, 0) + rig_counter(&rig, 1), 0, "the halt did not survive");
	rig_destroy(&rig);
}

Test(park, p8_one_halted_one_running, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "halt", .n_vcpus = 2});
	rig_start(&rig);
	UNTIL(rig_load(&rig.n_ready) == 2);
	command(&rig, 1, 2);
	UNTIL(rig_counter(&rig, 1) > 2);
	until_halted(&rig, 0);
	for (int round = 0; round < 100; round++) {
		rig_stop(&rig);
		cr_assert_eq(rig_state(&rig, 0), STOP_HALTED);
		cr_assert_eq(rig_state(&rig, 1), STOP_PARKED);
		rig_resume(&rig);
	}
	rig_destroy(&rig);
}

/* I10: an interrupt that comes while stopped is taken after the resume, once. */
Test(park, p8_interrupt_while_stopped_and_halted, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "halt", .n_vcpus = 1});
	rig_start(&rig);
	UNTIL(rig_load(&rig.n_ready) == 1);
	for (uint64_t round = 1; round <= 200; round++) {
		until_halted(&rig, 0);
		rig_stop(&rig);
		machine_wake(rig.machine, 0);
		cr_assert_eq(rig_counter(&rig, 0), round - 1);
		rig_resume(&rig);
		UNTIL(rig_counter(&rig, 0) == round);
		cr_assert_eq(rig_load(&rig_mail(&rig, 0)->events), round);
	}
	rig_destroy(&rig);
}

/* With interrupts off an interrupt stays pending and the HLT goes on, through any number of stops. */
Test(park, p8_pending_interrupt_does_not_end_a_masked_halt, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "halt", .n_vcpus = 1});
	rig_start(&rig);
	UNTIL(rig_load(&rig.n_ready) == 1);
	until_halted(&rig, 0);
	command(&rig, 0, 1);
	UNTIL(rig_counter(&rig, 0) == 1);
	until_halted(&rig, 0);
	machine_wake(rig.machine, 0);
	for (int round = 0; round < 50; round++) {
		rig_stop(&rig);
		cr_assert_eq(rig_state(&rig, 0), STOP_HALTED);
		rig_resume(&rig);
	}
	cr_expect_eq(rig_counter(&rig, 0), 1);
	rig_destroy(&rig);
}

/* ---- P10 ---- */

static void assert_all_gone(struct rig *rig)
{
	for (uint32_t i = 0; i < rig->machine->layout.n_vcpus; i++)
		cr_assert_eq(rig_state(rig, i), STOP_GONE);
}

Test(park, p10_a_stopped_machine_can_be_shut_down, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "enter", .n_vcpus = 4});
	rig_start(&rig);
	rig_stop(&rig);
	rig_stop(&rig);
	int error = machine_shutdown(rig.machine, monotonic_ns() + SECOND_NS, rig.why);
	cr_expect_eq(error, 0, "%s", rig.why);
	cr_expect_eq(machine_state(rig.machine), MACHINE_ENDED);
	assert_all_gone(&rig);
	rig_destroy(&rig);
}

Test(park, p10_a_stopped_machine_can_be_killed, .timeout = 180)
{
	struct rig rig;
	uint64_t count;

	rig_create(&rig, &(struct rig_spec){.kernel = "enter", .n_vcpus = 2});
	rig_start(&rig);
	rig_stop(&rig);
	machine_kill(rig.machine);
	UNTIL(rig_state(&rig, 0) == STOP_GONE && rig_state(&rig, 1) == STOP_GONE);
	count = rig_count(&rig, 0);
	cr_expect_eq(machine_state(rig.machine), MACHINE_KILLED);
	struct pollfd ended = {.fd = machine_ended_fd(rig.machine), .events = POLLIN};
	cr_expect_eq(poll(&ended, 1, 0), 1);
	rig_resume(&rig);
	cr_expect_eq(rig_count(&rig, 0), count, "a killed machine was entered again");
	cr_expect_eq(rig_load(&rig.n_crashes), 0);
	rig_destroy(&rig);
}

static void do_nothing(int signal)
{
	(void)signal;
}

/* An unrelated signal ends KVM_RUN too and is no request. */
Test(park, an_unrelated_signal_is_no_stop, .timeout = 180)
{
	struct rig rig;
	struct sigaction nothing = {.sa_handler = do_nothing};
	uint64_t seen;

	rig_create(&rig, &(struct rig_spec){.kernel = "enter", .n_vcpus = 1});
	rig_start(&rig);
	sigaction(SIGUSR1, &nothing, NULL);
	for (int i = 0; i < 100; i++) {
		seen = rig_count(&rig, 0);
		pthread_kill(rig.machine->vcpu[0].thread, SIGUSR1);
		UNTIL(rig_count(&rig, 0) > seen);
		cr_assert_eq(rig_state(&rig, 0), STOP_RUNNING);
	}
	cr_expect_eq(machine_counters(rig.machine).exits, 0);
	rig_destroy(&rig);
}
