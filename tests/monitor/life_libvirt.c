/*
 * The ends of guests that only hostile ones come to, as virsh sees them: crashed, killed, exited. virsh runs
 * as a child while this process turns the monitor's loop.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/guest.h"
#include "monitor/libvirt/server.h"
#include "tests/monitor/cli_child.h"
#include "tests/monitor/kind_support.h"
#include "tests/monitor/life_support.h"
#include "tests/monitor/world_faults.h"

#define EVENT_KINDS 20u /* virsh registers for more */

static const char *uri;

static void open_sockets(struct world *world)
{
	char why[WHY_BYTES], text[512];
	const struct libvirt_options options = {.path = strdup(test_path("l"))};

	cr_assert_eq(libvirt_open(world->monitor, &options, why), 0, "%s", why);
	snprintf(text, sizeof(text), "portcullis+unix:///system?socket=%s", options.path);
	uri = strdup(text);
}

static bool has_ended(struct world *world, void *opaque)
{
	struct pollfd poll_fd = {.fd = ((const struct child *)opaque)->pidfd, .events = POLLIN};

	(void)world;
	return poll(&poll_fd, 1, 0) == 1;
}

/* What it prints. */
static void virsh(struct world *world, const char *verb, const char *operand, const char *option,
                  const char *expected)
{
	struct child child =
		child_start_program("virsh", (const char *const[]){"-c", uri, verb, operand, option, NULL});

	world_until(world, has_ended, &child, "virsh ends");
	child_finish(&child);
	cr_expect_eq(child.status, 0, "%s", child.err);
	cr_expect_not_null(strstr(child.out, expected), "virsh %s %s: %s", verb, operand, child.out);
	child_free(&child);
}

static bool has_subscribed(struct world *world, void *opaque)
{
	const struct rpc_client *client = world->monitor->libvirt->first;
	uint32_t n = 0;

	(void)opaque;
	for (const struct subscription *at = client ? client->subscriptions : NULL; at; at = at->next)
		n++;
	return n >= EVENT_KINDS && client->n_calls == 0;
}

struct heard_by {
	const struct child *child;
	const char *text;
	char all[4096];
};

static bool has_printed(struct world *world, void *opaque)
{
	struct heard_by *heard = opaque;
	ssize_t n = pread(heard->child->out_fd, heard->all, sizeof(heard->all) - 1, 0);

	(void)world;
	heard->all[n > 0 ? n : 0] = '\0';
	return strstr(heard->all, heard->text) != NULL;
}

static void expect_event(struct world *world, const struct child *child, const char *text)
{
	struct heard_by heard = {.child = child, .text = text};

	world_until(world, has_printed, &heard, text);
}

Test(life, virsh_sees_every_end)
{
	struct world world;
	struct child events;
	struct definition *other;
	struct registry *registry;
	struct heard_by heard;

	world_open(&world, NULL);
	other = life_define(&world, LIFE_OTHER, true);
	open_sockets(&world);
	virsh(&world, "domstate", "other", "--reason", "shut off (unknown)");
	events = child_start_program(
		"stdbuf", (const char *const[]){"-oL", "virsh", "-c", uri, "event", "--all", "--loop", NULL});
	world_until(&world, has_subscribed, NULL, "virsh subscribes");

	fault_kernel(TEST_KERNELS "panic.elf");
	life_start(&world, "other");
	life_until_state(&world, "other", LIFECYCLE_CRASHED);
	fault_kernel(NULL);
	expect_event(&world, &events, "Crashed Panicked");
	virsh(&world, "domstate", "other", "--reason", "crashed (panicked)");
	virsh(&world, "list", "--all", "--state-other", "other");
	virsh(&world, "start", "other", NULL, "started");
	virsh(&world, "domstate", "other", "--reason", "running (booted)");

	/* Quarantine is no event of a guest's life. */
	json_decref(change_do(&world, (struct change_request){
					      .kind = CHANGE_QUARANTINE, .guest = "test", .domain = "one"}));
	life_until_up(&world, "five");
	actor_begin(&world, "five", (struct command){ACTOR_EXIT, {0}, NULL});
	life_until_state(&world, "other", LIFECYCLE_OFF);
	expect_event(&world, &events, "Shutdown Finished after guest request");
	virsh(&world, "domstate", "other", "--reason", "shut off (shutdown)");

	life_start(&world, "other");
	registry = registry_lock(world.monitor);
	guest_lose(registry, other->guest, "a test");
	registry_unlock(registry);
	life_until_state(&world, "other", LIFECYCLE_OFF);
	expect_event(&world, &events, "Stopped Crashed");
	virsh(&world, "domstate", "other", "--reason", "shut off (crashed)");

	heard = (struct heard_by){.child = &events, .text = ""};
	has_printed(&world, &heard);
	cr_expect_null(strstr(heard.all, "'test'"), "%s", heard.all);
	child_signal(&events, SIGKILL);
	child_finish(&events);
	child_free(&events);
	libvirt_close(world.monitor);
	world_close(&world);
}
