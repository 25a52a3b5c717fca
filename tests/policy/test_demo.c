/* The policies that we ship: what they promise, and that SELinux's tools read the image. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/policy/harness.h"

#define CONTEXT(type) "system_u:system_r:" type ":s0"

static struct harness *load(const char *path)
{
	char *base = harness_read_file("policy/base.cil");
	char *rules = harness_read_file(path);
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"policy/base.cil", base, 0}, {path, rules, 0}, {0}};

	cr_assert_eq(harness_load(harness, files), 0, "%s", harness->text);
	cr_assert_str_eq(harness->text, "", "no warnings");
	free(base);
	free(rules);
	return harness;
}

/* What design section 6 asks of a channel, with flow control both ways. */
static bool can_talk(struct harness *harness, const char *client, const char *server)
{
	uint32_t both = CHANNEL_SEND | CHANNEL_RECV | CHANNEL_FLOWCTL;
	uint32_t forth = harness_ask(harness, client, server, CLASS_CHANNEL).allowed;
	uint32_t back = harness_ask(harness, server, client, CLASS_CHANNEL).allowed;

	return forth == (both | CHANNEL_CONNECT) &&
	       (back & ~(uint32_t)CHANNEL_SPECIFY_CLIENT) == (both | CHANNEL_ACCEPT);
}

static const char *explain_send(struct harness *harness, const char *client, const char *server)
{
	return harness_explain(harness, client, server, CLASS_CHANNEL, CHANNEL_SEND);
}

Test(demo, everyone_talks)
{
	struct harness *harness = load("examples/demo/demo.cil");

	cr_assert(can_talk(harness, CONTEXT("client_t"), CONTEXT("server_t")));
	cr_assert(can_talk(harness, CONTEXT("kept_t"), CONTEXT("server_t")));
	cr_assert(can_talk(harness, CONTEXT("relayed_t"), CONTEXT("relay_t")));
	cr_assert(can_talk(harness, CONTEXT("relay_t"), CONTEXT("server_t")));
	cr_assert(can_talk(harness, CONTEXT("source_t"), CONTEXT("courier_t")));
	cr_assert(can_talk(harness, CONTEXT("courier_t"), CONTEXT("sink_t")));
	cr_assert_eq(harness_ask(harness, CONTEXT("relay_t"), CONTEXT("relayed_t"), CLASS_CHANNEL).allowed &
	                     CHANNEL_SPECIFY_CLIENT,
	             CHANNEL_SPECIFY_CLIENT);
	cr_assert_str_eq(explain_send(harness, CONTEXT("client_t"), CONTEXT("sink_t")),
	                 "no rule allows client_t sink_t:channel send");
	harness_close(harness);
}

Test(demo, strict_takes_some)
{
	struct harness *harness = load("examples/demo/strict.cil");

	cr_assert_str_eq(explain_send(harness, CONTEXT("client_t"), CONTEXT("server_t")),
	                 "no rule allows client_t server_t:channel send");
	cr_assert_str_eq(explain_send(harness, CONTEXT("relay_t"), CONTEXT("server_t")),
	                 "no rule allows relay_t server_t:channel send");
	cr_assert_str_eq(explain_send(harness, CONTEXT("server_t"), CONTEXT("client_t")), "allowed");
	cr_assert(can_talk(harness, CONTEXT("kept_t"), CONTEXT("server_t")));
	cr_assert(can_talk(harness, CONTEXT("relayed_t"), CONTEXT("relay_t")));
	cr_assert(can_talk(harness, CONTEXT("source_t"), CONTEXT("courier_t")));
	cr_assert(can_talk(harness, CONTEXT("courier_t"), CONTEXT("sink_t")));
	harness_close(harness);
}

