/* Kernels that mean harm (rows H2, H8, H12, H13): the host's state is unchanged, access never wider. */
#include "tests/vmm/rig.h"

#include <stdlib.h>
#include <string.h>

#include "vmm/window.h"

static void assert_no_crash(struct rig *rig)
{
	pthread_mutex_lock(&rig->lock);
	struct machine_crash crash = rig->crash;
	pthread_mutex_unlock(&rig->lock);
	cr_assert_eq(rig_load(&rig->n_crashes), 0, "line %ld of the kernel: %s", (long)crash.vector - 0x1000,
	             crash.text);
}

/* Done, or its assertion failed. */
static void until_done(struct rig *rig)
{
	UNTIL(rig_counter(rig, 0) != 0 || rig_load(&rig->n_crashes) != 0);
	assert_no_crash(rig);
}

Test(hostile, h8_ids_that_are_no_ids, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "ids", .n_vcpus = 2});
	rig_start(&rig);
	until_done(&rig);
	uint64_t refused = rig_load(&rig_mail(&rig, 0)->events);
	cr_expect_gt(refused, 45);
	cr_expect_eq(machine_counters(rig.machine).refused, refused);
	/* One CONNECT, one EXIT and one READY came through. */
	cr_expect_eq(rig_load(&rig.n_requests), 2);
	cr_expect_eq(rig_load(&rig.n_ready), 1);
	cr_expect_eq(rig_load(&rig.n_bad), 0);
	rig_destroy(&rig);
}

/* H2: whatever mixture is read, what reaches the handlers was checked as a whole (rig.c: n_bad). */
Test(hostile, h13_hypercall_page_changes_while_it_is_read, .timeout = 300)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "flip", .n_vcpus = 2});
	rig_start(&rig);
	UNTIL(rig_counter(&rig, 0) > 20000 && rig_counter(&rig, 1) > 20000 &&
	      rig_load(&rig.n_requests) > 100);
	rig_stop(&rig);
	struct machine_counters counters = machine_counters(rig.machine);
	cr_expect_gt(counters.refused, 100, "the flips were not seen");
	cr_expect_eq(rig_load(&rig.n_bad), 0);
	assert_no_crash(&rig);
	rig_destroy(&rig);
}

/* H12: a domain that floods the log loses lines, and they are counted. */
Test(hostile, h12_a_log_flood_is_limited, .timeout = 180)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "calls", .n_vcpus = 1});
	rig_start(&rig);
	UNTIL(rig_counter(&rig, 0) > 20000);
	rig_stop(&rig);
	assert_no_crash(&rig);
	uint64_t n_calls = rig_counter(&rig, 0) / 5, lost = machine_counters(rig.machine).log_lines_lost;
	cr_expect_gt(lost, 0);
	cr_expect_lt(rig_load(&rig.n_logs) + lost, n_calls + 2);
	cr_expect_leq(rig_load(&rig.n_lost), lost);
	cr_expect_str_eq(rig.log, "x");
	rig_destroy(&rig);
}

static void storm_start(struct rig *rig, uint64_t n_writes)
{
	rig_create(rig, &(struct rig_spec){.kernel = "storm", .n_vcpus = 1});
	rig_mail(rig, 0)->value = n_writes;
	rig_start(rig);
}

static bool is_zero(const void *memory, size_t bytes)
{
	const uint8_t *byte = memory;

	for (size_t i = 0; i < bytes; i++)
		if (byte[i] != 0)
			return false;
	return true;
}

Test(hostile, h13_writes_into_read_only_windows_have_no_effect, .timeout = 180)
{
	struct rig rig;

	storm_start(&rig, 1000);
	until_done(&rig);
	cr_expect_eq(machine_counters(rig.machine).window_writes, 1000);
	cr_expect_eq(machine_state(rig.machine), MACHINE_RUNNING);
	cr_expect(is_zero(window_inbox(rig.machine, 0), 8192));
	cr_expect(is_zero(machine_domain_page(rig.machine, 0), 8192));
	rig_destroy(&rig);
}

/* The promise is a rate, so it holds on a host of any speed: what came through is never above it. */
Test(hostile, h13_a_storm_ends_the_guest, .timeout = 300)
{
	struct rig rig;

	storm_start(&rig, 80000);
	uint64_t begin_ns = monotonic_ns();
	UNTIL(rig_load(&rig.n_crashes) == 1 || rig_counter(&rig, 0) != 0);
	uint64_t allowed = VAIN_EXITS_BURST +
	                   (monotonic_ns() - begin_ns) / 1000000 * VAIN_EXITS_PER_SECOND / 1000 +
	                   VAIN_EXITS_PER_SECOND / 100;
	uint64_t writes = machine_counters(rig.machine).window_writes;
	cr_expect_leq(writes, allowed);
	if (rig_load(&rig.n_crashes) == 1) {
		cr_expect_eq(machine_state(rig.machine), MACHINE_CRASHED);
		cr_expect_geq(writes, VAIN_EXITS_BURST);
		cr_expect_not_null(strstr(rig.crash.text, "storm of writes into read-only windows"), "%s",
		                   rig.crash.text);
	}
	rig_destroy(&rig);
}

/* The host's own state, byte for byte, while a kernel scribbles over all that it can reach. */
Test(hostile, h13_every_byte_scribbled, .timeout = 300)
{
	struct rig rig, peer;

	rig_create(&peer, &(struct rig_spec){.kernel = "enter", .n_vcpus = 1});
	rig_create(&rig, &(struct rig_spec){.kernel = "scribble", .n_vcpus = 1});
	struct layout before = rig.machine->layout;
	cr_assert_eq(window_set(rig.machine, 1, peer.machine, 0, WINDOW_ALL), 0);
	rig_start(&rig);
	UNTIL(rig_load(&rig.n_crashes) == 1);
	UNTIL(rig_state(&rig, 0) == STOP_GONE);
	cr_expect_eq(machine_state(rig.machine), MACHINE_CRASHED);
	cr_expect_eq(rig_load(&rig.n_bad), 0);
	cr_expect_eq(memcmp(&before, &rig.machine->layout, sizeof(before)), 0);
	cr_expect(is_zero(rig.machine->record, rig.machine->layout.record_bytes),
	          "the record window changed");
	cr_expect(is_zero(window_inbox(rig.machine, 0), 131072));
	cr_expect(is_zero(window_outbox(peer.machine, 0), 131072), "it wrote into its peer's memory");
	/* What it says of itself is shown and not believed. */
	cr_expect_leq(machine_domain_state(rig.machine, 0), DOMAIN_DEAD);
	cr_expect_neq(window_outbox_counters(rig.machine, 0).written, 0, "it did not scribble");
	rig_destroy(&rig);
	rig_destroy(&peer);
}
