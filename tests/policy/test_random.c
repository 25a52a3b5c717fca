/*
 * The security server against libsepol asked directly: 100,000 random questions
 * about a generated policy with attributes, booleans, levels, constraints,
 * dontaudit, auditallow and permissive types.
 */
/* First: a field of theirs is named bool. */
#include <sepol/cil/cil.h>
#include <sepol/debug.h>
#include <sepol/policydb.h>
#include <sepol/policydb/conditional.h>
#include <sepol/policydb/policydb.h>
#include <sepol/policydb/services.h>
#include <sepol/policydb/sidtab.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/policy/harness.h"

enum {
	N_TYPES = 40,
	N_ATTRIBUTES = 6,
	N_RULES = 500,
	N_BOOLEANS = 8,
	N_CONTEXTS = 2000,
	N_QUESTIONS = 100000
};

static uint64_t seed = 20240229;

static uint32_t pick(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

static char policy[256 << 10];
static size_t policy_used;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	policy_used +=
		(size_t)vsnprintf(policy + policy_used, sizeof(policy) - policy_used, format, arguments);
	va_end(arguments);
	cr_assert_lt(policy_used, sizeof(policy));
}

/* A type or an attribute. */
static void say_type(void)
{
	if (pick(3) == 0)
		say(" attribute_%u", pick(N_ATTRIBUTES));
	else
		say(" type_%u", pick(N_TYPES));
}

static void say_permissions(void)
{
	enum policy_class tclass = pick(N_CLASSES);
	uint32_t all = class_all_permissions(tclass) & ~(tclass == CLASS_GUEST ? (uint32_t)GUEST_GETATTR : 0);
	uint32_t some = (pick(all) | pick(all)) + 1;

	say(" (%s (", class_name(tclass));
	for (uint32_t bit = 1; bit & all; bit <<= 1)
		if (some & bit & all)
			say("%s ", class_permission_name(tclass, bit));
	say("%s))", class_permission_name(tclass, 1));
}

static void say_rule(void)
{
	static const char *const kinds[] = {"allow", "allow", "allow", "auditallow", "dontaudit"};

	say("(%s", kinds[pick(5)]);
	say_type();
	say_type();
	say_permissions();
	say(")\n");
}

static void say_words(void)
{
	say("(handleunknown deny) (mls true)\n"
	    /* Not our order; more than ours, and in guest less. */
	    "(class monitor (shutdown load_policy setenforce other setbool overlay compute read_audit "
	    "getattr))\n"
	    "(class guest (stop define start suspend resume))\n"
	    "(class file (read write))\n"
	    "(class channel (cut flowctl send recv accept connect specify_client))\n"
	    "(class domain (start stop getattr relabelfrom relabelto quarantine release console))\n"
	    "(classorder (monitor file guest channel domain))\n"
	    "(sid kernel) (sid security) (sid unlabeled) (sid operator)\n"
	    "(sidorder (kernel security unlabeled operator))\n"
	    "(sensitivity s0) (sensitivity s1) (sensitivity s2) (sensitivityorder (s0 s1 s2))\n"
	    "(category c0) (category c1) (category c2) (categoryorder (c0 c1 c2)) (categoryset cs (c0 c1 "
	    "c2))\n"
	    "(sensitivitycategory s0 cs) (sensitivitycategory s1 cs) (sensitivitycategory s2 cs)\n"
	    "(role r) (role q) (user u) (userrole u r) (userrole u q)\n"
	    "(userlevel u (s0)) (userrange u ((s0) (s2 cs)))\n");
	for (unsigned i = 0; i < N_ATTRIBUTES; i++)
		say("(typeattribute attribute_%u)\n", i);
	for (unsigned i = 0; i < N_TYPES; i++) {
		say("(type type_%u) (roletype r type_%u)\n", i, i);
		if (i % 2)
			say("(roletype q type_%u)\n", i);
		if (pick(8) == 0)
			say("(typepermissive type_%u)\n", i);
		for (unsigned k = 0; k < 2; k++)
			say("(typeattributeset attribute_%u (type_%u))\n", pick(N_ATTRIBUTES), i);
	}
	for (unsigned i = 0; i < 4; i++)
		say("(sidcontext %s (u r type_0 ((s0) (s0))))\n",
		    (const char *[]){"kernel", "security", "unlabeled", "operator"}[i]);
}

