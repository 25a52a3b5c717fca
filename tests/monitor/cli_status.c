/*
 * The command line: what scripts rely on. Exit statuses, one line that says why,
 * nothing left behind.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/monitor/cli_child.h"

#define BASE "policy/base.cil"
#define DEMO "examples/demo/demo.cil"
#define STRICT "examples/demo/strict.cil"
#define PROGRAMS "--programs", "build/domains"

static void expect_one_line(const struct child *child)
{
	const char *end = strchr(child->err, '\n');

	cr_expect(end && !end[1], "more than a line: %s", child->err);
}

/* ---- wrong usage ---- */

Test(cli, wrong_usage_is_2_and_teaches)
{
	struct child child = RUN("statsu");
	EXPECT(child, 2, "did you mean \"status\"?");
	child = RUN("policy", "psuh");
	EXPECT(child, 2, "did you mean \"policy push\"?");
	child = RUN("policy");
	EXPECT(child, 2, "policy explain SOURCE TARGET CLASS PERMISSION");
	child = RUN("run");
	EXPECT(child, 2, "MANIFEST... is missing");
	child = RUN("status", "b");
	EXPECT(child, 2, "\"b\" is one argument too many");
	child = RUN("run", "--plicy", "x", "y");
	EXPECT(child, 2, "did you mean \"--policy\"?");
	child = RUN("run", "x", "--policy");
	EXPECT(child, 2, "--policy needs a value: --policy FILE");
	child = RUN("status", "--socket", "");
	EXPECT(child, 2, "--socket needs a value: --socket PATH");
	child = RUN("policy", "push", "--force=yes", "x");
	EXPECT(child, 2, "--force takes no value");
	child = RUN("policy", "push", "--stop", "some", BASE);
	EXPECT(child, 2, "expected all, affected or none");
	child = RUN("audit", "--lines", "-1");
	EXPECT(child, 2, "expected a whole number up to 4096");
	child = RUN("channel", "list", "--until", "1", "--deadline", "never");
	EXPECT(child, 2, "expected seconds");
	child = RUN("status", "--deadline", "abc");
	EXPECT(child, 2, "there is no --until");
	child = RUN("serve");
	EXPECT(child, 2, "--policy FILE");
	child = RUN("check");
	EXPECT(child, 2, "A manifest, or a policy");
	child = RUN("policy", "query", "a", "b", "chanel");
	EXPECT(child, 2, "did you mean \"channel\"?");
	child = RUN("policy", "explain", "a", "b", "channel", "snd");
	EXPECT(child, 2, "did you mean \"send\"?");
}

Test(cli, help_is_0_everywhere)
{
	static const char *const verbs[][2] = {
		{"run", "--help"},      {"serve", "--help"},  {"check", "--help"},  {"policy", "--help"},
		{"doctor", "--help"},   {"status", "--help"}, {"audit", "--help"},  {"--help", NULL},
		{"status", "-h"},       {"help", "run"},      {"help", "policy"},   {"version", NULL},
		{"shutdown", "--help"}, {"guest", "--help"},  {"domain", "--help"}, {"channel", "--help"}};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		struct child child = RUN(verbs[i][0], verbs[i][1]);

		cr_expect_gt(strlen(child.out), 10, "%s", verbs[i][0]);
		cr_expect_str_eq(child.err, "");
		EXPECT(child, 0, "");
	}
}

/* ---- what is wrong with files ---- */

struct bad_manifest {
	const char *text;
	const char *err;
};

#define HEAD "name = \"g\"; policy = ( \"p.cil\" );\n"

static const struct bad_manifest bad_manifests[] = {
	{HEAD "vcpu = 2;\n", "m.conf:2: a manifest has no key \"vcpu\"; did you mean \"vcpus\"?"},
	{HEAD "domains = ( { name = \"a\"; context = \"u:r:t:s0\"; program = \"none\"; } );\n",
         "m.conf:2: program \"none\": there is no build/domains/none.elf"},
	{HEAD "domains = ( { name = \"a\"; context = \"u:r:t:s0\"; program = \"echo\"; },\n"
              "{ name = \"a\"; context = \"u:r:t:s0\"; program = \"echo\"; } );\n",
         "m.conf:3: a second domain \"a\""},
};

