/*
 * I3, all or nothing (R8): whatever fails while a change is made, the state is all-old or
 * all-new, and the next push works.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/monitor/world.h"
#include "tests/monitor/world_faults.h"
#include "tests/monitor/world_proxy.h"
#include "vmm/window.h"

#define SHORT_NS 300000000ull /* a deadline that is meant to pass */

struct scene {
	struct world world;
	struct pair one, three;
	uint64_t counter;
};

static void scene_open(struct scene *scene)
{
	*scene = (struct scene){.counter = 1};
	world_open(&scene->world, NULL);
	scene->one = pair_open(&scene->world, "one", "two", "svc");
	scene->three = pair_open(&scene->world, "three", "two", "svc");
}

/* Both channels carry messages, and a new connect is decided by the old policy. */
static void assert_all_works(struct scene *scene)
{
	struct pair another;

	for (int i = 0; i < 2; i++) {
		const struct pair *pair = i ? &scene->three : &scene->one;

		cr_assert_eq(pair_send(&scene->world, pair, true, scene->counter, 2), CALL_OK);
		cr_assert_eq(pair_receive(&scene->world, pair, false, 2), 8);
		cr_assert_eq(world_mailbox(&scene->world, "two")->value[2], scene->counter + 1);
	}
	scene->counter += 2;
	another = pair_open(&scene->world, "one", "four", "aux");
	pair_close(&scene->world, &another);
}

static void assert_next_push_works(struct scene *scene)
{
	json_t *report = world_push(&scene->world, POLICY_NO_CONNECT, STOP_ALL);

	cr_assert_eq(report_number(report, "policy_number"), 2);
	cr_assert_eq(report_number(report, "flows.cut"), 2);
	json_decref(report);
	cr_assert_eq(pair_send(&scene->world, &scene->one, true, 1, 1), CALL_REVOKED);
	cr_assert_eq(pair_send(&scene->world, &scene->three, true, scene->counter, 1), CALL_OK);
}

/* A push with that harm at the nth packet. False: the push had no such packet, and succeeded. */
static bool push_with_harm(struct scene *scene, enum proxy_harm harm, unsigned n)
{
	uint64_t deadline_ns = scene->world.monitor->deadline_ns;
	char *before = world_snapshot(&scene->world, SNAPSHOT_QUIET), what[64];
	json_t *report;
	int status;

	snprintf(what, sizeof(what), "harm %d at packet %u", harm, n);
	proxy_arm(harm, n);
	if (harm == PROXY_STOP)
		scene->world.monitor->deadline_ns = SHORT_NS;
	report = world_try_push(&scene->world, POLICY_NO_SEND, STOP_ALL, &status);
	scene->world.monitor->deadline_ns = deadline_ns;
	if (status == 0) {
		cr_assert(!proxy_fired() || harm == PROXY_REPEAT, "%s: the push succeeded", what);
		json_decref(report);
		free(before);
		return false;
	}
	cr_assert(proxy_fired(), "%s: failed without being harmed: %s", what, strerror(-status));
	cr_assert_null(report);
	cr_assert(harm != PROXY_STOP || status == -ETIMEDOUT, "%s: %s", what, strerror(-status));
	snapshot_assert_equal(before, world_snapshot(&scene->world, SNAPSHOT_QUIET), what);
	return true;
}

/* One harm at every packet of a push in turn; after each the old policy decides and everything works. */
static void harm_every_packet(enum proxy_harm harm)
{
	struct scene scene;
	unsigned n = 1;

	scene_open(&scene);
	while (n < 100 && push_with_harm(&scene, harm, n)) {
		n++;
		assert_all_works(&scene);
	}
	cr_assert_gt(n, 4, "a push has more than %u packets", n);
	cr_assert_lt(n, 100);
	cr_assert_eq(scene.world.monitor->posture->policy_number, 2); /* the one that was not harmed */
	world_close(&scene.world);
}

Test(promise, i3_server_killed_at_each_packet)
{
	harm_every_packet(PROXY_KILL);
}

Test(promise, i3_server_hangs_at_each_packet)
{
	harm_every_packet(PROXY_STOP);
}

Test(promise, i3_server_talks_garbage_at_each_packet)
{
	harm_every_packet(PROXY_GARBAGE);
}

Test(promise, i3_server_breaks_off_at_each_packet)
{
	harm_every_packet(PROXY_TRUNCATE);
}

Test(promise, i3_server_hangs_up_at_each_packet)
{
	harm_every_packet(PROXY_CLOSE);
}

/* A second answer to one question is garbage too. What comes behind the last answer has no question to harm.
 */
Test(promise, i3_server_repeats_itself)
{
	struct scene scene;
	unsigned n_failed = 0;

	scene_open(&scene);
	for (unsigned n = 1; n < 4; n++)
		n_failed += push_with_harm(&scene, PROXY_REPEAT, n);
	cr_assert_eq(n_failed, 3);
	assert_all_works(&scene);
	assert_next_push_works(&scene);
	world_close(&scene.world);
}

Test(promise, i3_server_cannot_be_started)
{
	struct scene scene;

	scene_open(&scene);
	cr_assert(push_with_harm(&scene, PROXY_NO_SPAWN, 0));
	assert_all_works(&scene);
	assert_next_push_works(&scene);
	world_close(&scene.world);
}

