/* Changes by which their author would lose the right to make them: refused unless forced (design: 6). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/monitor/kind_support.h"

/* base.cil with another list of what the operator may do to the monitor. */
static policy_files policy_with_rights(const char *rights)
{
	static const char line[] = "(allow operator_t operator_t (monitor (all)))";
	const char **files = calloc(4, sizeof(*files));
	char *text = calloc(1, 65536), *at, *edited = NULL;
	FILE *base = fopen("policy/base.cil", "r");

	cr_assert(files && text && base);
	cr_assert_gt(fread(text, 1, 65535, base), 0);
	fclose(base);
	at = strstr(text, line);
	cr_assert_not_null(at);
	*at = '\0';
	cr_assert_gt(asprintf(&edited, "%s%s%s", text, rights, at + sizeof(line) - 1), 0);
	files[0] = file_of(edited);
	files[1] = "tests/cil/types.cil";
	files[2] = "tests/cil/open.cil";
	free(text);
	free(edited);
	return files;
}

#define WITHOUT(permissions) "(allow operator_t operator_t (monitor (" permissions ")))"

static struct change_request by_operator(struct world *world, struct change_request request)
{
	request.author = posture_self(world->monitor);
	return request;
}

/* A push that takes load_policy or setenforce from its own author needs force. */
Test(kind, push_that_locks_out_its_author)
{
	static const char *const rights[] = {
		"", WITHOUT("setenforce setbool overlay compute read_audit getattr shutdown"),
		WITHOUT("load_policy setbool overlay compute read_audit getattr shutdown")};
	struct world world;
	struct policy_source sources[4];

	world_open(&world, NULL);
	for (unsigned i = 0; i < 3; i++) {
		struct change_request request =
			by_operator(&world, push_request(policy_with_rights(rights[i]), sources));
		json_t *report;

		change_refused(&world, request, -EKEYREJECTED, "from you; --force");
		request.plan_only = true;
		report = change_do(&world, request);
		json_decref(report);
	}
	{
		struct change_request request =
			by_operator(&world, push_request(policy_with_rights(rights[0]), sources));

		request.force = true;
		json_decref(change_do(&world, request));
	}
	world_close(&world);
}

static struct change_request revoke_right(const char *permission)
{
	struct change_request request = {.kind = CHANGE_OVERLAY};
	char why[WHY_BYTES];

	cr_assert_eq(overlay_parse("operator_t", "operator_t", "monitor", permission, &request.rule, why), 0);
	return request;
}

/* The same by overlay, by boolean, and by a mode that makes what is missing count. */
Test(kind, other_ways_to_lock_oneself_out)
{
	struct world world;
	struct policy_source sources[4];
	struct change_request request;

	world_open(&world, &(struct world_options){
				   .policy = policy_with_rights(WITHOUT(
					   "load_policy setenforce overlay") "(boolean may true)"
	                                                                     "(booleanif may (true " WITHOUT(
										     "setbool") "))")});
	change_refused(&world, by_operator(&world, revoke_right("overlay")), -EKEYREJECTED, "overlay");
	change_refused(&world, by_operator(&world, revoke_right("setenforce")), -EKEYREJECTED, "setenforce");
	change_refused(&world, by_operator(&world, revoke_right("load_policy")), -EKEYREJECTED,
	               "load_policy");
	json_decref(change_do(&world, by_operator(&world, revoke_right("read_audit"))));
	change_refused(&world, by_operator(&world, to_boolean("may", false)), -EKEYREJECTED, "setbool");

	json_decref(change_do(&world, by_operator(&world, to_enforcing(false))));
	request = by_operator(&world, push_request(policy_with_rights(WITHOUT("load_policy")), sources));
	json_decref(change_do(&world, request));
	change_refused(&world, by_operator(&world, to_enforcing(true)), -EKEYREJECTED, "setenforce");
	request = by_operator(&world, to_enforcing(true));
	request.force = true;
	json_decref(change_do(&world, request));
	world_close(&world);
}