Test(cli, a_bad_manifest_is_1_with_its_line)
{
	test_file("p.cil", "(block)");
	for (size_t i = 0; i < sizeof(bad_manifests) / sizeof(bad_manifests[0]); i++) {
		const char *path = test_file("m.conf", bad_manifests[i].text);
		struct child child = RUN("check", path, PROGRAMS);

		expect_one_line(&child);
		EXPECT(child, 1, bad_manifests[i].err);
		child = RUN("run", path, PROGRAMS, "--socket", test_path("s"));
		expect_one_line(&child);
		EXPECT(child, 1, bad_manifests[i].err);
	}
}

Test(cli, a_context_that_the_policy_does_not_know)
{
	const char *manifest =
		test_file("m.conf", "name = \"g\";\ndomains = (\n{ name = \"a\"; program = \"echo\";\n"
	                            "context = \"system_u:system_r:none_t:s0\"; } );\n");
	struct child child = RUN("check", manifest, PROGRAMS, "--policy", BASE, "--policy", DEMO);

	expect_one_line(&child);
	cr_expect(strstr(child.err, "m.conf:3: "), "%s", child.err);
	EXPECT(child, 1, "does not know the context system_u:system_r:none_t:s0");
	need_kvm();
	child = RUN("run", manifest, PROGRAMS, "--policy", BASE, "--policy", DEMO, "--socket",
	            test_path("s"));
	cr_expect(strstr(child.err, "m.conf:3: "), "%s", child.err);
	EXPECT(child, 1, "system_u:system_r:none_t:s0");
}

Test(cli, a_port_that_is_wrong)
{
	const char *form =
		"name = \"g\";\ndomains = ( { name = \"a\"; program = \"echo\"; offers = ( \"shop\" ); "
		"context = \"system_u:system_r:server_t:s0\"; } );\n"
		"ports = ( { name = \"p\"; kind = \"stdio\"; to = \"%s\"; context = "
		"\"system_u:system_r:%s:s0\"; } );";
	char text[512];
	struct child child;

	snprintf(text, sizeof(text), form, "shop", "none_t");
	child = RUN("check", test_file("m.conf", text), PROGRAMS, "--policy", BASE, "--policy", DEMO);
	EXPECT(child, 1,
	       "m.conf:3: port \"p\": the policy does not know the context system_u:system_r:none_t:s0");
	snprintf(text, sizeof(text), form, "g/shp", "client_t");
	child = RUN("check", test_file("m.conf", text), PROGRAMS, "--policy", BASE, "--policy", DEMO);
	EXPECT(child, 0,
	       "m.conf:3: port \"p\" connects to \"g/shp\", which no domain here offers; did you mean "
	       "\"shop\"?");
	snprintf(text, sizeof(text), form, "g/shop", "client_t");
	child = RUN("check", test_file("m.conf", text), PROGRAMS, "--policy", BASE, "--policy", DEMO);
	cr_expect_str_eq(child.err, "");
	EXPECT(child, 0, "");
}

Test(cli, a_client_whose_context_the_policy_does_not_know)
{
	const char *manifest = test_file(
		"m.conf",
		"name = \"g\";\nclients = (\n{ uid = 1; context = \"system_u:system_r:none_t:s0\"; } );\n"
		"domains = ( { name = \"a\"; program = \"echo\"; context = "
		"\"system_u:system_r:client_t:s0\"; } );\n");
	struct child child = RUN("check", manifest, PROGRAMS, "--policy", BASE, "--policy", DEMO);

	EXPECT(child, 1, "m.conf:3: uid 1: the policy does not know the context system_u:system_r:none_t:s0");
}

struct bad_policy {
	const char *text;
	const char *err;
};

