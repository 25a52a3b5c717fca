/* What a loaded policy answers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/policy/harness.h"

#define A "u:r:a_t:s0"
#define B "u:r:b_t:s0"
#define C "u:r:c_t:s0"

/* A server that has loaded harness_base with those rules. */
static struct harness *load(const char *rules)
{
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"base.cil", harness_base, 0}, {"rules.cil", rules, 0}, {0}};

	cr_assert_eq(harness_load(harness, files), 0, "%s", harness->text);
	return harness;
}

Test(decide, vectors_in_our_numbering)
{
	/* The policy's own order of permissions differs from ours. */
	static const char rules[] = "(allow a_t b_t (channel (send connect)))"
				    "(auditallow a_t b_t (channel (connect)))"
				    "(dontaudit a_t b_t (channel (recv cut)))"
				    "(allow a_t any (monitor (shutdown)))";
	struct harness *harness = load(rules);
	struct server_decision decision = harness_ask(harness, A, B, CLASS_CHANNEL);

	cr_assert(decision.known);
	cr_assert_not(decision.permissive);
	cr_assert_eq(decision.allowed, CHANNEL_SEND | CHANNEL_CONNECT);
	cr_assert_eq(decision.auditallow, CHANNEL_CONNECT);
	cr_assert_eq(decision.auditdeny,
	             class_all_permissions(CLASS_CHANNEL) & ~(uint32_t)(CHANNEL_RECV | CHANNEL_CUT));
	cr_assert_eq(harness_ask(harness, B, A, CLASS_CHANNEL).allowed, 0);
	cr_assert_eq(harness_ask(harness, A, C, CLASS_MONITOR).allowed, MONITOR_SHUTDOWN);
	harness_close(harness);
}

Test(decide, other_numbering)
{
	static const char policy[] =
		"(mls false) (class monitor (shutdown)) (class file (read))"
		"(class channel (cut send other)) (classorder (monitor file channel))"
		"(sid operator) (sidorder (operator)) (type a_t) (role r) (user u) (userrole u r) (roletype "
		"r a_t)"
		"(sensitivity s0) (sensitivityorder (s0)) (userlevel u (s0)) (userrange u ((s0) (s0)))"
		"(sidcontext operator (u r a_t ((s0) (s0))))"
		"(allow a_t a_t (channel (cut other))) (allow a_t a_t (file (read)))";
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"p.cil", policy, 0}, {0}};

	cr_assert_eq(harness_load(harness, files), 0, "%s", harness->text);
	cr_assert_eq(harness_ask(harness, "u:r:a_t", "u:r:a_t", CLASS_CHANNEL).allowed, CHANNEL_CUT);
	cr_assert_eq(harness_ask(harness, "u:r:a_t", "u:r:a_t", CLASS_MONITOR).allowed, 0);
	harness_close(harness);
}

/* F13: nothing is allowed from or to what the policy does not know. */
Test(decide, unknown_contexts)
{
	static const char *const strange[] = {"",
	                                      "u:r:zz_t:s0",
	                                      "u:r:a_t",
	                                      "u:r:a_t:s9",
	                                      "u:object_r:a_t:s0:c0:c1:c2",
	                                      "a",
	                                      ":::",
	                                      "u:r:any:s0",
	                                      "x:r:a_t:s0",
	                                      "u:x:a_t:s0",
	                                      "u:r:a_t:s0:c9"};
	struct harness *harness = load("(allow any any (channel (send)))");

	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		struct server_decision decision = harness_ask(harness, strange[i], B, CLASS_CHANNEL);

		cr_assert_not(decision.known, "%s", strange[i]);
		cr_assert_eq(decision.allowed, 0);
		decision = harness_ask(harness, B, strange[i], CLASS_CHANNEL);
		cr_assert_not(decision.known, "%s", strange[i]);
		cr_assert_eq(decision.allowed, 0);
	}
	cr_assert_eq(harness_ask(harness, A, B, CLASS_CHANNEL).allowed, CHANNEL_SEND);
	cr_assert_str_eq(harness_explain(harness, A, "u:r:zz_t:s0", CLASS_CHANNEL, CHANNEL_SEND),
	                 "the policy does not know the context u:r:zz_t:s0");
	cr_assert_str_eq(harness_explain(harness, "u:r:yy_t:s0", "u:r:zz_t:s0", CLASS_CHANNEL, CHANNEL_SEND),
	                 "the policy does not know the context u:r:yy_t:s0");
	harness_close(harness);
}

