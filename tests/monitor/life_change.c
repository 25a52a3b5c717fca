/*
 * Guests that come, go and stand still while changes are made.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest/abi/ring.h"
#include "monitor/change_internal.h"
#include "monitor/guest.h"
#include "monitor/loop.h"
#include "tests/monitor/life_support.h"
#include "vmm/stop.h"
#include "vmm/window.h"

/* A push that the test drives. */
struct push {
	struct policy_source sources[4];
	size_t n;
	bool done;
	int status;
	json_t *report;
};

static void on_done(void *opaque, int status, json_t *report, const char *why)
{
	struct push *push = opaque;

	(void)why;
	push->done = true;
	push->status = status;
	push->report = report;
}

static void push_begin(struct world *world, policy_files files, enum stop_mode stop, struct push *push)
{
	char why[WHY_BYTES];

	*push = (struct push){0};
	for (; files[push->n]; push->n++) {
		struct policy_source *source = &push->sources[push->n];

		source->name = files[push->n];
		source->fd = file_seal(files[push->n], MAX_POLICY_BYTES, &source->bytes, why);
		cr_assert_geq(source->fd, 0, "%s", why);
	}
	DO(change_begin(world->monitor,
	                &(struct change_request){.kind = CHANGE_POLICY,
	                                         .stop = stop,
	                                         .author = posture_self(world->monitor),
	                                         .sources = push->sources,
	                                         .n_sources = push->n},
	                on_done, push, why_not));
}

static bool is_done(struct world *world, void *opaque)
{
	(void)world;
	return ((const struct push *)opaque)->done;
}

static void push_finish(struct world *world, struct push *push)
{
	world_until(world, is_done, push, "the push ends");
	cr_assert_eq(push->status, 0);
	for (size_t i = 0; i < push->n; i++)
		close(push->sources[i].fd);
}

static bool has_asked(struct world *world, void *opaque)
{
	(void)opaque;
	return world->monitor->change && world->monitor->change->n_known > 0;
}

static bool is_pinned(struct world *world, void *opaque)
{
	(void)opaque;
	return world->monitor->change && world->monitor->change->pinned;
}

/*
 * The push knows one_t no more, and had asked about every context before the guest with one_t appeared. The
 * start must not go by what the old policy said.
 */
Test(life, a_push_that_was_prepared_before_a_start_does_not_miss_it)
{
	struct world world;
	struct push push;
	struct told told;

	world_open(&world, &(struct world_options){.manifest = LIFE_WITHOUT_ONE});
	life_define(&world, LIFE_OTHER_AS_ONE, true);
	push_begin(&world, POLICY_FORGET, STOP_ALL, &push);
	world_until(&world, has_asked, NULL, "the push has asked about the contexts that there are");
	life_begin(&world, life_find(&world, "other"), false, &told);
	push_finish(&world, &push);
	json_decref(push.report);
	life_finish(&world, &told);
	cr_assert_eq(told.error, -EINVAL, "started under a policy that does not know it");
	cr_assert(strstr(told.why, "does not know the context \"system_u:system_r:one_t:s0\""), "%s",
	          told.why);
	cr_assert_eq(world.monitor->registry->n_guests, 1);
	world_close(&world);
}

/* The same, and the policy keeps the context: it runs, and under the new number. */
Test(life, a_start_during_a_push_waits_for_its_end)
{
	struct world world;
	struct push push;
	struct told told;

	world_open(&world, &(struct world_options){.manifest = LIFE_WITHOUT_ONE});
	life_define(&world, LIFE_OTHER_AS_ONE, true);
	push_begin(&world, POLICY_NO_SEND, STOP_ALL, &push);
	world_until(&world, has_asked, NULL, "the push has asked about the contexts that there are");
	life_begin(&world, life_find(&world, "other"), false, &told);
	push_finish(&world, &push);
	json_decref(push.report);
	life_finish(&world, &told);
	cr_assert_eq(told.error, 0, "%s", told.why);
	life_until_up(&world, "five");
	cr_assert_eq(machine_domain_page(life_find(&world, "other")->guest->machine, 0)->policy_number, 2);
	world_close(&world);
}

/* A plan points to channels and domains of a guest that ends, starts again, is forgotten. */
Test(life, a_guest_goes_while_a_plan_points_to_it)
{
	struct world world;
	struct push push;
	struct told told;
	struct definition *test;

	world_open(&world, NULL);
	test = life_find(&world, "test");
	pair_open(&world, "one", "two", "svc");
	push_begin(&world, POLICY_NO_SEND, STOP_ALL, &push);
	world_until(&world, is_pinned, NULL, "there is a plan");
	DO(lifecycle_destroy(world.monitor, test, why_not));
	life_begin(&world, test, false, &told);
	cr_assert_eq(world.monitor->registry->n_guests, 1, "the old run stays until the change has ended");
	push_finish(&world, &push);
	cr_assert_eq(report_number(push.report, "flows.cut"), 0, "its channels ended before the cut");
	json_decref(push.report);
	life_finish(&world, &told);
	cr_assert_eq(told.error, 0, "%s", told.why);
	cr_assert_eq(world.monitor->registry->n_guests, 1);
	life_until_up(&world, "two");
	life_until_up(&world, "three");

	pair_open(&world, "three", "two", "svc");
	push_begin(&world, POLICY_SWAP, STOP_ALL, &push);
	world_until(&world, is_pinned, NULL, "there is a plan");
	DO(lifecycle_shutdown(world.monitor, test, why_not));
	DO(lifecycle_undefine(world.monitor, test, why_not));
	cr_assert_eq(world.monitor->registry->n_guests, 1);
	push_finish(&world, &push);
	json_decref(push.report);
	cr_assert_eq(world.monitor->registry->n_guests, 0);
	world_close(&world);
}

