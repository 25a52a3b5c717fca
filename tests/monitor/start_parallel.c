/*
 * A monitor begins: the security server compiles while machines are built. Whichever of them fails, and
 * whichever is first, the same is told as if one came after the other, and nothing of the other is left.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/loop.h"
#include "policy/launcher.h"
#include "tests/monitor/cli_child.h"
#include "tests/monitor/world.h"
#include "tests/monitor/world_faults.h"
#include "tests/monitor/world_proxy.h"

#define ACTOR(name, context)                                                                                 \
	"{ name = \"" name "\"; program = \"" TEST_DOMAINS "t_actor.elf\"; context = \"" context "\"; }"
#define KNOWN "system_u:system_r:one_t:s0"
#define UNKNOWN "system_u:system_r:nobody_t:s0"
#define GUEST(name, context) "{ name = \"" name "\"; domains = ( " ACTOR("a", context) " ); }"

static const char one_guest[] = "name = \"g\"; domains = ( " ACTOR("a", KNOWN) " );\n";
static const char unknown_guest[] = "name = \"g\"; domains = ( " ACTOR("a", UNKNOWN) " );\n";
static const char three_guests[] =
	"guests = ( " GUEST("g", KNOWN) ", " GUEST("h", KNOWN) ", " GUEST("i", KNOWN) " );\n";

static const char *const refused[] = {"policy/base.cil", "tests/cil/refused.cil", NULL};

/* Links of /proc/self/fd that begin with this. */
static unsigned n_open(const char *prefix)
{
	DIR *directory = opendir("/proc/self/fd");
	char path[300], target[64];
	struct dirent *entry;
	unsigned n = 0;

	cr_assert_not_null(directory);
	while ((entry = readdir(directory))) {
		ssize_t bytes;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		bytes = readlink(path, target, sizeof(target) - 1);
		target[bytes > 0 ? bytes : 0] = '\0';
		n += strncmp(target, prefix, strlen(prefix)) == 0;
	}
	closedir(directory);
	return n;
}

static unsigned n_threads(const char *name)
{
	DIR *directory = opendir("/proc/self/task");
	char path[300], comm[32];
	struct dirent *entry;
	unsigned n = 0;

	cr_assert_not_null(directory);
	while ((entry = readdir(directory))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (file && fgets(comm, sizeof(comm), file))
			n += strncmp(comm, name, strlen(name)) == 0;
		if (file)
			fclose(file);
	}
	closedir(directory);
	return n;
}

/* A start that must fail with these words, and no others before them; nothing is left. */
static void expect_failure(const char *manifest, const char *const *policy, const char *words)
{
	struct launcher *launcher;
	struct stage_options options = {.manifest = manifest,
	                                .policies = policy ? policy : POLICY_OPEN,
	                                .n_policies = policy ? 2 : 3,
	                                .quiet = true};
	struct stage *stage = NULL;
	char line[WHY_BYTES], *why = NULL;

	need_kvm();
	cr_assert_eq(launcher_start(&launcher, line), 0, "%s", line);
	options.launcher = launcher;
	cr_assert_lt(stage_open(&options, &stage, &why), 0);
	cr_assert_not_null(why);
	cr_assert_not_null(strstr(why, words), "expected \"%s\": %s", words, why);
	free(why);
	cr_assert_eq(n_threads("worker"), 0);
	cr_assert_eq(n_threads("vcpu"), 0);
	cr_assert_eq(n_open("anon_inode:kvm"), 0);
	cr_assert_eq(n_open("/memfd:portcullis-outbox"), 0);
	cr_assert_eq(n_open("/dev/kvm"), 0);
	launcher_stop(launcher);
}

Test(start_parallel, machine_that_cannot_be_built)
{
	fault_build("g", NULL, true);
	expect_failure(one_guest, NULL, "guest g: " FAULT_BUILD_TEXT);
}

/* The server answers only after the build has failed, and the other way round: what is told is the same. */
Test(start_parallel, machine_fails_before_the_policy_is_compiled)
{
	fault_build("g", proxy_let_go, true);
	proxy_arm(PROXY_HOLD, 3);
	expect_failure(one_guest, NULL, "guest g: " FAULT_BUILD_TEXT);
	cr_assert(proxy_fired());
}

static void await_harm(void)
{
	cr_assert(proxy_await_harm());
}

Test(start_parallel, server_dies_while_the_machine_is_built)
{
	fault_build("g", await_harm, false);
	proxy_arm(PROXY_KILL, 3);
	expect_failure(one_guest, NULL, "security server");
	cr_assert(proxy_fired());
}

Test(start_parallel, server_cannot_be_started)
{
	proxy_arm(PROXY_NO_SPAWN, 1);
	expect_failure(one_guest, NULL, "the test does not let it start");
}

Test(start_parallel, the_policy_is_told_first)
{
	fault_build("g", NULL, true);
	expect_failure(one_guest, refused, "refused.cil:1:");
	fault_build(NULL, NULL, false);
	expect_failure(one_guest, refused, "refused.cil:1:");
}

/* The machine stands when it turns out that nobody may run in it. */
Test(start_parallel, contexts_are_told_before_the_machine)
{
	expect_failure(unknown_guest, NULL, "does not know the context \"" UNKNOWN "\" of domain \"a\"");
	fault_build("g", NULL, true);
	expect_failure(unknown_guest, NULL, "does not know the context \"" UNKNOWN "\" of domain \"a\"");
}

/* Those beside it are built already, or are being built. */
Test(start_parallel, one_guest_of_three_fails)
{
	fault_build("h", NULL, true);
	expect_failure(three_guests, NULL, "guest h: " FAULT_BUILD_TEXT);
	fault_build("i", NULL, true);
	expect_failure(three_guests, NULL, "guest i: " FAULT_BUILD_TEXT);
}

/* Guests that are built side by side share the cores all the same. */
Test(start_parallel, three_guests_start)
{
	struct world world;

	world_open(&world,
	           &(struct world_options){.manifest = three_guests, .quiet = true, .not_ready = true});
	cr_assert_eq(world.monitor->registry->n_guests, 3);
	for (uint32_t g = 0; g < 3; g++)
		cr_assert_eq(world.monitor->registry->guests[g]->name[0], "ghi"[g]);
	cr_assert_eq(n_threads("worker"), 0);
	world_close(&world);
}

/* A server that was ordered ahead, and in whose place another process is wanted, is given up. */
Test(start_parallel, prepared_in_vain)
{
	struct launcher *launcher;
	unsigned n_sockets = n_open("socket:"); /* Criterion's */
	char why[WHY_BYTES];
	int socket_fd, pidfd;

	cr_assert_eq(launcher_start(&launcher, why), 0, "%s", why);
	launcher_prepare(launcher);
	cr_assert_eq(launcher_spawn_xml_reader(launcher, &socket_fd, &pidfd, why), 0, "%s", why);
	cr_assert_eq(n_open("anon_inode:[pidfd]"), 2, "the reader's and the launcher's");
	close(socket_fd);
	close(pidfd);
	launcher_prepare(launcher);
	launcher_stop(launcher);
	cr_assert_eq(n_open("anon_inode:[pidfd]"), 0);
	cr_assert_eq(n_open("socket:"), n_sockets);
}
