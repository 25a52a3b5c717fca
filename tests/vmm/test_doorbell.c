/*
 * Doorbells between two machines (I10, P12): a ring reaches the other kernel without an exit, none is lost,
 * and after the unbind none arrives. The kernel, bell.c, dies of an interrupt on a line that is not bound.
 */
#include "tests/vmm/rig.h"

#include <string.h>

#include "vmm/doorbell.h"

#define NUMBER 77u
#define LINE 5u
#define N_RINGS 10000u

struct scene {
	struct rig from, to;
	struct doorbell bell;
};

static void scene_open(struct scene *scene)
{
	const struct rig_spec spec = {.kernel = "bell", .n_vcpus = 1};

	rig_create(&scene->from, &spec);
	rig_create(&scene->to, &spec);
	rig_start(&scene->from);
	rig_start(&scene->to);
	UNTIL(rig_load(&scene->from.n_ready) == 1 && rig_load(&scene->to.n_ready) == 1);
	doorbell_init(&scene->bell, scene->from.machine, NUMBER, scene->to.machine, LINE);
}

static void scene_close(struct scene *scene)
{
	cr_expect_eq(rig_load(&scene->to.n_crashes), 0, "%s", scene->to.crash.text);
	doorbell_unbind_ring(&scene->bell);
	doorbell_unbind_line(&scene->bell);
	cr_expect_eq(scene->bell.fd, -1);
	rig_destroy(&scene->from);
	rig_destroy(&scene->to);
}

static void bind(struct scene *scene)
{
	cr_assert_eq(doorbell_bind_line(&scene->bell), 0);
	cr_assert_eq(doorbell_bind_ring(&scene->bell), 0);
}

/* Rings and waits until that is done. */
static void ring(struct scene *scene, uint32_t number, uint64_t n)
{
	struct mailbox *mail = rig_mail(&scene->from, 0);
	uint64_t command = rig_counter(&scene->from, 0) + 1;

	mail->value = n << 32 | number;
	__atomic_store_n(&mail->command, command, __ATOMIC_SEQ_CST);
	machine_wake(scene->from.machine, 0);
	UNTIL(rig_counter(&scene->from, 0) == command || rig_load(&scene->from.n_crashes) != 0);
}

static uint64_t heard(struct scene *scene)
{
	return rig_load(&rig_mail(&scene->to, 0)->events);
}

static uint64_t exits(struct scene *scene)
{
	return machine_counters(scene->from.machine).exits;
}

Test(doorbell, i10_each_ring_wakes_and_none_is_an_exit, .timeout = 180)
{
	struct scene scene;
	uint64_t before;

	scene_open(&scene);
	bind(&scene);
	before = exits(&scene);
	for (uint64_t i = 1; i <= 200; i++) {
		ring(&scene, NUMBER, 1);
		UNTIL(heard(&scene) == i);
	}
	cr_expect_eq(exits(&scene), before);
	cr_expect_eq(machine_counters(scene.from.machine).stray_rings, 0);
	/* Rings that come faster than they are taken melt into one; the last is heard. */
	ring(&scene, NUMBER, N_RINGS);
	UNTIL(heard(&scene) > 200);
	cr_expect_leq(heard(&scene), 200 + N_RINGS);
	scene_close(&scene);
}

/* One whose number is bound for another guest is none of ours. */
Test(doorbell, h8_other_numbers_are_strays, .timeout = 180)
{
	struct scene scene;

	scene_open(&scene);
	bind(&scene);
	ring(&scene, NUMBER + 1, 10);
	ring(&scene, 0, 10);
	ring(&scene, UINT32_MAX, 10);
	cr_expect_eq(machine_counters(scene.from.machine).stray_rings, 30);
	cr_expect_eq(heard(&scene), 0);
	cr_expect_eq(rig_load(&scene.from.n_rang), 30);
	scene_close(&scene);
}

static void assert_silent_then_heard(struct scene *scene, uint64_t n_strays)
{
	uint64_t before = heard(scene);

	ring(scene, NUMBER, N_RINGS);
	cr_expect_eq(machine_counters(scene->from.machine).stray_rings, n_strays);
	/* The next that is bound is the next that is heard. */
	bind(scene);
	ring(scene, NUMBER, 1);
	UNTIL(heard(scene) > before);
	cr_expect_eq(heard(scene), before + 1, "a ring came after the unbind");
}

Test(doorbell, i10_after_the_unbind_ten_thousand_rings_raise_nothing, .timeout = 180)
{
	struct scene scene;

	scene_open(&scene);
	bind(&scene);
	ring(&scene, NUMBER, 1);
	UNTIL(heard(&scene) == 1);
	doorbell_unbind_ring(&scene.bell);
	doorbell_unbind_line(&scene.bell);
	assert_silent_then_heard(&scene, N_RINGS);
	/* Nobody hears, and the guest that rings sees no difference: no exit. */
	doorbell_unbind_line(&scene.bell);
	assert_silent_then_heard(&scene, N_RINGS);
	scene_close(&scene);
}

/* P12: rung while the other is stopped, it is there after the resume. */
Test(doorbell, p12_a_ring_outlives_a_stop, .timeout = 180)
{
	struct scene scene;

	scene_open(&scene);
	bind(&scene);
	for (uint64_t i = 1; i <= 50; i++) {
		rig_stop(&scene.to);
		ring(&scene, NUMBER, 1);
		cr_expect_eq(heard(&scene), i - 1);
		rig_resume(&scene.to);
		UNTIL(heard(&scene) == i);
	}
	scene_close(&scene);
}

/* H13: rings of doorbells that it has not are exits; past the rate the guest is ended, and nobody else. */
Test(doorbell, h13_a_storm_of_strays_ends_the_guest, .timeout = 180)
{
	struct scene scene;

	scene_open(&scene);
	ring(&scene, NUMBER, 100000);
	uint64_t strays = machine_counters(scene.from.machine).stray_rings;
	if (rig_load(&scene.from.n_crashes) == 1) {
		cr_expect_geq(strays, VAIN_EXITS_BURST);
		cr_expect_not_null(strstr(scene.from.crash.text, "storm of rings"), "%s",
		                   scene.from.crash.text);
	} else {
		cr_expect_eq(strays, 100000, "a slow host");
	}
	cr_expect_eq(machine_state(scene.to.machine), MACHINE_RUNNING);
	scene_close(&scene);
}