static void say_rules(void)
{
	for (unsigned i = 0; i < N_RULES; i++)
		say_rule();
	for (unsigned i = 0; i < N_BOOLEANS; i++) {
		say("(boolean switch_%u %s)\n(booleanif (xor switch_%u switch_%u) (true\n", i,
		    pick(2) ? "true" : "false", i, pick(i + 1));
		for (unsigned k = 0; k < 5; k++)
			say_rule();
		say(")(false\n");
		say_rule();
		say("))\n");
	}
	say("(mlsconstrain (channel (send flowctl)) (or (domby l1 h2) (eq t1 attribute_0)))\n"
	    "(mlsconstrain (channel (recv)) (and (dom h1 l2) (neq t2 type_1)))\n"
	    "(constrain (domain (start stop)) (or (eq r1 r2) (eq t1 attribute_1)))\n");
}

static char contexts[N_CONTEXTS][64];

/* Most are known; some have a type, a level or a role that is not theirs. */
static void make_contexts(void)
{
	static const char *const levels[] = {"s0",       "s1",    "s2",          "s0-s2:c0.c2", "s1:c0,c2",
	                                     "s0-s1:c1", "s2:c1", "s0-s2:c1.c2", "s3",          "s1-s0"};

	for (unsigned i = 0; i < N_CONTEXTS; i++)
		snprintf(contexts[i], sizeof(contexts[i]), "u:%c:type_%u:%s", "rrrrq"[pick(5)],
		         pick(N_TYPES + 1), levels[pick(pick(4) ? 8 : 10)]);
}

/* libsepol without anything of ours. */
struct oracle {
	sepol_policydb_t *db;
	sidtab_t sids;
	sepol_security_id_t contexts[N_CONTEXTS]; /* 0: unknown */
};

static void oracle_open(struct oracle *oracle)
{
	cil_db_t *cil;

	sepol_debug(0);
	cil_db_init(&cil);
	cil_set_mls(cil, 1);
	cil_set_target_platform(cil, SEPOL_TARGET_SELINUX);
	cil_set_policy_version(cil, 33);
	cr_assert_eq(cil_add_file(cil, "random", policy, policy_used), 0);
	cr_assert_eq(cil_compile(cil), 0);
	cr_assert_eq(cil_build_policydb(cil, &oracle->db), 0);
	cil_db_destroy(&cil);
	sepol_set_policydb(&oracle->db->p);
	sepol_set_sidtab(&oracle->sids);
	cr_assert_eq(policydb_load_isids(&oracle->db->p, &oracle->sids), 0);
	for (unsigned i = 0; i < N_CONTEXTS; i++)
		if (sepol_context_to_sid(contexts[i], strlen(contexts[i]), &oracle->contexts[i]))
			oracle->contexts[i] = 0;
}

static void oracle_set_boolean(struct oracle *oracle, const char *name, bool value)
{
	cond_bool_datum_t *boolean = hashtab_search(oracle->db->p.p_bools.table, name);

	boolean->state = value;
	cr_assert_eq(evaluate_conds(&oracle->db->p), 0);
}

static uint32_t oracle_bits(enum policy_class tclass, sepol_security_class_t theirs, uint32_t av,
                            bool missing)
{
	uint32_t all = class_all_permissions(tclass);
	uint32_t bits = 0;

	for (uint32_t bit = 1; bit & all; bit <<= 1) {
		sepol_access_vector_t mask;

		if (sepol_string_to_av_perm(theirs, class_permission_name(tclass, bit), &mask))
			bits |= missing ? bit : 0;
		else if (av & mask)
			bits |= bit;
	}
	return bits;
}

static struct server_decision oracle_ask(struct oracle *oracle, const struct server_question *question)
{
	struct server_decision decision = {.auditdeny = class_all_permissions(question->tclass)};
	sepol_security_id_t source = oracle->contexts[question->source];
	sepol_security_id_t target = oracle->contexts[question->target];
	sepol_security_class_t theirs;
	struct sepol_av_decision av;

	if (!source || !target)
		return decision;
	cr_assert_eq(sepol_string_to_security_class(class_name(question->tclass), &theirs), 0);
	cr_assert_eq(sepol_compute_av(source, target, theirs, 0, &av), 0);
	decision.known = true;
	decision.permissive = ebitmap_get_bit(&oracle->db->p.permissive_map,
	                                      sepol_sidtab_search(&oracle->sids, source)->type);
	decision.allowed = oracle_bits(question->tclass, theirs, av.allowed, false);
	decision.auditallow = oracle_bits(question->tclass, theirs, av.auditallow, false);
	decision.auditdeny = oracle_bits(question->tclass, theirs, av.auditdeny, true);
	return decision;
}