Test(decide, permissive_type)
{
	struct harness *harness = load("(typepermissive b_t) (allow any any (channel (send)))");

	cr_assert(harness_ask(harness, B, A, CLASS_CHANNEL).permissive);
	cr_assert_eq(harness_ask(harness, B, A, CLASS_CHANNEL).allowed, CHANNEL_SEND);
	cr_assert_not(harness_ask(harness, A, B, CLASS_CHANNEL).permissive);
	cr_assert(harness_ask(harness, B, A, CLASS_GUEST).permissive);
	harness_close(harness);
}

Test(decide, explanations)
{
	static const char rules[] = "(allow any any (channel (send recv)))"
				    "(mlsconstrain (channel (send)) (domby l1 h2))"
				    "(constrain (channel (recv cut)) (neq t1 b_t))";
	struct harness *harness = load(rules);

	cr_assert_str_eq(harness_explain(harness, A, B, CLASS_CHANNEL, CHANNEL_SEND), "allowed");
	cr_assert_str_eq(harness_explain(harness, A, B, CLASS_CHANNEL, CHANNEL_CONNECT),
	                 "no rule allows a_t b_t:channel connect");
	cr_assert_str_eq(harness_explain(harness, "u:r:a_t:s1:c0", B, CLASS_CHANNEL, CHANNEL_SEND),
	                 "constraint: mlsconstrain channel { send } ((l1 domby h2 -Fail-))");
	cr_assert_str_eq(harness_explain(harness, B, A, CLASS_CHANNEL, CHANNEL_RECV),
	                 "constraint: constrain channel { recv cut } ((t1 != b_t -Fail-))");
	/* Two constraints fail: the one about the permission is told. */
	cr_assert_str_eq(harness_explain(harness, "u:r:b_t:s1:c0", A, CLASS_CHANNEL, CHANNEL_RECV),
	                 "constraint: constrain channel { recv cut } ((t1 != b_t -Fail-))");
	cr_assert_str_eq(harness_explain(harness, "u:r:b_t:s1:c0", A, CLASS_CHANNEL, CHANNEL_SEND),
	                 "constraint: mlsconstrain channel { send } ((l1 domby h2 -Fail-))");
	harness_close(harness);
}

/* A target is bounded too: what its bound may not have done to it, no bounded source may do. */
Test(decide, bounds)
{
	static const char rules[] =
		"(type parent_t) (type child_t) (roletype r parent_t) (roletype r child_t)"
		"(typebounds parent_t child_t) (allow parent_t b_t (channel (send)))"
		"(allow child_t b_t (channel (send)))";
	struct harness *harness = load(rules);

	cr_assert_eq(harness_ask(harness, "u:r:child_t:s0", B, CLASS_CHANNEL).allowed, CHANNEL_SEND);
	cr_assert_str_eq(harness_explain(harness, "u:r:child_t:s0", B, CLASS_CHANNEL, CHANNEL_RECV),
	                 "no rule allows child_t b_t:channel recv");
	harness_close(harness);
}

/* Every denied bit of every pair has a reason, and every allowed one has not. */
Test(decide, explanations_agree_with_decisions)
{
	static const char *const contexts[] = {
		A, B, C, "u:r:a_t:s1:c0", "u:r:b_t:s0-s1:c0.c1", "u:r:zz_t:s0"};
	struct harness *harness =
		load("(allow a_t any (channel (send cut))) (allow any a_t (channel (recv flowctl)))"
	             "(mlsconstrain (channel (send flowctl)) (domby l1 h2))");

	for (unsigned i = 0; i < 36; i++) {
		const char *source = contexts[i / 6];
		const char *target = contexts[i % 6];
		uint32_t allowed = harness_ask(harness, source, target, CLASS_CHANNEL).allowed;

		for (uint32_t bit = 1; bit <= CHANNEL_CUT; bit <<= 1)
			cr_assert_eq(strcmp(harness_explain(harness, source, target, CLASS_CHANNEL, bit),
			                    "allowed") == 0,
			             (allowed & bit) != 0);
	}
	harness_close(harness);
}

static void take_member(void *opaque, int status, const struct server_member *member)
{
	struct harness *harness = opaque;

	harness->status = status;
	harness->member = *member;
	snprintf(harness->text, sizeof(harness->text), "%s", member->context);
}

static void ask_member(struct harness *harness, const char *source, const char *target)
{
	cr_assert_eq(server_member(harness->server, source, target, CLASS_CHANNEL, harness_deadline(),
	                           take_member, harness),
	             0);
	server_wait(harness->server);
	cr_assert_eq(harness->status, 0);
}

