/*
 * A guest of which a change cuts nothing, with a change of another guest beside it: it gets no request to
 * stop unless the change is to stop all, and its vCPU is thrown out of KVM no more often than mappings
 * are changed (I5; design: 7, stop modes).
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "monitor/bench/bystander.h"
#include "policy/launcher.h"
#include "tests/monitor/cli_child.h"
#include "vmm/stop.h"

#define N_CHANNELS 16u

static void change(struct bystander *bystander, enum stop_mode stop, bool plan_only,
                   double figure[static N_BYSTANDER_FIGURES])
{
	char why[WHY_BYTES] = "";

	cr_assert_eq(bystander_run(bystander, stop, plan_only, figure, why), 0, "%s", why);
	if (plan_only)
		cr_assert_eq(figure[BYSTANDER_MAPPING_CALLS], 0);
	else
		cr_assert_geq(figure[BYSTANDER_MAPPING_CALLS], N_CHANNELS,
		              "scattered slots are taken away one by one");
}

Test(bench_bystander, is_left_alone)
{
	struct bystander bystander = {.planted = {.n = N_CHANNELS,
	                                          .layout = LAYOUT_SCATTERED,
	                                          .n_vcpus = 1,
	                                          .program_dir = "build/domains"}};
	double figure[N_BYSTANDER_FIGURES] = {0};
	uint64_t total[N_VCPU_COUNTS];
	struct vcpu_counts counts;
	struct launcher *launcher;
	struct machine *machine;
	char why[WHY_BYTES] = "";

	need_kvm();
	cr_assert_eq(launcher_start(&launcher, why), 0, "%s", why);
	cr_assert_eq(bystander_open(&bystander, launcher, why), 0, "%s", why);
	machine = planted_bystander(&bystander.planted)->machine;
	cr_assert_eq(vcpu_counts_open(machine, 0, &counts, why), -EBUSY, "it runs");
	change(&bystander, STOP_NONE, true, figure);
	cr_expect_eq(figure[BYSTANDER_STOP_REQUESTS], 0);
	for (enum stop_mode mode = STOP_ALL; mode <= STOP_NONE; mode++) {
		change(&bystander, mode, false, figure);
		cr_expect_eq(figure[BYSTANDER_STOP_REQUESTS], mode == STOP_ALL, "--stop %s",
		             stop_mode_name(mode));
		if (mode != STOP_ALL)
			cr_expect_leq(figure[BYSTANDER_SIGNAL_EXITS], figure[BYSTANDER_MAPPING_CALLS],
			              "--stop %s", stop_mode_name(mode));
	}
	if (bystander.has_counts) {
		cr_assert_eq(vcpu_counts_read(&bystander.counts, total), 0);
		cr_expect_geq(total[VCPU_EXITS], 1, "it has started, by exits: nothing was counted");
	}
	bystander_close(&bystander);
	launcher_stop(launcher);
}
