/*
 * The life of guests: every cause has its events, states follow, and a guest ends whatever it is in (P10).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "monitor/guest.h"
#include "monitor/loop.h"
#include "tests/monitor/kind_support.h"
#include "tests/monitor/life_support.h"
#include "tests/monitor/world_faults.h"
#include "vmm/stop.h"

#define SECOND_NS 1000000000ull

Test(life, every_request_has_its_event)
{
	struct world world;
	struct heard heard;
	struct definition *other;
	int32_t first;

	world_open(&world, NULL);
	life_listen(&world, &heard);
	other = life_define(&world, LIFE_OTHER, true);
	life_expect(&heard, "other defined none");
	cr_assert_eq(other->id, -1);
	life_start(&world, "other");
	life_expect(&heard, "other started booted");
	first = other->id;
	cr_assert_gt(first, 0);
	DO(lifecycle_suspend(world.monitor, other, why_not));
	life_expect(&heard, "other suspended operator");
	DO(lifecycle_resume(world.monitor, other, why_not));
	life_expect(&heard, "other resumed operator");
	DO(lifecycle_shutdown(world.monitor, other, why_not));
	life_expect(&heard, "other shutdown operator");
	cr_assert_eq(other->id, -1);
	cr_assert_not_null(other->guest, "its run is kept for the report");
	life_start(&world, "other");
	life_expect(&heard, "other started booted");
	cr_assert_gt(other->id, first, "no number is used again");
	DO(lifecycle_destroy(world.monitor, other, why_not));
	life_expect(&heard, "other destroyed operator");
	DO(lifecycle_undefine(world.monitor, other, why_not));
	life_expect(&heard, "other undefined none");
	cr_assert_null(lifecycle_find(world.monitor, "other"));
	/* Quarantine is none of a guest's. */
	json_decref(change_do(&world, (struct change_request){
					      .kind = CHANGE_QUARANTINE, .guest = "test", .domain = "one"}));
	life_expect(&heard, "");
	lifecycle_unlisten(world.monitor, &heard.listener);
	life_define(&world, LIFE_OTHER, true);
	life_expect(&heard, "");
	world_close(&world);
}

Test(life, every_end_has_its_event)
{
	struct world world;
	struct heard heard;
	struct definition *other;
	struct registry *registry;

	world_open(&world, NULL);
	other = life_define(&world, LIFE_OTHER, true);
	life_listen(&world, &heard);

	life_start(&world, "other");
	life_until_up(&world, "five");
	actor_begin(&world, "five", (struct command){ACTOR_EXIT, {0}, NULL});
	life_until_state(&world, "other", LIFECYCLE_OFF);
	life_expect(&heard, "other started booted; other shutdown finished");
	cr_assert_eq(machine_state(other->guest->machine), MACHINE_ENDED, "its vCPUs are gone too");

	fault_kernel(TEST_KERNELS "panic.elf");
	life_start(&world, "other");
	life_until_state(&world, "other", LIFECYCLE_CRASHED);
	fault_kernel(NULL);
	life_expect(&heard, "other started booted; other crashed crashed");
	cr_assert_neq(other->id, -1);
	DO(lifecycle_shutdown(world.monitor, other, why_not));
	life_expect(&heard, "other shutdown operator");
	cr_assert_str_eq(definition_state_name(other), "stopped");

	life_start(&world, "other");
	registry = registry_lock(world.monitor);
	guest_lose(registry, other->guest, "a test");
	registry_unlock(registry);
	life_until_state(&world, "other", LIFECYCLE_OFF);
	life_expect(&heard, "other started booted; other killed killed");
	cr_assert_str_eq(definition_state_name(other), "killed");
	cr_assert_eq(lifecycle_exit_status(world.monitor), 1);
	life_start(&world, "other");
	cr_assert_eq(lifecycle_exit_status(world.monitor), 1, "an earlier run's failure stays one of `run`");
	world_close(&world);
}