/* F6. */
Test(decide, member)
{
	struct harness *harness =
		load("(typemember a_t b_t channel c_t) (boolean on true)"
	             "(booleanif on (true (typemember c_t b_t channel a_t)))"
	             "(boolean off false) (booleanif off (true (typemember b_t b_t channel a_t)))");

	ask_member(harness, A, B);
	cr_assert(harness->member.known);
	cr_assert(harness->member.has_rule);
	cr_assert_str_eq(harness->text, "u:object_r:c_t:s0");
	ask_member(harness, "u:r:a_t:s1:c0", B);
	cr_assert(harness->member.has_rule);
	cr_assert_str_eq(harness->text, "u:object_r:c_t:s1:c0");
	ask_member(harness, B, A);
	cr_assert(harness->member.known);
	cr_assert_not(harness->member.has_rule);
	ask_member(harness, C, B);
	cr_assert(harness->member.has_rule, "a conditional rule that is on");
	ask_member(harness, B, B);
	cr_assert_not(harness->member.has_rule, "one that is off");
	ask_member(harness, A, "u:r:zz_t:s0");
	cr_assert_not(harness->member.known);
	cr_assert_str_eq(harness->text, "");
	/* The member's context takes no number away from the next new context. */
	cr_assert(harness_ask(harness, "u:r:a_t:s0:c1", "u:r:b_t:s0:c1", CLASS_CHANNEL).known);
	harness_close(harness);
}

static void take_valid(void *opaque, int status, const bool *valid, size_t n_valid)
{
	struct harness *harness = opaque;

	harness->status = status;
	harness->n = n_valid;
	memcpy(harness->valid, valid, n_valid * sizeof(*valid));
}

Test(decide, validate)
{
	static const char *const contexts[] = {A,          "u:r:zz_t:s0",         B,
	                                       "nonsense", "u:r:c_t:s0-s1:c0,c1", "u:r:a_t:s1-s0"};
	static const bool expected[] = {true, false, true, false, true, false};
	struct harness *harness = load("");
	const char *many[1024];

	cr_assert_eq(server_validate(harness->server, contexts, 6, harness_deadline(), take_valid, harness),
	             0);
	server_wait(harness->server);
	cr_assert_eq(harness->status, 0);
	cr_assert_eq(harness->n, 6);
	cr_assert_arr_eq(harness->valid, expected, sizeof(expected));
	for (size_t i = 0; i < 1024; i++)
		many[i] = contexts[i % 6];
	cr_assert_eq(server_validate(harness->server, many, 1024, harness_deadline(), take_valid, harness),
	             0);
	server_wait(harness->server);
	cr_assert_eq(harness->n, 1024);
	for (size_t i = 0; i < 1024; i++)
		cr_assert_eq(harness->valid[i], expected[i % 6]);
	harness_close(harness);
}

static void take_booleans(void *opaque, int status, const struct policy_boolean *booleans, size_t n_booleans)
{
	struct harness *harness = opaque;

	harness->status = status;
	harness->n = n_booleans;
	for (size_t i = 0; i < n_booleans; i++) {
		unsigned number;

		cr_assert_eq(sscanf(booleans[i].name, "switch_%u", &number), 1);
		cr_assert_eq(booleans[i].value, number % 3 == 0);
	}
}

/* More than one packet of them. */
Test(decide, list_booleans)
{
	static char rules[HARNESS_TEXT_BYTES];
	struct harness *harness;
	size_t used = 0;

	for (unsigned i = 0; i < 450; i++)
		used += (size_t)snprintf(rules + used, sizeof(rules) - used, "(boolean switch_%u %s)\n", i,
		                         i % 3 ? "false" : "true");
	harness = load(rules);
	cr_assert_eq(harness->policy.n_booleans, 450);
	cr_assert_eq(server_booleans(harness->server, harness_deadline(), take_booleans, harness), 0);
	server_wait(harness->server);
	cr_assert_eq(harness->status, 0);
	cr_assert_eq(harness->n, 450);
	harness_close(harness);
}

