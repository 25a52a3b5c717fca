/* SIDs: handles that stay the same for good (F3). */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "guest/abi/limits.h"
#include "policy/sid.h"

Test(sid, intern_is_stable)
{
	struct sid_table *table = sid_table_create();
	const char *first;
	char context[64];
	policy_sid sid;

	cr_assert_eq(sid_intern(table, "u:r:first_t:s0", &sid), 0);
	cr_assert_eq(sid, 1);
	first = sid_context(table, 1);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 20000; i++) {
			snprintf(context, sizeof(context), "u:r:type_%u_t:s0", i);
			cr_assert_eq(sid_intern(table, context, &sid), 0);
			cr_assert_eq(sid, i + 2);
			cr_assert_str_eq(sid_context(table, sid), context);
		}
	cr_assert_eq(sid_count(table), 20001);
	cr_assert_eq(sid_context(table, 1), first, "texts do not move");
	sid_table_destroy(table);
	sid_table_destroy(NULL);
}

/* F3: 0 is never valid. H8: neither is a number that was not given. */
Test(sid, invalid_numbers)
{
	struct sid_table *table = sid_table_create();
	policy_sid sid;

	cr_assert_eq(sid_intern(table, "u:r:t:s0", &sid), 0);
	cr_assert_neq(sid, SID_NONE);
	cr_assert_null(sid_context(table, SID_NONE));
	cr_assert_null(sid_context(table, 2));
	cr_assert_null(sid_context(table, UINT32_MAX));
	sid_set_known(table, SID_NONE, true);
	sid_set_known(table, UINT32_MAX, true);
	cr_assert_not(sid_known(table, SID_NONE));
	cr_assert_not(sid_known(table, UINT32_MAX));
	sid_table_destroy(table);
}

/* F13: known is what the policy in force says, and nothing to begin with. */
Test(sid, known)
{
	struct sid_table *table = sid_table_create();
	policy_sid sid;

	sid_intern(table, "u:r:t:s0", &sid);
	cr_assert_not(sid_known(table, sid));
	sid_set_known(table, sid, true);
	cr_assert(sid_known(table, sid));
	sid_intern(table, "u:r:t:s0", &sid);
	cr_assert(sid_known(table, sid));
	sid_set_known(table, sid, false);
	cr_assert_not(sid_known(table, sid));
	sid_table_destroy(table);
}

Test(sid, refuses_what_is_no_context)
{
	static const char *const bad[] = {"",        "u:r t:s0",     "u:r:\"t\":s0", "u:r:'t':s0",
	                                  "u:r:t\n", "u:r:\x1b[31m", "u:r:\xc3\xa4"};
	struct sid_table *table = sid_table_create();
	char context[MAX_CONTEXT_BYTES + 1];
	policy_sid sid = 77;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(sid_intern(table, bad[i], &sid), -EINVAL);
	memset(context, 'a', sizeof(context));
	context[MAX_CONTEXT_BYTES] = '\0';
	cr_assert_eq(sid_intern(table, context, &sid), -EINVAL);
	cr_assert_eq(sid, 77);
	cr_assert_eq(sid_count(table), 0);
	context[MAX_CONTEXT_BYTES - 1] = '\0';
	cr_assert_eq(sid_intern(table, context, &sid), 0);
	sid_table_destroy(table);
}
