/*
 * Guests over the control socket: what the command line promises, who may, and what a hostile client sends
 * (H11).
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monitor/client.h"
#include "monitor/loop.h"
#include "tests/monitor/cli_child.h"

#define BASE "policy/base.cil"
#define DEMO "examples/demo/demo.cil"
#define PROGRAMS "--programs", "build/domains"
#define PATIENCE_NS 20000000000ull

#define SERVER(name)                                                                                         \
	"{ name = \"" name "\"; program = \"echo\"; offers = ( \"" name "\" ); "                             \
	"context = \"system_u:system_r:server_t:s0\"; }"
#define GUEST(name) "{ name = \"" name "\"; domains = ( " SERVER("in_" name) " ); }"
#define TWO "policy = ( \"elsewhere.cil\" );\nguests = (\n" GUEST("g1") ",\n" GUEST("g2") " );\n"
#define ONE "guests = (\n" GUEST("g3") " );\n"
#define ONCE(name, more)                                                                                     \
	"{ name = \"" name "\"; program = \"client\"; args = ( \"" more "\", \"--once\" ); "                 \
	"context = \"system_u:system_r:client_t:s0\"; }"

struct served {
	struct child child;
	const char *path;
};

static struct served serve(void)
{
	struct served served = {.path = test_path("s")};
	struct child child;

	need_kvm();
	served.child = START("serve", "--policy", BASE, "--policy", DEMO, "--socket", served.path);
	child = RUN("status", "--until", "running", "--socket", served.path);
	EXPECT(child, 0, "");
	return served;
}

static void end(struct served *served)
{
	struct child child = RUN("shutdown", "--socket", served->path);

	EXPECT(child, 0, "");
	child_finish(&served->child);
	EXPECT(served->child, 0, "stop: orderly");
}

#define SAYS(served, status, text, ...)                                                                      \
	do {                                                                                                 \
		struct child said = RUN("guest", __VA_ARGS__, "--socket", (served).path);                    \
		if (status)                                                                                  \
			EXPECT(said, status, text);                                                          \
		else {                                                                                       \
			cr_expect_str_eq(said.out, text);                                                    \
			EXPECT(said, 0, "");                                                                 \
		}                                                                                            \
	} while (0)

Test(life, the_verbs_upon_guests)
{
	struct served served = serve();
	const char *two = test_file("two.conf", TWO);
	struct child child;
	json_t *list;

	SAYS(served, 0, "g1: running\ng2: running\n", "start", two, PROGRAMS);
	SAYS(served, 0, "g1: suspended\n", "suspend", "g1");
	SAYS(served, 1, "guest g1 is suspended already", "suspend", "g1");
	SAYS(served, 0, "g1: running\n", "resume", "g1");
	SAYS(served, 0, "g1: stopped\n", "stop", "g1");
	SAYS(served, 1, "guest g1 does not run: it is stopped", "stop", "g1");
	SAYS(served, 1, "guest g2 is there already, and running", "start", two, PROGRAMS);
	SAYS(served, 0, "g1: suspended\n", "start", "g1", "--paused");
	SAYS(served, 1, "guest g2 is running; portcullis guest stop g2 ends it", "undefine", "g2");
	SAYS(served, 1, "there is no guest \"g3\"; did you mean \"g", "stop", "g3");
	SAYS(served, 1, "stands for the ports of this monitor", "stop", "host");

	child = RUN("guest", "list", "--json", "--socket", served.path);
	list = json_loads(child.out, 0, NULL);
	cr_assert_eq(json_array_size(list), 2);
	cr_expect_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "name")), "g1");
	cr_expect_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "state")), "suspended");
	cr_expect_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "reason")), "operator");
	cr_expect_eq(strlen(json_string_value(json_object_get(json_array_get(list, 0), "uuid"))), 36);
	cr_expect_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "state")), "running");
	json_decref(list);
	EXPECT(child, 0, "");

	SAYS(served, 0, "g1: stopped\n", "stop", "g1");
	SAYS(served, 0, "g1: undefined\n", "undefine", "g1");
	SAYS(served, 1, "there is no guest \"g1\"", "start", "g1");
	SAYS(served, 0, "g2: stopped\n", "stop", "g2");
	end(&served);
}

Test(life, mistakes_in_a_start_change_nothing)
{
	struct served served = serve();
	const char *bad = test_file("bad.conf", "name = \"g\";\ndomans = ();\n");
	const char *missing =
		test_file("missing.conf", "name = \"g\";\ndomains = (\n{ name = \"a\"; program = "
	                                  "\"ehco\"; context = \"a:b:c:s0\"; } );\n");
	const char *unknown =
		test_file("unknown.conf", "name = \"g\";\ndomains = (\n{ name = \"a\"; program = "
	                                  "\"echo\"; context = \"a:b:c:s0\"; } );\n");

	SAYS(served, 1, "none.conf: No such file", "start", test_path("none.conf"));
	SAYS(served, 1, "bad.conf:2: a manifest has no key \"domans\"; did you mean", "start", bad);
	SAYS(served, 1, "missing.conf:3: program \"ehco\": there is no build/domains/ehco.elf", "start",
	     missing, PROGRAMS);
	SAYS(served, 1, "unknown.conf:3: the policy does not know the context \"a:b:c:s0\"", "start", unknown,
	     PROGRAMS);
	SAYS(served, 1, "data for domain \"b\", which the manifest does not have", "start", unknown, PROGRAMS,
	     "--data", "b=x");
	SAYS(served, 1, "ports.conf:1: ports are opened when the monitor starts", "start",
	     test_file("ports.conf", "ports = ();\n" ONE), PROGRAMS);
	SAYS(served, 2, "expected DOMAIN=FILE", "start", unknown, "--data", "b");
	SAYS(served, 2, "MANIFEST|GUEST is missing", "start");
	SAYS(served, 0, "g: undefined\n", "undefine", "g");
	end(&served);
}

Test(life, every_verb_is_a_permission)
{
	static const char *const verbs[][3] = {
		{"define", "undefine", "g2"}, {"start", "start", "g2"},  {"suspend", "suspend", "g1"},
		{"resume", "resume", "g1"},   {"getattr", "list", NULL}, {"stop", "stop", "g1"},
	};
	struct served served = serve();
	const char *two = test_file("two.conf", TWO);

	SAYS(served, 0, "g1: running\ng2: running\n", "start", two, PROGRAMS);
	SAYS(served, 0, "g2: stopped\n", "stop", "g2");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		struct child child =
			RUN("policy", "revoke", "*", "*", "guest", verbs[i][0], "--socket", served.path);
		char text[128];

		EXPECT(child, 0, "");
		snprintf(text, sizeof(text), "guest { %s }", verbs[i][0]);
		if (verbs[i][2])
			child = RUN("guest", verbs[i][1], verbs[i][2], "--socket", served.path);
		else
			child = RUN("guest", verbs[i][1], "--socket", served.path);
		cr_expect(strstr(child.err, "access denied: "), "%s: %s", verbs[i][0], child.err);
		cr_expect(strstr(child.err, verbs[i][0]), "%s: %s", verbs[i][0], child.err);
		EXPECT(child, 1, "");
	}
	/* A manifest is defined before it is started. */
	SAYS(served, 1, "access denied", "start", test_file("one.conf", ONE), PROGRAMS);
	end(&served);
}

