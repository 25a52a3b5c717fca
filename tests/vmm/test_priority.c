/*
 * Priority that is lent for the time of a stop: rows P9 and P13 of the faults elsewhere. Without it a resume
 * of vCPUs that compute waits for a slice of the host's scheduler for each.
 */
#include "vmm/priority.h"

#include <sched.h>

#include "tests/support/rounds.h"
#include "tests/vmm/rig.h"

#define N_VCPUS 4

static uint64_t n_entered_with_it, n_in_window, n_hurried;
static bool holds;

static bool is_raised(pid_t thread)
{
	return (sched_getscheduler(thread) & ~SCHED_RESET_ON_FORK) == SCHED_FIFO;
}

/* Between the last look at the word and the guest. A request that has come since brings its priority along.
 */
static void look(struct vcpu *vcpu)
{
	if (is_raised(0) && stop_state_of(&vcpu->stop) == STOP_RUNNING)
		__atomic_fetch_add(&n_entered_with_it, 1, __ATOMIC_SEQ_CST);
	if (vcpu->index != 0 || !__atomic_load_n(&holds, __ATOMIC_SEQ_CST))
		return;
	/* It does not come until it has been hurried. */
	__atomic_fetch_add(&n_in_window, 1, __ATOMIC_SEQ_CST);
	UNTIL(is_raised(0));
	__atomic_fetch_add(&n_hurried, 1, __ATOMIC_SEQ_CST);
}

static void begin(struct rig *rig)
{
	if (!priority_raise())
		cr_skip_test("SCHED_FIFO is not allowed here");
	rig_create(rig, &(struct rig_spec){.kernel = "spin", .n_vcpus = N_VCPUS, .hook = look});
	rig_start(rig);
}

static void all_are_ordinary(struct rig *rig)
{
	for (uint32_t i = 0; i < N_VCPUS; i++)
		UNTIL(!is_raised(rig->machine->vcpu[i].borrower));
}

Test(priority, is_lent_to_one_that_does_not_come, .timeout = 180)
{
	struct rig rig;

	__atomic_store_n(&holds, true, __ATOMIC_SEQ_CST);
	begin(&rig);
	UNTIL(rig_load(&n_in_window) == 1);
	__atomic_store_n(&holds, false, __ATOMIC_SEQ_CST);
	rig_stop(&rig);
	cr_expect_eq(rig_load(&n_hurried), 1);
	cr_expect(is_raised(rig.machine->vcpu[0].borrower), "it parks with it");
	rig_resume(&rig);
	all_are_ordinary(&rig);
	rig_destroy(&rig);
}

/* More that compute than cores: some are hurried out of the guest, some back in. */
Test(priority, is_given_back_before_the_guest_runs, .timeout = 180)
{
	struct rig rig;

	begin(&rig);
	for (int round = 0; round < SAMPLED(200); round++) {
		rig_stop(&rig);
		rig_resume(&rig);
	}
	all_are_ordinary(&rig);
	cr_expect_eq(rig_load(&n_entered_with_it), 0);
	rig_destroy(&rig);
}

/* The request was taken back before anybody honoured it; the kick comes all the same. */
Test(priority, is_given_back_when_the_request_was_withdrawn, .timeout = 180)
{
	struct rig rig;
	char why[WHY_BYTES];

	begin(&rig);
	for (int round = 0; round < SAMPLED(100); round++) {
		(void)stop_machines(&rig.machine, 1, monotonic_ns(), NULL, NULL, why);
		rig_resume(&rig);
	}
	all_are_ordinary(&rig);
	rig_destroy(&rig);
}

static void *stop_once(void *opaque)
{
	struct rig *rig = opaque;

	cr_expect_not(is_raised(0), "a thread made by one that is raised is ordinary");
	rig_stop(rig);
	for (uint32_t i = 0; i < N_VCPUS; i++)
		cr_expect_not(is_raised(rig->machine->vcpu[i].borrower));
	rig_resume(rig);
	return NULL;
}

Test(priority, nobody_lends_what_he_has_not, .timeout = 180)
{
	struct rig rig;
	pthread_t thread;

	begin(&rig);
	for (uint32_t i = 0; i < N_VCPUS; i++)
		UNTIL(rig_state(&rig, i) == STOP_RUNNING);
	cr_assert_eq(pthread_create(&thread, NULL, stop_once, &rig), 0);
	pthread_join(thread, NULL);
	cr_expect_not(priority_lend(0), "no thread yet");
	rig_destroy(&rig);
}
