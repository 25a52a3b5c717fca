/* The access vector cache: what it keeps, and the order that a change needs (F2). */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>

#include "policy/avc.h"

static const struct avc_key key = {1, 2, CLASS_CHANNEL};

static struct decision grant(uint64_t policy_number)
{
	return (struct decision){.allowed = CHANNEL_SEND,
	                         .auditallow = CHANNEL_RECV,
	                         .auditdeny = CHANNEL_CUT,
	                         .permissive = true,
	                         .policy_number = policy_number};
}

Test(avc, keeps_all_of_a_decision)
{
	struct avc *avc = avc_create(64);
	struct decision in = grant(1);
	struct decision out = {0};

	cr_assert_eq(avc_policy_number(avc), 1);
	cr_assert_not(avc_lookup(avc, key, &out));
	cr_assert_eq(avc_insert(avc, key, &in), 0);
	cr_assert(avc_lookup(avc, key, &out));
	cr_assert_eq(out.allowed, CHANNEL_SEND);
	cr_assert_eq(out.auditallow, CHANNEL_RECV);
	cr_assert_eq(out.auditdeny, CHANNEL_CUT);
	cr_assert(out.permissive);
	cr_assert_eq(out.policy_number, 1);
	avc_destroy(avc);
}

Test(avc, every_part_of_the_key_counts)
{
	struct avc *avc = avc_create(64);
	struct decision decision = grant(1);

	avc_insert(avc, key, &decision);
	cr_assert_not(avc_lookup(avc, (struct avc_key){2, 2, CLASS_CHANNEL}, &decision));
	cr_assert_not(avc_lookup(avc, (struct avc_key){1, 1, CLASS_CHANNEL}, &decision));
	cr_assert_not(avc_lookup(avc, (struct avc_key){1, 2, CLASS_DOMAIN}, &decision));
	cr_assert_not(avc_lookup(avc, (struct avc_key){2, 1, CLASS_CHANNEL}, &decision));
	avc_destroy(avc);
}

/* F2, I1: a decision of the old policy can not enter after the change. */
Test(avc, stale_insert_is_refused)
{
	struct avc *avc = avc_create(64);
	struct decision old = grant(1);
	struct decision young = grant(3);
	struct decision out;

	avc_raise(avc, 2);
	cr_assert_eq(avc_insert(avc, key, &old), -ESTALE);
	cr_assert_eq(avc_insert(avc, key, &young), -ESTALE, "nor one of a policy that is not in force yet");
	cr_assert_not(avc_lookup(avc, key, &out));
	cr_assert_eq(avc_counters(avc).stale, 2);
	avc_destroy(avc);
}

/* F8: nothing of before is found after; R13: that is so for every change of number. */
Test(avc, raise_forgets_everything)
{
	struct avc *avc = avc_create(1024);
	struct decision decision;

	for (uint64_t number = 1; number < 50; number++) {
		for (policy_sid sid = 1; sid <= 600; sid++) {
			decision = grant(number);
			cr_assert_eq(
				avc_insert(avc, (struct avc_key){sid, sid + 1, CLASS_CHANNEL}, &decision), 0);
		}
		avc_raise(avc, number + 1);
		for (policy_sid sid = 1; sid <= 600; sid++)
			cr_assert_not(
				avc_lookup(avc, (struct avc_key){sid, sid + 1, CLASS_CHANNEL}, &decision));
	}
	avc_destroy(avc);
}

Test(avc, number_must_grow, .signal = SIGABRT)
{
	struct avc *avc = avc_create(16);

	avc_raise(avc, 7);
	avc_raise(avc, 7);
}

Test(avc, newer_decision_replaces)
{
	struct avc *avc = avc_create(4);
	struct decision decision = grant(1);

	avc_insert(avc, key, &decision);
	decision.allowed = 0;
	decision.permissive = false;
	avc_insert(avc, key, &decision);
	cr_assert(avc_lookup(avc, key, &decision));
	cr_assert_eq(decision.allowed, 0);
	cr_assert_not(decision.permissive);
	cr_assert_eq(avc_counters(avc).evictions, 0);
	avc_destroy(avc);
}

/* With one bucket: the oldest goes, the others stay. H7: the size is fixed. */
Test(avc, full_bucket_evicts_its_oldest)
{
	struct avc *avc = avc_create(4);
	struct decision decision = grant(1);

	for (policy_sid sid = 1; sid <= 5; sid++)
		avc_insert(avc, (struct avc_key){sid, 1, CLASS_CHANNEL}, &decision);
	cr_assert_not(avc_lookup(avc, (struct avc_key){1, 1, CLASS_CHANNEL}, &decision));
	for (policy_sid sid = 2; sid <= 5; sid++)
		cr_assert(avc_lookup(avc, (struct avc_key){sid, 1, CLASS_CHANNEL}, &decision));
	cr_assert_eq(avc_counters(avc).evictions, 1);
	decision = grant(2);
	avc_raise(avc, 2);
	avc_insert(avc, (struct avc_key){9, 1, CLASS_CHANNEL}, &decision);
	cr_assert_eq(avc_counters(avc).evictions, 1, "what was forgotten is not evicted");
	avc_destroy(avc);
}

Test(avc, counts)
{
	struct avc *avc = avc_create(16);
	struct decision decision = grant(1);

	avc_lookup(avc, key, &decision);
	decision = grant(1);
	avc_insert(avc, key, &decision);
	avc_lookup(avc, key, &decision);
	avc_lookup(avc, key, &decision);
	cr_assert_eq(avc_counters(avc).hits, 2);
	cr_assert_eq(avc_counters(avc).misses, 1);
	cr_assert_eq(avc_counters(avc).stale, 0);
	avc_destroy(avc);
	avc_destroy(NULL);
}

Test(avc, any_size_works)
{
	static const uint32_t sizes[] = {0, 1, 3, 5, 1000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct avc *avc = avc_create(sizes[i]);
		struct decision decision = grant(1);

		cr_assert_not_null(avc);
		avc_insert(avc, key, &decision);
		cr_assert(avc_lookup(avc, key, &decision));
		avc_destroy(avc);
	}
	cr_assert_null(avc_create(UINT32_MAX));
}