/* ---- requests that the command line does not make ---- */

static int sealed(const char *text, size_t bytes)
{
	int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(write(fd, text, bytes), (ssize_t)bytes);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
	return fd;
}

static void refused(const struct served *served, const char *request, const int *fds, size_t n_fds,
                    const char *error)
{
	json_t *json = json_loads(request, 0, NULL);
	struct client_reply reply;
	char why[WHY_BYTES];

	cr_assert_not_null(json, "%s", request);
	cr_assert_eq(client_call(served->path, json, fds, n_fds, loop_now() + PATIENCE_NS, &reply, why), 0,
	             "%s", why);
	cr_expect_eq(reply.status, 1, "%s", request);
	cr_expect(strstr(reply.error, error), "%s: expected \"%s\": %s", request, error, reply.error);
	client_reply_clear(&reply);
	json_decref(json);
}

#define START_OF(members) "{\"verb\": \"guest start\", " members "}"
#define WITH(files) START_OF("\"manifest\": \"m.conf\", \"files\": [" files "]")

Test(life, hostile_starts)
{
	static const char good[] = "name = \"g\";\ndomains = ( " SERVER("a") " );\n";
	static const char by_path[] =
		"name = \"g\";\ndomains = (\n{ name = \"a\"; program = \"/etc/passwd\"; "
		"context = \"system_u:system_r:server_t:s0\"; } );\n";
	static const char include[] = "@include \"/etc/passwd\"\n";
	struct served served = serve();
	int fds[3] = {sealed(good, sizeof(good) - 1), sealed("\177ELF no more", 12), sealed("", 0)};
	int path[1] = {sealed(by_path, sizeof(by_path) - 1)}, binary[1] = {sealed("a\0b", 3)};
	int included[1] = {sealed(include, sizeof(include) - 1)};

	refused(&served, START_OF("\"paused\": true"), NULL, 0, "a manifest or the name of a guest");
	refused(&served, START_OF("\"manifest\": \"m\", \"guest\": \"g\""), NULL, 0,
	        "a manifest or the name");
	refused(&served, START_OF("\"manifest\": \"m.conf\""), NULL, 0, "files has one name for each");
	refused(&served, START_OF("\"manifest\": \"\", \"files\": [\"m\"]"), fds, 1,
	        "the manifest needs a name");
	refused(&served, START_OF("\"guest\": \"g\""), fds, 1, "files belong to a manifest");
	refused(&served, START_OF("\"guest\": 5"), NULL, 0, "bad request: guest start");
	refused(&served, WITH("\"manifest\""), fds, 2, "files has one name for each");
	refused(&served, WITH("\"manifest\", 5"), fds, 2, "files has one name for each");
	refused(&served, START_OF("\"manifest\": \"m\", \"files\": [\"m\"], \"data\": [\"x\"]"), fds, 1,
	        "DOMAIN=FILE");
	refused(&served, WITH("\"manifest\""), fds, 1,
	        "m.conf:2: program echo: the request did not bring it");
	refused(&served, WITH("\"manifest\", \"program:ehco\""), fds, 2, "the request did not bring it");
	refused(&served, WITH("\"manifest\", \"data:echo\""), fds, 2, "the request did not bring it");
	refused(&served, WITH("\"manifest\", \"program:echo\""), fds, 2, "echo: ");
	refused(&served, WITH("\"m\", \"program:echo\""), (int[]){fds[0], fds[2]}, 2, "the file is empty");
	refused(&served, WITH("\"m\""), &fds[2], 1, "the manifest is empty");
	refused(&served, WITH("\"m\""), path, 1, "/etc/passwd: the request did not bring it");
	refused(&served, WITH("\"m\""), included, 1, "m.conf:1: @include is not possible");
	refused(&served, WITH("\"m\""), binary, 1, "it holds a zero byte");
	refused(&served, "{\"verb\": \"guest suspend\", \"guest\": \"\"}", NULL, 0, "there is no guest");
	refused(&served, "{\"verb\": \"guest stop\", \"guest\": \"g\", \"force\": 1}", NULL, 0,
	        "bad request");
	end(&served);
}

/* ---- run ---- */

Test(life, run_ends_when_the_guests_of_all_files_have_ended)
{
	const char *first, *second;
	struct child child;

	need_kvm();
	first = test_file(
		"1.conf",
		"policy = ( \"p.cil\" );\nguests = (\n{ name = \"g1\"; domains = ( " SERVER(
			"echo") " ); },\n{ name = \"g2\"; domains = ( " ONCE("c", "echo") " ); } );\n");
	second = test_file("2.conf", "name = \"g3\";\ndomains = ( " ONCE("d", "none") " );\n");
	child = START("run", first, second, PROGRAMS, "--policy", BASE, "--policy", DEMO, "--socket",
	              test_path("s"));
	child_await(&child, "g3/d: none: ");
	child_await(&child, "event=shutdown reason=finished");
	{
		struct child stop = RUN("guest", "stop", "g1", "--socket", test_path("s"));

		EXPECT(stop, 0, "");
	}
	child_finish(&child);
	EXPECT(child, 1, "portcullis: g3/d ended with status");
}