/* 200,000 questions over 5,000 contexts in one call: split on the wire, answered in order. */
Test(decide, large_batch)
{
	enum {
		N_CONTEXTS = 5000,
		N_QUESTIONS = 200000
	};
	static char texts[N_CONTEXTS][64];
	static const char *contexts[N_CONTEXTS];
	static struct server_question questions[N_QUESTIONS];
	struct harness *harness = load("(allow a_t b_t (channel (send))) (allow b_t c_t (channel (recv)))");

	/* Types in turn; most levels are ones that the policy has, every seventh is not. */
	for (unsigned i = 0; i < N_CONTEXTS; i++) {
		snprintf(texts[i], sizeof(texts[i]), "u:r:%c_t:s%u%s", "abc"[i % 3],
		         i % 7 == 6 ? 9000 + i : i % 2,
		         i % 7 == 6   ? ""
		         : i % 5 == 1 ? ":c0"
		                      : "");
		contexts[i] = texts[i];
	}
	for (unsigned i = 0; i < N_QUESTIONS; i++)
		questions[i] = (struct server_question){(i * 7919u) % N_CONTEXTS,
		                                        (i * 104729u + i / 977) % N_CONTEXTS, i % N_CLASSES};
	cr_assert_eq(harness_decide(harness, contexts, N_CONTEXTS, questions, N_QUESTIONS), 0);
	cr_assert_eq(harness->n, N_QUESTIONS);
	for (unsigned i = 0; i < N_QUESTIONS; i++) {
		uint32_t source = questions[i].source;
		uint32_t target = questions[i].target;
		bool known = source % 7 != 6 && target % 7 != 6;
		uint32_t allowed = 0;

		if (known && questions[i].tclass == CLASS_CHANNEL && source % 3 == 0 && target % 3 == 1)
			allowed = CHANNEL_SEND;
		if (known && questions[i].tclass == CLASS_CHANNEL && source % 3 == 1 && target % 3 == 2)
			allowed = CHANNEL_RECV;
		cr_assert_eq(harness->decisions[i].known, known, "%u", i);
		cr_assert_eq(harness->decisions[i].allowed, allowed, "%u", i);
	}
	cr_assert_eq(harness_decide(harness, contexts, 2, NULL, 0), 0);
	cr_assert_eq(harness->n, 0);
	harness_close(harness);
}

/* H7: very many different contexts do not grow the server; answers stay right. */
Test(decide, contexts_are_forgotten)
{
	enum {
		N_BATCH = 5000
	};
	static char texts[N_BATCH][64];
	static const char *contexts[N_BATCH];
	static struct server_question questions[N_BATCH];
	struct harness *harness = load("(allow a_t b_t (channel (send)))");

	for (unsigned round = 0; round < 8; round++) {
		for (unsigned i = 0; i < N_BATCH; i++) {
			snprintf(texts[i], sizeof(texts[i]), "u:r:a_t:s%u", i < 2 ? i : round * N_BATCH + i);
			contexts[i] = texts[i];
			questions[i] = (struct server_question){i, i, CLASS_CHANNEL};
		}
		cr_assert_eq(harness_decide(harness, contexts, N_BATCH, questions, N_BATCH), 0);
		for (unsigned i = 0; i < N_BATCH; i++)
			cr_assert_eq(harness->decisions[i].known, i < 2);
		cr_assert_eq(harness_ask(harness, A, B, CLASS_CHANNEL).allowed, CHANNEL_SEND);
	}
	harness_close(harness);
}

Test(decide, arguments)
{
	char long_context[MAX_CONTEXT_BYTES + 1];
	const char *contexts[] = {A, long_context};
	struct harness *harness = load("");

	memset(long_context, 'x', MAX_CONTEXT_BYTES);
	long_context[MAX_CONTEXT_BYTES] = '\0';
	cr_assert_eq(harness_decide(harness, contexts, 2, &(struct server_question){0, 1, 0}, 1), -EINVAL);
	cr_assert_eq(harness_decide(harness, contexts, 1, &(struct server_question){0, 1, 0}, 1), -EINVAL);
	cr_assert_eq(harness_decide(harness, contexts, 1, &(struct server_question){0, 0, N_CLASSES}, 1),
	             -EINVAL);
	cr_assert_eq(server_explain(harness->server, A, B, CLASS_CHANNEL, 3, harness_deadline(), NULL, NULL),
	             -EINVAL);
	cr_assert_eq(server_explain(harness->server, A, B, CLASS_CHANNEL, 0, harness_deadline(), NULL, NULL),
	             -EINVAL);
	cr_assert_eq(server_member(harness->server, A, NULL, CLASS_CHANNEL, harness_deadline(), NULL, NULL),
	             -EINVAL);
	cr_assert(server_alive(harness->server));
	harness_close(harness);
}
