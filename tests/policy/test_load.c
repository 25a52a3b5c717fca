/* Loading policies: what is accepted, what is refused, and with which words. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/policy/harness.h"

static struct harness_file base_file(void)
{
	return (struct harness_file){"base.cil", harness_base, 0};
}

/* The text of a refusal of base and `more`. The caller frees. */
static char *refusal(const char *more)
{
	struct harness *harness = harness_open();
	struct harness_file files[] = {base_file(), {"dir/my policy.cil", more, 0}, {0}};
	char *text;

	cr_assert_eq(harness_load(harness, files), -EBADMSG, "%s\n%s", more, harness->text);
	cr_assert_not(server_alive(harness->server));
	text = strdup(harness->text);
	harness_close(harness);
	return text;
}

static void expect_refusal(const char *more, const char *text)
{
	char *why = refusal(more);

	cr_assert_str_eq(why, text);
	free(why);
}

Test(load, demo_policies)
{
	char *base = harness_read_file("policy/base.cil");
	char *demo = harness_read_file("examples/demo/demo.cil");
	char *strict = harness_read_file("examples/demo/strict.cil");
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"base.cil", base, 0}, {"demo.cil", demo, 0}, {0}};

	cr_assert_eq(harness_load(harness, files), 0, "%s", harness->text);
	cr_assert_str_eq(harness->text, "");
	cr_assert_str_eq(harness->operator_context, "system_u:operator_r:operator_t:s0-s3:c0.c15");
	cr_assert(harness->policy.mls);
	cr_assert_eq(harness->policy.n_types, 11);
	harness_renew(harness);
	files[1] = (struct harness_file){"strict.cil", strict, 0};
	cr_assert_eq(harness_load(harness, files), 0, "%s", harness->text);
	cr_assert_str_eq(harness->text, "");
	harness_close(harness);
	free(base);
	free(demo);
	free(strict);
}

Test(load, syntax_errors_have_file_and_line)
{
	expect_refusal("\n\n(allow a_t b_t (channel (send)) extra)\n",
	               "dir/my policy.cil:3: Invalid syntax; Bad allow rule: (allow a_t b_t (channel (send)) "
	               "extra)");
	expect_refusal("(type d_t)\n(allow a_t b_t))\n",
	               "dir/my policy.cil:2: Close parenthesis without matching open: (allow a_t b_t))");
	expect_refusal("; (frobnicate here)\n(frobnicate a_t)\n",
	               "dir/my policy.cil:2: Unknown keyword frobnicate: (frobnicate a_t)");
	expect_refusal(
		"(boolean b maybe)",
		"dir/my policy.cil:1: Value must be either 'true' or 'false'; Bad boolean declaration: "
		"(boolean b maybe)");
}

/* Every file's syntax errors, not only the first one's. */
Test(load, syntax_errors_of_two_files)
{
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"one.cil", "(type a\n", 0}, {"two.cil", "\nhello\n", 0}, {0}};

	cr_assert_eq(harness_load(harness, files), -EBADMSG);
	cr_assert_str_eq(harness->text, "one.cil:2: Open parenthesis without matching close\n"
	                                "two.cil:2: Symbol not inside parenthesis: hello");
	harness_close(harness);
}

Test(load, unknown_names_have_file_and_line)
{
	expect_refusal(
		"\n(allow a_t b_t (channel (sned)))",
		"dir/my policy.cil:2: Failed to resolve permission sned; Failed to resolve allow statement: "
		"(allow a_t b_t (channel (sned)))");
	expect_refusal(
		"(allow a_t nobody_t (channel (send)))",
		"dir/my policy.cil:1: Failed to resolve allow statement (a name in it is not declared): "
		"(allow a_t nobody_t (channel (send)))");
}

Test(load, neverallow_names_both_rules)
{
	expect_refusal("(neverallow any any (channel (send)))\n(allow b_t a_t (channel (send)))",
	               "dir/my policy.cil:1: neverallow check failed: (neverallow any any (channel (send)))\n"
	               "dir/my policy.cil:2: this rule violates it: (allow b_t a_t (channel (send)))");
}

/* What the user's text holds can not forge lines or reach a terminal. */
Test(load, refusals_are_clean_text)
{
	char *why = refusal("(allow a_t \x1b[31mred_t (channel (send)))");

	for (const char *p = why; *p; p++)
		cr_assert(*p == '\n' || (*p >= ' ' && *p <= '~'), "byte %d in: %s", *p, why);
	free(why);
}