Test(life, what_is_not_persistent_goes_with_its_run)
{
	struct world world;
	struct heard heard;
	struct told told;

	world_open(&world, NULL);
	life_listen(&world, &heard);
	life_begin(&world, life_define(&world, LIFE_OTHER, false), false, &told);
	life_finish(&world, &told);
	DO(lifecycle_shutdown(world.monitor, life_find(&world, "other"), why_not));
	life_expect(&heard, "other defined none; other started booted; other shutdown operator; other "
	                    "undefined none");
	cr_assert_null(lifecycle_find(world.monitor, "other"));
	life_begin(&world, life_define(&world, LIFE_OTHER_UNKNOWN, false), false, &told);
	life_finish(&world, &told);
	cr_assert_eq(told.error, -EINVAL);
	cr_assert_str_eq(told.why, "other.conf:2: the policy does not know the context "
	                           "\"system_u:system_r:no_such_t:s0\" of domain \"five\"");
	life_expect(&heard, "other defined none; other failed failed; other undefined none");
	cr_assert_null(lifecycle_find(world.monitor, "other"));
	cr_assert_eq(world.monitor->registry->n_guests, 1);
	world_close(&world);
}

Test(life, wrong_requests_change_nothing)
{
	const struct manifest_options options = {.directory = "./", .guests_only = true};
	static const char copy[] = "name = \"copy\"; uuid = \"%s\";\n%s";
	struct world world;
	struct definition *other, *ignored;
	struct manifest *manifest;
	struct told told;
	char why[WHY_BYTES], uuid[UUID_TEXT_BYTES], text[1024];

	world_open(&world, NULL);
	other = life_define(&world, LIFE_OTHER, true);
	cr_assert_eq(lifecycle_suspend(world.monitor, other, why), -ESRCH);
	cr_assert_eq(lifecycle_resume(world.monitor, other, why), -ESRCH);
	cr_assert_eq(lifecycle_shutdown(world.monitor, other, why), -ESRCH);
	cr_assert_str_eq(why, "guest other does not run: it is stopped");
	snprintf(text, sizeof(text), copy, uuid_format(other->uuid, uuid), strchr(LIFE_OTHER, '\n'));
	cr_assert_eq(manifest_parse("copy.conf", text, strlen(text), &options, &manifest, why), 0, "%s", why);
	cr_assert_eq(lifecycle_define(world.monitor, manifest, true, &ignored, why), -EEXIST);
	cr_assert_str_eq(why, "guest copy has the uuid of guest other");
	manifest_free(manifest);

	life_begin(&world, other, false, &told);
	cr_assert_eq(lifecycle_start(world.monitor, other, false, NULL, NULL, why), -EBUSY);
	cr_assert_eq(lifecycle_undefine(world.monitor, other, why), -EBUSY);
	cr_assert_eq(lifecycle_suspend(world.monitor, other, why), -EBUSY);
	life_finish(&world, &told);
	cr_assert_eq(lifecycle_start(world.monitor, other, false, NULL, NULL, why), -EBUSY);
	cr_assert_str_eq(why, "guest other is running already");
	cr_assert_eq(lifecycle_resume(world.monitor, other, why), -EALREADY);
	DO(lifecycle_suspend(world.monitor, other, why_not));
	cr_assert_eq(lifecycle_suspend(world.monitor, other, why), -EALREADY);
	cr_assert_eq(machine_stop_count(other->guest->machine), 1, "counted once, however often asked for");
	cr_assert_eq(manifest_parse("other.conf", LIFE_OTHER, strlen(LIFE_OTHER), &options, &manifest, why),
	             0);
	cr_assert_eq(lifecycle_define(world.monitor, manifest, true, &ignored, why), -EEXIST);
	manifest_free(manifest);
	world_close(&world);
}

Test(life, p10_a_suspended_a_crashed_and_a_spinning_guest_end_within_a_second)
{
	static const char *const kernels[] = {NULL, "panic.elf", "spin.elf"};
	struct world world;
	struct definition *other;

	world_open(&world, NULL);
	other = life_define(&world, LIFE_OTHER, true);
	for (unsigned i = 0; i < 6; i++) {
		const char *kernel = kernels[i % 3];
		uint64_t begun;

		if (kernel) {
			char path[128];

			snprintf(path, sizeof(path), TEST_KERNELS "%s", kernel);
			fault_kernel(path);
		}
		life_start(&world, "other");
		fault_kernel(NULL);
		if (i % 3 == 0)
			DO(lifecycle_suspend(world.monitor, other, why_not));
		if (i % 3 == 1)
			life_until_state(&world, "other", LIFECYCLE_CRASHED);
		begun = loop_now();
		if (i < 3)
			DO(lifecycle_shutdown(world.monitor, other, why_not));
		else
			DO(lifecycle_destroy(world.monitor, other, why_not));
		cr_assert_lt(loop_now() - begun, SECOND_NS);
		cr_assert_eq(other->state, LIFECYCLE_OFF);
	}
	world_close(&world);
}