Test(promise, i3_policy_that_does_not_compile)
{
	static const char *const files[] = {"policy/base.cil", "tests/cil/broken.cil", NULL};
	struct scene scene;
	char *before, *why = NULL;
	int status;

	scene_open(&scene);
	before = world_snapshot(&scene.world, SNAPSHOT_QUIET);
	cr_assert_null(stage_push(scene.world.stage, files, 2, STOP_ALL, false, &status, &why));
	cr_assert_eq(status, -EBADMSG);
	cr_assert(strstr(why, "broken.cil:4"), "where it is wrong: %s", why);
	free(why);
	snapshot_assert_equal(before, world_snapshot(&scene.world, SNAPSHOT_QUIET), "a refused policy");
	assert_all_works(&scene);
	assert_next_push_works(&scene);
	world_close(&scene.world);
}

/* R8: each allocation of a push fails once. All-old, or (from commit on) all-new. */
Test(promise, i3_every_allocation_fails)
{
	struct scene scene;
	bool fired = true;
	uint64_t n = 0;

	scene_open(&scene);
	world_push_quietly(&scene.world, POLICY_OPEN,
	                   STOP_ALL); /* what is allocated once and kept is there now */
	while (fired) {
		uint64_t number = scene.world.monitor->posture->policy_number;
		char *before = world_snapshot(&scene.world, SNAPSHOT_QUIET), what[64];
		bool in_force;
		json_t *report;
		int status;

		snprintf(what, sizeof(what), "the failure of allocation %llu", (unsigned long long)++n);
		fault_allocation(n);
		report = world_try_push(&scene.world, POLICY_NO_SEND, STOP_ALL, &status);
		fired = fault_allocation_fired();
		in_force = scene.world.monitor->posture->policy_number > number;
		cr_assert(fired || status == 0, "%s: %s", what, strerror(-status));
		cr_assert(in_force || status < 0, "%s", what);
		json_decref(report);
		if (in_force) {
			cr_assert_eq(pair_send(&scene.world, &scene.one, true, 1, 1), CALL_REVOKED);
			pair_close(&scene.world, &scene.one);
			world_push_quietly(&scene.world, POLICY_OPEN, STOP_ALL);
			scene.one = pair_open(&scene.world, "one", "two", "svc");
			free(before);
		} else {
			snapshot_assert_equal(before, world_snapshot(&scene.world, SNAPSHOT_QUIET), what);
		}
	}
	cr_assert_gt(n, 20);
	assert_all_works(&scene);
	world_close(&scene.world);
}

/* ---- the server in force ---- */

struct servers {
	unsigned least;
};

static bool has_started(struct world *world, void *opaque)
{
	return proxy_n_servers() >= ((struct servers *)opaque)->least &&
	       world->monitor->posture->policy.server != NULL;
}

/* Cached decisions go on; what is not cached waits for the next server, and is then decided. */
Test(promise, i3_server_in_force_dies)
{
	struct scene scene;
	struct servers servers;
	struct pair pair;
	char *line;

	scene_open(&scene);
	servers.least = proxy_n_servers() + 1;
	proxy_signal_latest(SIGKILL);
	pair = pair_open(&scene.world, "one", "two", "svc"); /* decided from the cache */
	pair_close(&scene.world, &pair);
	pair = pair_open(&scene.world, "three", "four", "aux"); /* not cached */
	world_until(&scene.world, has_started, &servers, "another security server is started");
	line = audit_find(&scene.world, "PORTCULLIS_SERVER");
	cr_assert_not_null(line, "the death of a security server is in the audit trail");
	free(line);
	pair_close(&scene.world, &pair);
	assert_all_works(&scene);
	assert_next_push_works(&scene);
	world_close(&scene.world);
}

/* It hangs: the connect that waited for it is denied at its deadline, then another server decides. */
Test(promise, i3_server_in_force_hangs)
{
	struct scene scene;
	struct servers servers;
	struct pair pair;

	scene_open(&scene);
	servers.least = proxy_n_servers() + 1;
	scene.world.monitor->deadline_ns = SHORT_NS;
	proxy_signal_latest(SIGSTOP);
	cr_assert_eq(actor_do(&scene.world, "three", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "aux"}),
	             CALL_DENIED);
	scene.world.monitor->deadline_ns = 10000000000u;
	world_until(&scene.world, has_started, &servers, "another security server is started");
	pair = pair_open(&scene.world, "three", "four", "aux");
	pair_close(&scene.world, &pair);
	assert_all_works(&scene);
	assert_next_push_works(&scene);
	world_close(&scene.world);
}

/* ---- the host refuses a mapping ---- */

/* At vm.max_map_count: the guest whose window cannot be taken away is killed and named; the change is in
 * force. */
Test(promise, i3_mapping_is_refused_in_commit)
{
	struct scene scene;
	json_t *report;
	int status;

	scene_open(&scene);
	fault_mappings(true);
	report = world_try_push(&scene.world, POLICY_NO_CONNECT, STOP_ALL, &status);
	fault_mappings(false);
	cr_assert_eq(status, -EOWNERDEAD);
	cr_assert_eq(report_number(report, "policy_number"), 2);
	cr_assert_str_eq(report_text(report, "killed.0"), "test");
	json_decref(report);
	cr_assert(world_guest(&scene.world)->lost);
	cr_assert_eq(machine_state(world_guest(&scene.world)->machine), MACHINE_KILLED);
	cr_assert_eq(scene.world.monitor->posture->policy_number, 2);
	world_close(&scene.world);
}