Test(load, operator_is_required)
{
	static const char without[] =
		"(class channel (send)) (classorder (channel)) (sid kernel) (sidorder (kernel))"
		"(sensitivity s0) (sensitivityorder (s0))"
		"(type a_t) (role r) (user u) (userrole u r) (roletype r a_t)"
		"(userlevel u (s0)) (userrange u ((s0) (s0)))"
		"(sidcontext kernel (u r a_t ((s0) (s0)))) (allow a_t a_t (channel (send)))";
	struct harness *harness = harness_open();

	cr_assert_eq(harness_load(harness, (struct harness_file[]){{"p.cil", without, 0}, {0}}), -EBADMSG);
	cr_assert_str_eq(harness->text,
	                 "the policy has no initial SID \"operator\": declare (sid operator), name it in "
	                 "(sidorder ...) and give it a (sidcontext operator ...)");
	harness_close(harness);
}

/* Wherever it stands in the order of a CIL policy; and without MLS. */
static const char first_operator[] =
	"(mls false) (class channel (send)) (classorder (channel)) (sid operator) (sid kernel)"
	"(sidorder (operator kernel)) (type a_t) (role r) (user u) (userrole u r) (roletype r a_t)"
	"(sensitivity s0) (sensitivityorder (s0)) (userlevel u (s0)) (userrange u ((s0) (s0)))"
	"(sidcontext kernel (u r a_t ((s0) (s0)))) (sidcontext operator (u r a_t ((s0) (s0))))"
	"(allow a_t a_t (channel (send)))";

Test(load, missing_names_are_warnings)
{
	struct harness *harness = harness_open();

	cr_assert_eq(harness_load(harness, (struct harness_file[]){{"p.cil", first_operator, 0}, {0}}), 0,
	             "%s", harness->text);
	cr_assert_not(harness->policy.mls);
	cr_assert_str_eq(harness->operator_context, "u:r:a_t");
	cr_assert_str_eq(harness->text,
	                 "the policy's class channel has no permission connect: it is never granted\n"
	                 "the policy's class channel has no permission accept: it is never granted\n"
	                 "the policy's class channel has no permission recv: it is never granted\n"
	                 "the policy's class channel has no permission flowctl: it is never granted\n"
	                 "the policy's class channel has no permission specify_client: it is never granted\n"
	                 "the policy's class channel has no permission cut: it is never granted\n"
	                 "the policy has no class domain: its permissions are never granted\n"
	                 "the policy has no class guest: its permissions are never granted\n"
	                 "the policy has no class monitor: its permissions are never granted");
	cr_assert_eq(harness_ask(harness, "u:r:a_t", "u:r:a_t", CLASS_CHANNEL).allowed, CHANNEL_SEND);
	cr_assert_eq(harness_ask(harness, "u:r:a_t", "u:r:a_t", CLASS_GUEST).allowed, 0);
	cr_assert_str_eq(harness_explain(harness, "u:r:a_t", "u:r:a_t", CLASS_CHANNEL, CHANNEL_RECV),
	                 "the policy has no permission channel:recv");
	cr_assert_str_eq(harness_explain(harness, "u:r:a_t", "u:r:a_t", CLASS_GUEST, GUEST_STOP),
	                 "the policy has no class guest");
	cr_assert_not(harness_ask(harness, "u:r:a_t:s0", "u:r:a_t", CLASS_CHANNEL).known);
	harness_close(harness);
}

Test(load, handle_unknown)
{
	static char text[sizeof(first_operator) + 64];
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"p.cil", text, 0}, {0}};

	snprintf(text, sizeof(text), "(handleunknown allow) %s", first_operator);
	cr_assert_eq(harness_load(harness, files), 0);
	cr_assert_not_null(strstr(harness->text, "granted to all, as (handleunknown allow) says"));
	cr_assert_eq(harness_ask(harness, "u:r:a_t", "u:r:a_t", CLASS_GUEST).allowed,
	             class_all_permissions(CLASS_GUEST));
	cr_assert_eq(harness_ask(harness, "u:r:a_t", "u:r:a_t", CLASS_CHANNEL).allowed,
	             class_all_permissions(CLASS_CHANNEL));
	cr_assert_eq(harness_ask(harness, "u:r:b_t", "u:r:a_t", CLASS_GUEST).allowed, 0, "not to a stranger");
	cr_assert_str_eq(harness_explain(harness, "u:r:a_t", "u:r:a_t", CLASS_GUEST, GUEST_STOP), "allowed");
	harness_renew(harness);
	snprintf(text, sizeof(text), "(handleunknown reject) %s", first_operator);
	cr_assert_eq(harness_load(harness, files), -EBADMSG);
	cr_assert_not_null(strstr(harness->text, "refused, as (handleunknown reject) says"));
	harness_close(harness);
}

/* Loads the image of the last load in a new server. */
static int reload_image(struct harness *harness, const struct policy_boolean *booleans, size_t n_booleans)
{
	size_t bytes = harness->policy.image_bytes;
	void *image = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, harness->policy.image_fd, 0);
	struct harness_file files[] = {{"image", image, bytes}, {0}};
	int status;

	cr_assert_neq(image, MAP_FAILED);
	harness_renew(harness);
	status = harness_load_booleans(harness, files, booleans, n_booleans);
	munmap(image, bytes);
	return status;
}

