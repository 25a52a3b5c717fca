/* Loading policies: what is accepted, what is refused, and with which words. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/policy/harness.h"

Test(load, demo_policies)
{
	char *base = harness_read_file("policy/base.cil");
	char *demo = harness_read_file("examples/demo/demo.cil");
	char *strict = harness_read_file("examples/demo/strict.cil");
	const char *client = "system_u:system_r:client_t:s0";
	const char *server = "system_u:system_r:server_t:s0";
	struct harness *harness = harness_open();

	cr_assert_eq(harness_load(harness,
	                          (struct harness_file[]){{"base.cil", base, 0}, {"demo.cil", demo, 0}, {0}}),
	             0, "%s", harness->text);
	cr_assert_str_eq(harness->text, "");
	cr_assert_str_eq(harness->operator_context, "system_u:operator_r:operator_t:s0-s3:c0.c15");
	cr_assert(harness->policy.mls);
	cr_assert_str_eq(harness_explain(harness, client, server, CLASS_CHANNEL, CHANNEL_SEND), "allowed");
	harness_renew(harness);
	cr_assert_eq(
		harness_load(harness,
	                     (struct harness_file[]){{"base.cil", base, 0}, {"strict.cil", strict, 0}, {0}}),
		0, "%s", harness->text);
	cr_assert_str_eq(harness_explain(harness, client, server, CLASS_CHANNEL, CHANNEL_SEND),
	                 "no rule allows client_t server_t:channel send");
	harness_close(harness);
}