static void compare(struct harness *harness, struct oracle *oracle)
{
	static struct server_question questions[N_QUESTIONS];
	static const char *texts[N_CONTEXTS];
	unsigned n_known = 0;
	unsigned n_allowed = 0;
	unsigned n_permissive = 0;

	for (unsigned i = 0; i < N_CONTEXTS; i++)
		texts[i] = contexts[i];
	for (unsigned i = 0; i < N_QUESTIONS; i++)
		questions[i] = (struct server_question){pick(N_CONTEXTS), pick(N_CONTEXTS), pick(N_CLASSES)};
	cr_assert_eq(harness_decide(harness, texts, N_CONTEXTS, questions, N_QUESTIONS), 0);
	for (unsigned i = 0; i < N_QUESTIONS; i++) {
		struct server_decision expected = oracle_ask(oracle, &questions[i]);
		struct server_decision got = harness->decisions[i];

		cr_assert(got.known == expected.known && got.permissive == expected.permissive &&
		                  got.allowed == expected.allowed && got.auditallow == expected.auditallow &&
		                  got.auditdeny == expected.auditdeny,
		          "%s %s %s: %x, libsepol says %x", texts[questions[i].source],
		          texts[questions[i].target], class_name(questions[i].tclass), got.allowed,
		          expected.allowed);
		n_known += got.known;
		n_allowed += got.allowed != 0;
		n_permissive += got.permissive;
	}
	/* The questions were worth asking. */
	cr_assert(n_known > N_QUESTIONS / 2 && n_known < N_QUESTIONS, "%u", n_known);
	cr_assert(n_allowed > n_known / 10 && n_allowed < n_known, "%u", n_allowed);
	cr_assert(n_permissive > 0 && n_permissive < n_known / 2, "%u", n_permissive);
}

Test(random, decisions_equal_libsepol)
{
	static struct oracle oracle;
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"random.cil", policy, 0}, {0}};
	const struct policy_boolean booleans[] = {
		{"switch_0", true}, {"switch_3", false}, {"switch_5", true}};

	say_words();
	say_rules();
	make_contexts();
	oracle_open(&oracle);
	cr_assert_eq(harness_load(harness, files), 0, "%s", harness->text);
	compare(harness, &oracle);
	harness_renew(harness);
	cr_assert_eq(harness_load_booleans(harness, files, booleans, 3), 0);
	for (unsigned i = 0; i < 3; i++)
		oracle_set_boolean(&oracle, booleans[i].name, booleans[i].value);
	compare(harness, &oracle);
	harness_close(harness);
}

static void take_anything(void *opaque, int status, const struct server_policy *loaded, const char *why)
{
	(void)why;
	if (loaded)
		close(loaded->image_fd);
	*(int *)opaque = status;
}

/*
 * H11, I3: whatever a binary policy does to its server, the monitor's end gets a
 * status. A mutant that hangs is ended by its deadline; a short one, because a
 * hang that takes 120 s proves nothing more.
 */
Test(random, mutated_binary_policies)
{
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"random.cil", policy, 0}, {0}};
	unsigned n_refused = 0;
	char *image;
	char *mutant;
	size_t bytes;

	say_words();
	say_rules();
	cr_assert_eq(harness_load(harness, files), 0);
	bytes = harness->policy.image_bytes;
	image = malloc(bytes);
	mutant = malloc(bytes);
	cr_assert_eq(pread(harness->policy.image_fd, image, bytes, 0), (ssize_t)bytes);
	for (unsigned round = 0; round < 300; round++) {
		size_t cut = round % 4 ? bytes : 4 + pick((uint32_t)bytes - 4);
		struct policy_source source;
		int status = 1;

		memcpy(mutant, image, bytes);
		for (unsigned i = 0; i <= pick(4); i++)
			mutant[4 + pick((uint32_t)bytes - 4)] = (char)pick(256);
		harness_renew(harness);
		source = (struct policy_source){"mutant", harness_memfd(mutant, cut), cut};
		cr_assert_eq(server_load(harness->server, &source, 1, NULL, 0,
		                         harness_deadline() - UINT64_C(118000000000), take_anything, &status),
		             0);
		close(source.fd);
		server_wait(harness->server);
		cr_assert(status == 0 || status == -EBADMSG || status == -ECONNRESET ||
		                  status == -ETIMEDOUT || status == -EPROTO,
		          "%d", status);
		n_refused += status != 0;
		if (status == 0)
			harness_decide(harness, (const char *[]){"u:r:type_1:s0", "u:r:type_2:s1"}, 2,
			               &(struct server_question){0, 1, CLASS_CHANNEL}, 1);
	}
	cr_assert_gt(n_refused, 100);
	free(image);
	free(mutant);
	harness_close(harness);
}
