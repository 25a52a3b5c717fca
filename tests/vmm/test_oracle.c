/*
 * The cut oracle (I1, R3: genode 3726, XSA-217): a guest that spins on a slot on
 * another core sees no value that was written after window_sever returned; the control without a cut does.
 */
#include "tests/vmm/rig.h"

#include <unistd.h>

#include "vmm/oracle.h"

Test(oracle, r3_nothing_is_seen_after_a_cut, .timeout = 300)
{
	struct oracle_result result;
	char why[WHY_BYTES];
	int kvm_fd = rig_kvm();
	int error = oracle_run(kvm_fd, 2000, true, &result, why);

	cr_assert_eq(error, 0, "%s", why);
	cr_expect_eq(result.rounds, 2000);
	cr_expect_eq(result.escapes, 0, "%u escapes", result.escapes);
	cr_expect_geq(result.readings, 2000 * 16);
	close(kvm_fd);
}

Test(oracle, r3_control_a_skipped_cut_is_caught, .timeout = 300)
{
	struct oracle_result result;
	char why[WHY_BYTES];
	int kvm_fd = rig_kvm();
	int error = oracle_run(kvm_fd, 200, false, &result, why);

	cr_assert_eq(error, 0, "%s", why);
	cr_expect_eq(result.escapes, 200, "only %u of 200 caught", result.escapes);
	close(kvm_fd);
}