/* A server whose process died is started again from the image: it must be the same policy. */
Test(load, image_starts_the_same_server)
{
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"first.cil", first_operator, 0}, {0}};
	uint64_t high;
	uint64_t low;

	cr_assert_eq(harness_load(harness, files), 0);
	high = harness->policy.fingerprint_high;
	low = harness->policy.fingerprint_low;
	for (unsigned round = 0; round < 3; round++) {
		cr_assert_eq(reload_image(harness, NULL, 0), 0, "%s", harness->text);
		cr_assert_eq(harness->policy.fingerprint_high, high);
		cr_assert_eq(harness->policy.fingerprint_low, low);
		cr_assert_str_eq(harness->operator_context, "u:r:a_t");
		cr_assert_eq(harness_ask(harness, "u:r:a_t", "u:r:a_t", CLASS_CHANNEL).allowed, CHANNEL_SEND);
	}
	harness_close(harness);
}

/* I5: the same sources give the same fingerprint. */
Test(load, fingerprint_is_reproducible)
{
	char *base = harness_read_file("policy/base.cil");
	char *demo = harness_read_file("examples/demo/demo.cil");
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"base.cil", base, 0}, {"demo.cil", demo, 0}, {0}};
	uint64_t high;

	cr_assert_eq(harness_load(harness, files), 0);
	high = harness->policy.fingerprint_high;
	harness_renew(harness);
	cr_assert_eq(harness_load(harness, files), 0);
	cr_assert_eq(harness->policy.fingerprint_high, high);
	harness_close(harness);
	free(base);
	free(demo);
}

Test(load, binary_policy_stands_alone)
{
	static const char magic[] = "\x8c\xff\x7c\xf9 and nothing that follows";
	static const char module[] = "\x8d\xff\x7c\xf9";
	struct harness *harness = harness_open();
	struct harness_file files[] = {{"p.bin", magic, sizeof(magic)}, base_file(), {0}};

	cr_assert_eq(harness_load(harness, files), -EBADMSG);
	cr_assert_str_eq(harness->text, "p.bin: a binary policy can not be combined with other files");
	harness_renew(harness);
	files[1].name = NULL;
	cr_assert_eq(harness_load(harness, files), -EBADMSG);
	cr_assert_eq(strncmp(harness->text, "p.bin: not a binary policy that libsepol can read", 49), 0, "%s",
	             harness->text);
	harness_renew(harness);
	files[0] = (struct harness_file){"m.pp", module, sizeof(module)};
	cr_assert_eq(harness_load(harness, files), -EBADMSG);
	cr_assert_not_null(strstr(harness->text, "m.pp: this is a policy module"));
	harness_renew(harness);
	files[0] = (struct harness_file){"zero", "a\0b", 3};
	cr_assert_eq(harness_load(harness, files), -EBADMSG);
	cr_assert_not_null(strstr(harness->text, "zero: neither CIL"));
	harness_close(harness);
}

/* What audit2allow -M writes, converted with hll/pp, links with base.cil. */
Test(load, audit2allow_module)
{
	static const char module[] = "(typeattributeset cil_gen_require server_t)\n"
				     "(typeattributeset cil_gen_require client_t)\n"
				     "(roleattributeset cil_gen_require system_r)\n"
				     "(allow client_t server_t (channel (cut)))\n";
	char *base = harness_read_file("policy/base.cil");
	char *demo = harness_read_file("examples/demo/demo.cil");
	struct harness *harness = harness_open();
	struct harness_file files[] = {
		{"base.cil", base, 0}, {"demo.cil", demo, 0}, {"module.cil", module, 0}, {0}};
	const char *client = "system_u:system_r:client_t:s0";

	cr_assert_eq(harness_load(harness, files), 0, "%s", harness->text);
	cr_assert(harness_ask(harness, client, "system_u:system_r:server_t:s0", CLASS_CHANNEL).allowed &
	          CHANNEL_CUT);
	harness_close(harness);
	free(base);
	free(demo);
}