Test(life, a_guest_that_cannot_be_suspended_is_killed)
{
	struct world world;
	struct heard heard;
	char why[WHY_BYTES];

	world_open(&world, &(struct world_options){.deadline_seconds = 1.5});
	life_listen(&world, &heard);
	fault_hold_handler();
	actor_begin(&world, "one", (struct command){ACTOR_SYSTEM_CALL, {SYS_INFO, 0, 0}, NULL});
	while (!fault_handler_is_held())
		loop_step(world.monitor->loop, loop_now() + 1000000u);
	cr_assert_eq(lifecycle_suspend(world.monitor, life_find(&world, "test"), why), -ETIMEDOUT);
	cr_assert(strstr(why, "vCPU 0"), "%s", why);
	life_expect(&heard, "test killed killed");
	fault_let_handler_go();
	world_close(&world);
}

Test(life, a_start_that_is_given_up_leaves_nothing)
{
	struct world world;
	struct heard heard;
	struct told first, second;
	struct definition *other;

	world_open(&world, NULL);
	other = life_define(&world, LIFE_OTHER, true);
	life_listen(&world, &heard);
	for (unsigned turns = 0; turns < 6; turns++) {
		life_begin(&world, other, false, &first);
		for (unsigned i = 0; i < turns && other->state == LIFECYCLE_STARTING; i++)
			world_turn(&world);
		DO(lifecycle_destroy(world.monitor, other, why_not));
		/* At once again, while the first may still be built. */
		life_begin(&world, other, false, &second);
		life_finish(&world, &second);
		cr_assert_eq(second.error, 0, "%s", second.why);
		life_finish(&world, &first);
		cr_assert(first.error == -ECANCELED || strstr(heard.text, "other destroyed"), "%s",
		          heard.text);
		DO(lifecycle_shutdown(world.monitor, other, why_not));
		heard.text[0] = '\0';
	}
	life_begin(&world, other, false, &first);
	lifecycle_forget(world.monitor, &first);
	life_until_state(&world, "other", LIFECYCLE_RUNNING);
	world_turn(&world);
	cr_assert_eq(first.n, 0, "whoever has gone away is told nothing");
	DO(lifecycle_destroy(world.monitor, other, why_not));
	life_begin(&world, other, false, &first);
	world_close(&world); /* in the middle of a start: its caller is told all the same */
	cr_assert_eq(first.n, 1);
	cr_assert_eq(first.error, -ECANCELED);
}

Test(life, a_paused_start_and_its_uuid)
{
	struct world world;
	struct definition *other;
	struct told told;
	uint8_t uuid[UUID_BYTES];
	char host[HOST_ID_BYTES];

	world_open(&world, NULL);
	other = life_define(&world, LIFE_OTHER, true);
	uuid_host(host);
	uuid_derive(host, "other", uuid);
	cr_assert_arr_eq(other->uuid, uuid, UUID_BYTES);
	life_begin(&world, other, true, &told);
	life_finish(&world, &told);
	cr_assert_eq(told.error, 0, "%s", told.why);
	cr_assert_eq(other->state, LIFECYCLE_SUSPENDED);
	world_push_quietly(&world, POLICY_NO_SEND, STOP_ALL);
	world_drift(&world, 20000000u);
	cr_assert_eq(machine_counters(other->guest->machine).hypercalls, 0, "it has run");
	DO(lifecycle_resume(world.monitor, other, why_not));
	life_until_up(&world, "five");
	cr_assert_arr_eq(other->uuid, uuid, UUID_BYTES);
	world_close(&world);
}