static const struct bad_policy bad_policies[] = {
	{"(type a_t)\n(allow a_t", "bad.cil"},
	{"(type a_t)\n(allow a_t a_t (channel (sned)))", "bad.cil:2:"},
	{"(type a_t)\n(allow a_t b_t (channel (send)))", "bad.cil:2:"},
	{"(type a_t)\n(neverallow a_t a_t (channel (send)))\n(allow a_t a_t (channel (send)))", "bad.cil:"},
};

Test(cli, a_bad_policy_is_1_with_its_line)
{
	for (size_t i = 0; i < sizeof(bad_policies) / sizeof(bad_policies[0]); i++) {
		const char *bad = test_file("bad.cil", bad_policies[i].text);
		struct child child = RUN("check", "--policy", BASE, "--policy", bad);

		EXPECT(child, 1, bad_policies[i].err);
	}
}

Test(cli, questions_without_a_monitor)
{
	struct child child =
		RUN("policy", "query", "system_u:system_r:client_t:s0", "system_u:system_r:server_t:s0",
	            "channel", "--policy", BASE, "--policy", DEMO);

	cr_expect_str_eq(child.out, "connect send recv flowctl\n");
	EXPECT(child, 0, "");
	child = RUN("policy", "explain", "system_u:system_r:client_t:s0", "system_u:system_r:kept_t:s0",
	            "channel", "send", "--policy", BASE, "--policy", DEMO);
	cr_expect_str_eq(child.out, "no rule allows client_t kept_t:channel send\n");
	EXPECT(child, 0, "");
	child = RUN("policy", "query", "a", "b", "channel", "--policy", test_path("none"));
	EXPECT(child, 1, "none: No such file");
}

/* ---- no monitor, no KVM ---- */

Test(cli, no_monitor)
{
	static const char *const verbs[][2] = {{"status", NULL}, {"audit", NULL}, {"shutdown", NULL}};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		struct child child = RUN(verbs[i][0], "--socket", test_path("none"));

		expect_one_line(&child);
		EXPECT(child, 1, "no monitor serves");
	}
}

Test(cli, no_kvm)
{
	struct child child = RUN("run", "examples/demo/demo.conf", PROGRAMS, "--kvm", "/nonexistent/kvm",
	                         "--socket", test_path("s"));

	expect_one_line(&child);
	EXPECT(child, 1, "/nonexistent/kvm: No such file");
	child = RUN("run", "examples/demo/demo.conf", PROGRAMS, "--kvm", "/dev/null", "--socket",
	            test_path("s"));
	expect_one_line(&child);
	EXPECT(child, 1, "KVM");
	child = RUN("doctor", "--kvm", "/nonexistent/kvm");
	cr_expect(strstr(child.out, "FAIL  kvm"), "%s", child.out);
	EXPECT(child, 1, "guests cannot run here");
}

/* ---- a monitor without a guest ---- */

static struct child serve(const char *socket_path)
{
	struct child child = START("serve", "--policy", BASE, "--policy", DEMO, "--socket", socket_path,
	                           "--deadline", "20");
	struct child ask = RUN("status", "--until", "running", "--deadline", "30", "--socket", socket_path);

	EXPECT(ask, 0, "");
	return child;
}

/* Ends it and sees that nothing is left: no socket, no lock. */
static void end_in_order(struct child *server, const char *socket_path)
{
	char lock[300];

	child_finish(server);
	snprintf(lock, sizeof(lock), "%s.lock", socket_path);
	cr_expect_neq(access(socket_path, F_OK), 0, "the socket is still there");
	cr_expect_neq(access(lock, F_OK), 0, "the lock is still there");
	EXPECT(*server, 0, "");
}

Test(cli, one_monitor_on_a_socket)
{
	const char *path = test_path("s");
	struct child server = serve(path), child;
	struct stat status;

	cr_expect_eq(stat(path, &status), 0);
	cr_expect_eq(status.st_mode & 0777, 0600);
	child = RUN("serve", "--policy", BASE, "--socket", path);
	cr_expect(strstr(child.err, "--socket PATH"), "%s", child.err);
	EXPECT(child, 1, "another monitor serves this socket");
	child = RUN("status", "--socket", path);
	EXPECT(child, 0, "");
	child_signal(&server, SIGTERM);
	end_in_order(&server, path);
}