/* R14: a load takes the operator's settings, and leaves out what the policy lacks. */
Test(load, booleans)
{
	static const char rules[] = "(boolean talk false) (boolean listen true)"
				    "(booleanif talk (true (allow a_t b_t (channel (send)))))"
				    "(booleanif listen (true (allow b_t a_t (channel (recv)))))";
	static const struct policy_boolean set[] = {{"talk", true}, {"listen", false}, {"gone", true}};
	struct harness *harness = harness_open();
	struct harness_file files[] = {base_file(), {"rules.cil", rules, 0}, {0}};
	uint64_t low;

	cr_assert_eq(harness_load(harness, files), 0, "%s", harness->text);
	cr_assert_eq(harness->policy.n_booleans, 2);
	low = harness->policy.fingerprint_low;
	cr_assert_eq(harness_ask(harness, "u:r:a_t:s0", "u:r:b_t:s0", CLASS_CHANNEL).allowed, 0);
	cr_assert_eq(harness_ask(harness, "u:r:b_t:s0", "u:r:a_t:s0", CLASS_CHANNEL).allowed, CHANNEL_RECV);
	harness_renew(harness);
	cr_assert_eq(harness_load_booleans(harness, files, set, 3), 0);
	cr_assert_neq(harness->policy.fingerprint_low, low);
	cr_assert_eq(harness_ask(harness, "u:r:a_t:s0", "u:r:b_t:s0", CLASS_CHANNEL).allowed, CHANNEL_SEND);
	cr_assert_eq(harness_ask(harness, "u:r:b_t:s0", "u:r:a_t:s0", CLASS_CHANNEL).allowed, 0);
	/* The image holds the settings. */
	cr_assert_eq(reload_image(harness, NULL, 0), 0);
	cr_assert_eq(harness_ask(harness, "u:r:a_t:s0", "u:r:b_t:s0", CLASS_CHANNEL).allowed, CHANNEL_SEND);
	cr_assert_eq(reload_image(harness, (struct policy_boolean[]){{"talk", false}}, 1), 0);
	cr_assert_eq(harness_ask(harness, "u:r:a_t:s0", "u:r:b_t:s0", CLASS_CHANNEL).allowed, 0);
	harness_close(harness);
}

/* The caller's mistakes are found before anything is sent. */
Test(load, arguments)
{
	struct harness *harness = harness_open();
	int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct policy_source source = {"x.cil", unsealed, 5};
	struct policy_source many[MAX_POLICY_FILES + 1];

	cr_assert_eq(write(unsealed, "12345", 5), 5);
	cr_assert_eq(server_load(harness->server, &source, 1, NULL, 0, harness_deadline(), NULL, NULL),
	             -EINVAL);
	cr_assert_eq(server_load(harness->server, &source, 0, NULL, 0, harness_deadline(), NULL, NULL),
	             -EINVAL);
	cr_assert_eq(server_load(harness->server, many, MAX_POLICY_FILES + 1, NULL, 0, harness_deadline(),
	                         NULL, NULL),
	             -E2BIG);
	close(unsealed);
	source.fd = harness_memfd("12345", 5);
	source.bytes = 6;
	cr_assert_eq(server_load(harness->server, &source, 1, NULL, 0, harness_deadline(), NULL, NULL),
	             -EINVAL);
	close(source.fd);
	cr_assert_eq(server_booleans(harness->server, harness_deadline(), NULL, NULL), -EINVAL,
	             "load comes first");
	cr_assert_eq(harness_load(harness, (struct harness_file[]){base_file(), {0}}), 0);
	cr_assert_eq(harness_load(harness, (struct harness_file[]){base_file(), {0}}), -EINVAL, "and once");
	harness_close(harness);
}

/* For this test and the servers that it starts. */
static bool limit_memory(rlim_t bytes)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	(void)bytes;
	return false;
#else
	return setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}) == 0;
#endif
}

/* R8, H11: a policy that exhausts the server is refused, or ends it; the monitor lives. */
Test(load, bomb_is_refused)
{
	static char bomb[HARNESS_TEXT_BYTES];
	struct harness_file files[] = {base_file(), {"bomb.cil", bomb, 0}, {0}};
	struct harness *harness;
	size_t used = 0;
	int status;

	if (!limit_memory(256u << 20))
		cr_skip_test("a sanitizer's shadow memory leaves no limit to run into");
	/* Each macro calls the one before it ten times. */
	used += (size_t)snprintf(bomb, sizeof(bomb), "(macro m0 ((type t)) (allow t t (channel (send))))\n");
	for (unsigned i = 1; i <= 12; i++) {
		used += (size_t)snprintf(bomb + used, sizeof(bomb) - used, "(macro m%u ((type t))", i);
		for (unsigned call = 0; call < 10; call++)
			used += (size_t)snprintf(bomb + used, sizeof(bomb) - used, " (call m%u (t))", i - 1);
		used += (size_t)snprintf(bomb + used, sizeof(bomb) - used, ")\n");
	}
	snprintf(bomb + used, sizeof(bomb) - used, "(call m12 (a_t))\n");
	harness = harness_open();
	status = harness_load(harness, files);
	cr_assert(status == -EBADMSG || status == -ECONNRESET || status == -ETIMEDOUT, "%d", status);
	cr_assert_not_null(strstr(harness->text, status == -EBADMSG ? "memory" : "the security server"), "%s",
	                   harness->text);
	cr_assert_not(server_alive(harness->server));
	harness_close(harness);
}