/* base.cil alone already lets the operator do everything. */
Test(demo, operator)
{
	struct harness *harness = load("examples/demo/strict.cil");
	const char *operator_context = strdup(harness->operator_context);

	cr_assert_eq(harness_ask(harness, operator_context, operator_context, CLASS_MONITOR).allowed,
	             class_all_permissions(CLASS_MONITOR));
	cr_assert_eq(harness_ask(harness, operator_context, operator_context, CLASS_GUEST).allowed,
	             class_all_permissions(CLASS_GUEST));
	cr_assert_eq(harness_ask(harness, operator_context, CONTEXT("client_t"), CLASS_DOMAIN).allowed,
	             class_all_permissions(CLASS_DOMAIN));
	cr_assert_eq(harness_ask(harness, operator_context, CONTEXT("client_t"), CLASS_CHANNEL).allowed,
	             CHANNEL_CUT);
	cr_assert_eq(harness_ask(harness, CONTEXT("client_t"), operator_context, CLASS_MONITOR).allowed, 0);
	free((char *)operator_context);
	harness_close(harness);
}

/* Nothing flows down, not even flow control: what goes up is a diode. */
Test(demo, levels)
{
	struct harness *harness = load("examples/demo/demo.cil");
	const char *low = "system_u:system_r:source_t:s0:c1";
	const char *high = "system_u:system_r:courier_t:s2:c1,c2";
	const char *aside = "system_u:system_r:courier_t:s2:c3";

	cr_assert_eq(harness_ask(harness, low, high, CLASS_CHANNEL).allowed,
	             CHANNEL_CONNECT | CHANNEL_SEND | CHANNEL_FLOWCTL);
	cr_assert_eq(harness_ask(harness, high, low, CLASS_CHANNEL).allowed, CHANNEL_ACCEPT | CHANNEL_RECV);
	cr_assert_str_eq(explain_send(harness, high, low),
	                 "constraint: mlsconstrain channel { send } ((l1 domby h2 -Fail-))");
	cr_assert_eq(harness_ask(harness, low, aside, CLASS_CHANNEL).allowed, CHANNEL_CONNECT);
	harness_close(harness);
}

static bool have_program(const char *name)
{
	char command[64];

	snprintf(command, sizeof(command), "command -v %s >/dev/null", name);
	return system(command) == 0;
}

/* The program's output; the image is its policy. */
static void run_tool(const struct harness *harness, const char *format, char *output, size_t output_bytes)
{
	char image[64];
	char command[1024];
	size_t used;
	FILE *pipe;

	snprintf(image, sizeof(image), "/proc/%d/fd/%d", getpid(), harness->policy.image_fd);
	snprintf(command, sizeof(command), format, image);
	pipe = popen(command, "r");
	cr_assert_not_null(pipe);
	used = fread(output, 1, output_bytes - 1, pipe);
	output[used] = '\0';
	cr_assert_eq(pclose(pipe), 0, "%s: %s", command, output);
}

static const char denial[] =
	"echo 'type=AVC msg=audit(1700000000.123:45): avc:  denied  { send } for  guest=\"g\" domain=\"web\" "
	"channel=7 scontext=system_u:system_r:client_t:s0 tcontext=system_u:system_r:server_t:s0 "
	"tclass=channel "
	"permissive=0' | audit2allow -p %s 2>&1";

Test(demo, audit2allow_reads_the_image)
{
	char output[4096];
	struct harness *harness;

	if (!have_program("audit2allow")) {
		cr_assert_null(getenv("CI"), "audit2allow is needed in CI");
		cr_skip_test("audit2allow is not installed");
	}
	harness = load("examples/demo/strict.cil");
	run_tool(harness, denial, output, sizeof(output));
	cr_assert_not_null(strstr(output, "\nallow client_t server_t:channel send;"), "%s", output);
	cr_assert_null(strstr(output, "is allowed in the current policy"), "%s", output);
	harness_close(harness);
	harness = load("examples/demo/demo.cil");
	run_tool(harness, denial, output, sizeof(output));
	cr_assert_not_null(strstr(output, "is allowed in the current policy"), "%s", output);
	harness_close(harness);
}

Test(demo, sesearch_reads_the_image)
{
	char output[4096];
	struct harness *harness;

	if (!have_program("sesearch"))
		cr_skip_test("sesearch is not installed");
	harness = load("examples/demo/strict.cil");
	run_tool(harness, "sesearch -A -s client_t -t server_t %s 2>&1", output, sizeof(output));
	cr_assert_str_eq(output, "allow client_t server_t:channel { connect flowctl recv };\n");
	harness_close(harness);
}