Test(cli, a_stale_socket_is_taken_over)
{
	const char *path = test_path("s");
	struct child server = serve(path);

	child_signal(&server, SIGKILL);
	child_finish(&server);
	cr_expect_eq(access(path, F_OK), 0, "it could not tidy up");
	child_free(&server);
	server = serve(path);
	child_signal(&server, SIGINT);
	end_in_order(&server, path);
}

Test(cli, what_is_no_socket_is_left_alone)
{
	const char *path = test_file("s", "precious");
	struct child child = RUN("serve", "--policy", BASE, "--socket", path);
	struct stat status;

	EXPECT(child, 1, "exists and is no socket");
	cr_expect_eq(stat(path, &status), 0);
	cr_expect_eq(status.st_size, 8);
}

Test(cli, another_programs_socket_is_left_alone)
{
	const char *path = test_path("s");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct child child;

	strcpy(address.sun_path, path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	child = RUN("serve", "--policy", BASE, "--socket", path);
	EXPECT(child, 1, "another program serves this socket");
	cr_expect_eq(access(path, F_OK), 0);
}

/* The one document on standard output. */
static json_t *document(struct child *child)
{
	json_error_t error;
	json_t *json = json_loads(child->out, 0, &error);

	cr_assert(json, "%s: %s: %s", error.text, child->out, child->err);
	cr_expect_eq(child->status, 0, "%s", child->err);
	child_free(child);
	return json;
}

static long long integer(const json_t *json, const char *key)
{
	cr_expect(json_is_integer(json_object_get(json, key)), "no number %s", key);
	return json_integer_value(json_object_get(json, key));
}

Test(cli, forms_that_scripts_rely_on)
{
	const char *path = test_path("s"), *image = test_path("image");
	struct child server = serve(path), child;
	json_t *json;

	child = RUN("status", "--json", "--socket", path);
	json = document(&child);
	cr_expect_eq(integer(json, "policy_number"), 1);
	cr_expect_eq(strlen(json_string_value(json_object_get(json, "fingerprint"))), 32);
	cr_expect(json_is_true(json_object_get(json, "enforcing")));
	cr_expect(json_is_number(json_object_get(json, "uptime")));
	cr_expect_eq(integer(json_object_get(json, "counters"), "audit_lost"), 0);
	json_decref(json);

	child = RUN("policy", "plan", BASE, STRICT, "--json", "--socket", path);
	json = document(&child);
	cr_expect(json_is_true(json_object_get(json, "planned")));
	cr_expect_eq(json_number_value(json_object_get(json_object_get(json, "times"), "total")), 0);
	json_decref(json);

	child = RUN("policy", "push", BASE, STRICT, "--stop", "none", "--json", "--socket", path);
	json = document(&child);
	cr_expect_str_eq(json_string_value(json_object_get(json, "change")), "policy");
	cr_expect_str_eq(json_string_value(json_object_get(json, "stop")), "none");
	cr_expect_eq(integer(json, "policy_number"), 2);
	cr_expect_eq(integer(json, "previous"), 1);
	cr_expect_eq(integer(json_object_get(json, "flows"), "cut"), 0);
	cr_expect(json_is_array(json_object_get(json, "cuts")) &&
	          json_is_array(json_object_get(json, "killed")));
	cr_expect_eq(integer(json_object_get(json, "vcpus"), "stopped"), 0);
	json_decref(json);

	child = RUN("policy", "show", "--output", image, "--json", "--socket", path);
	json = document(&child);
	cr_expect_eq(integer(json, "policy_number"), 2);
	json_decref(json);
	child = RUN("check", "--policy", image);
	EXPECT(child, 0, "");

	child = RUN("channel", "list", "--json", "--socket", path);
	json = document(&child);
	cr_expect_eq(json_array_size(json), 0);
	json_decref(json);

	child = RUN("audit", "--json", "--lines", "2", "--socket", path);
	json = document(&child);
	cr_expect_eq(json_array_size(json_object_get(json, "lines")), 2);
	json_decref(json);

	child = RUN("shutdown", "--socket", path);
	EXPECT(child, 0, "");
	end_in_order(&server, path);
}

Test(cli, a_push_that_fails_changes_nothing)
{
	const char *path = test_path("s");
	struct child server = serve(path), child;
	json_t *json;

	for (size_t i = 0; i < sizeof(bad_policies) / sizeof(bad_policies[0]); i++) {
		const char *bad = test_file("bad.cil", bad_policies[i].text);

		child = RUN("policy", "push", BASE, bad, "--json", "--socket", path);
		cr_expect_str_eq(child.out, "");
		EXPECT(child, 1, bad_policies[i].err);
	}
	child = RUN("policy", "push", test_file("empty.cil", ""), "--socket", path);
	EXPECT(child, 1, "the file is empty");
	child = RUN("policy", "push",
	            test_file("noise", "\x7f"
	                               "ELF\1\2\3 this is no policy"),
	            "--socket", path);
	EXPECT(child, 1, "");
	child = RUN("guest", "stop", "none", "--socket", path);
	EXPECT(child, 1, "there is no guest \"none\"");
	child = RUN("audit", "--until", "never said", "--deadline", "0.2", "--socket", path);
	EXPECT(child, 1, "no audit line holds \"never said\"");
	child = RUN("status", "--json", "--socket", path);
	json = document(&child);
	cr_expect_eq(integer(json, "policy_number"), 1);
	json_decref(json);
	child_signal(&server, SIGTERM);
	end_in_order(&server, path);
}

/* ---- with a guest ---- */

Test(cli, a_guest_from_start_to_stop)
{
	const char *path = test_path("s");
	struct child server, child;
	json_t *json, *channel;

	need_kvm();
	server = START("run", "examples/demo/demo.conf", PROGRAMS, "--socket", path);
	child = RUN("channel", "list", "--until", "4", "--deadline", "30", "--json", "--socket", path);
	json = document(&child);
	cr_expect_eq(json_array_size(json), 4);
	channel = json_array_get(json, 0);
	cr_expect_eq(integer(channel, "opened_at_policy"), 1);
	cr_expect_eq(json_array_size(json_object_get(channel, "flows")), 2);
	cr_expect_str_eq(json_string_value(json_object_get(json_object_get(channel, "client"), "guest")),
	                 "demo");
	json_decref(json);
	child_await(&server, "demo/client: connected to echo\n");

	child = RUN("policy", "push", BASE, STRICT, "--json", "--socket", path);
	json = document(&child);
	cr_expect_eq(integer(json_object_get(json, "flows"), "cut"), 3);
	json_decref(json);
	child_await(&server, "demo/client: revoked");

	child = RUN("audit", "--until", "avc:  denied  { send } for  guest=\"demo\" domain=\"client\"",
	            "--socket", path);
	EXPECT(child, 0, "");
	child = RUN("guest", "stop", "demo", "--socket", path);
	cr_expect_str_eq(child.out, "demo: stopped\n");
	EXPECT(child, 0, "");
	end_in_order(&server, path);
}

Test(cli, a_stream_ends_by_itself)
{
	struct child child;

	need_kvm();
	child = RUN("run", "examples/demo/stream.conf", PROGRAMS, "--data", "source=" STRICT, "--socket",
	            test_path("s"));
	cr_expect(strstr(child.err, "stream/sink: xxh3 "), "%s", child.err);
	EXPECT(child, 0, "stream/source: sent");
}

Test(cli, a_domain_that_fails_makes_run_fail)
{
	const char *manifest = test_file("m.conf", "name = \"g\";\ndomains = ( { name = \"a\"; program = "
	                                           "\"client\"; args = ( \"none\", \"--once\" );\n"
	                                           "context = \"system_u:system_r:client_t:s0\"; } );\n");
	struct child child;

	need_kvm();
	child = RUN("run", manifest, PROGRAMS, "--policy", BASE, "--policy", DEMO, "--socket",
	            test_path("s"));
	EXPECT(child, 1, "g/a: none: ");
}