Test(life, a_push_cuts_a_suspended_guest_which_stays_suspended)
{
	struct world world;
	struct definition *test;
	struct pair pair;
	json_t *report;
	uint64_t exits;

	world_open(&world, NULL);
	test = life_find(&world, "test");
	pair = pair_open(&world, "one", "two", "svc");
	cr_assert_eq(pair_send(&world, &pair, true, 1, 3), CALL_OK);
	actor_begin(&world, "one", (struct command){ACTOR_RECEIVE, {pair.at_client, 1, NO_TIMEOUT}, NULL});
	actor_until_blocked(&world, "one");
	DO(lifecycle_suspend(world.monitor, test, why_not));
	exits = machine_counters(test->guest->machine).exits;
	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_assert_eq(report_number(report, "flows.cut"), 2);
	cr_assert_eq(report_number(report, "cuts.0.discarded_messages"), 3);
	json_decref(report);
	cr_assert_eq(test->state, LIFECYCLE_SUSPENDED);
	cr_assert_eq(machine_stop_count(test->guest->machine), 1,
	             "the change took its own stop back, not ours");
	cr_assert_eq(machine_counters(test->guest->machine).exits, exits, "it has run");
	cr_assert(inbox_is_empty(pair.channel, SIDE_SERVER), "the cut is complete all the same");
	cr_assert(inbox_is_empty(pair.channel, SIDE_CLIENT));
	DO(lifecycle_resume(world.monitor, test, why_not));
	cr_assert_eq(actor_finish(&world, "one"), CALL_REVOKED);
	cr_assert_eq(pair_receive(&world, &pair, false, 1), CALL_REVOKED);
	world_close(&world);
}

static struct guest *guest_of(struct world *world, const char *name)
{
	return life_find(world, name)->guest;
}

Test(life, stop_affected_asks_no_other_guest)
{
	struct world world;
	uint64_t before;

	world_open(&world, NULL);
	life_define(&world, LIFE_OTHER, true);
	life_start(&world, "other");
	life_until_up(&world, "five");
	pair_open(&world, "one", "two", "svc");
	before = machine_stop_requests(guest_of(&world, "test")->machine);
	world_push_quietly(&world, POLICY_NO_CONNECT, STOP_AFFECTED);
	cr_assert_eq(machine_stop_requests(guest_of(&world, "other")->machine), 0);
	cr_assert_gt(machine_stop_requests(guest_of(&world, "test")->machine), before);
	world_close(&world);
}

Test(life, a_new_run_has_new_generations_and_zeroed_outboxes)
{
	struct world world;
	uint64_t generation[3];

	world_open(&world, NULL);
	for (unsigned run = 0; run < 3; run++) {
		struct pair pair;
		const uint8_t *outbox;
		struct domain *one = world_domain(&world, "one");

		for (uint32_t d = 0; d < one->guest->n_domains; d++)
			life_until_up(&world, one->guest->domains[d].name);
		outbox = window_outbox(one->guest->machine, one->first_slot);
		for (size_t i = 0; i < SLOT_BULK_OFFSET + DEFAULT_BULK_BYTES; i++)
			cr_assert_eq(outbox[i], 0, "run %u: byte %zu", run, i);
		pair = pair_open(&world, "one", "two", "svc");
		cr_assert_eq(pair_send(&world, &pair, true, 7, 3), CALL_OK);
		generation[run] = pair.channel->end[SIDE_CLIENT].generation;
		cr_assert(run == 0 || generation[run] > generation[run - 1]);
		DO(lifecycle_shutdown(world.monitor, life_find(&world, "test"), why_not));
		life_start(&world, "test");
	}
	world_close(&world);
}

#define SIZED(name, bulk)                                                                                    \
	"name = \"" name "\"; bulk_bytes = " bulk                                                            \
	"; domains = ( { name = \"five\"; program = \"" TEST_DOMAINS                                         \
	"t_actor.elf\"; context = \"system_u:system_r:three_t:s0\"; } );\n"

static uint64_t mappings_of(struct world *world, const char *guest)
{
	const struct machine *machine = life_find(world, guest)->guest->machine;

	return window_worst_mappings(machine) - machine_total_slots(machine) / 2;
}

/* I3: what is seen of a slot that is shorter than the reader's has a tombstone behind it, so that both ends
 * of a channel can need two mappings. A guest whose windows might not fit does not start. */
Test(life, slots_of_two_sizes_need_more_mappings)
{
	struct world world;
	struct told told;

	world_open(&world, NULL);
	life_define(&world, SIZED("a", "65536"), true);
	life_define(&world, SIZED("b", "131072"), true);
	life_define(&world, SIZED("c", "65536"), true);
	life_start(&world, "a");
	/* Exactly as many as another guest like "a" needs, and the reserve. */
	world.monitor->mappings_allowed = mappings_of(&world, "test") + 2 * mappings_of(&world, "a") + 4096;
	life_begin(&world, life_find(&world, "b"), false, &told);
	life_finish(&world, &told);
	cr_expect_eq(told.error, -ENOSPC, "%d %s", told.error, told.why);
	cr_expect(strstr(told.why, "vm.max_map_count="), "%s", told.why);
	life_start(&world, "c");
	world_close(&world);
}
