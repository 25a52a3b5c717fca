#include "policy/compile.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sepol/cil/cil.h>
#include <sepol/debug.h>
#include <sepol/policydb.h>
#include <sepol/policydb/avtab.h>
#include <sepol/policydb/policydb.h>

#define POLICY_VERSION 33

/* CIL's log handler has no pointer of ours. */
static struct complaints *cil_complaints;

static void take_cil_message(int level, const char *message)
{
	(void)level; /* always "error" */
	complaints_log(cil_complaints, message);
}

/* A policy's magic stands in its first four bytes, little-endian. */
static uint32_t read_magic(const struct policy_text *source)
{
	uint32_t magic = 0;

	if (source->bytes >= sizeof(magic))
		memcpy(&magic, source->text, sizeof(magic));
	return magic;
}

/* 1 for a binary policy, 0 for text, -1 (and a complaint) for what is neither. */
static int classify(const struct policy_text *source, struct complaints *complaints)
{
	uint32_t magic = read_magic(source);

	if (magic == SELINUX_MAGIC)
		return 1;
	if (magic == SELINUX_MOD_MAGIC || magic == 0xf97cff8fu)
		complaints_add(
			complaints,
			"%s: this is a policy module (.pp); convert it with /usr/libexec/selinux/hll/pp to "
			"CIL, and give that together with its base",
			source->name);
	else if (memchr(source->text, '\0', source->bytes))
		complaints_add(complaints, "%s: neither CIL (it holds a zero byte) nor a binary policy",
		               source->name);
	else
		return 0;
	return -1;
}

/*
 * The CIL compiler asks for tables of a million places, whatever the policy has, and libsepol walks through
 * all of them to write a policy and writes to all of them to free one: 16 MiB of page faults, five sixths of
 * the time of a small policy. A rule takes 20 bytes of text and more; where attributes multiply them the
 * chains grow, and nothing else. Between the two of these stands the linker (--wrap).
 */
#define RULE_BYTES 16u
#define LEAST_RULES 4096u

static size_t n_source_bytes;

int __real_avtab_alloc(avtab_t *table, uint32_t n_rules);
int __wrap_avtab_alloc(avtab_t *table, uint32_t n_rules);

int __wrap_avtab_alloc(avtab_t *table, uint32_t n_rules)
{
	size_t likely = n_source_bytes / RULE_BYTES;

	if (n_rules == MAX_AVTAB_SIZE && likely < n_rules)
		n_rules = likely < LEAST_RULES ? LEAST_RULES : (uint32_t)likely;
	return __real_avtab_alloc(table, n_rules);
}

static int add_sources(cil_db_t *db, const struct policy_text *sources, size_t n_sources)
{
	int error = 0;

	for (size_t i = 0; i < n_sources; i++) {
		char alias[16];

		complaints_alias(i, alias);
		if (cil_add_file(db, alias, sources[i].text, sources[i].bytes))
			error = -1; /* go on: the user wants to see every file's errors */
	}
	return error;
}

/* Gives the operator the number OPERATOR_SID; who had that number takes the operator's. */
static bool place_operator(policydb_t *db)
{
	ocontext_t *operator_sid = NULL;
	ocontext_t *holder = NULL;

	for (ocontext_t *sid = db->ocontexts[OCON_ISID]; sid; sid = sid->next) {
		if (sid->sid[0] == OPERATOR_SID)
			holder = sid;
		if (sid->u.name && strcmp(sid->u.name, "operator") == 0)
			operator_sid = sid;
	}
	if (!operator_sid)
		return false;
	if (holder)
		holder->sid[0] = operator_sid->sid[0];
	operator_sid->sid[0] = OPERATOR_SID;
	return true;
}

static int write_image(sepol_policydb_t *db, struct complaints *complaints, void **image, size_t *image_bytes)
{
	if (!place_operator(&db->p)) {
		complaints_add(
			complaints,
			"the policy has no initial SID \"operator\": declare (sid operator), name it in "
			"(sidorder ...) and give it a (sidcontext operator ...)");
		return -1;
	}
	if (sepol_policydb_to_image(NULL, db, image, image_bytes)) {
		complaints_add(complaints, "the compiled policy could not be written");
		return -1;
	}
	return 0;
}

static int compile_cil(cil_db_t *db, const struct policy_text *sources, size_t n_sources,
                       struct complaints *complaints, void **image, size_t *image_bytes)
{
	sepol_policydb_t *policydb = NULL;
	int error;

	if (add_sources(db, sources, n_sources) || cil_compile(db) || cil_build_policydb(db, &policydb))
		return -1;
	error = write_image(policydb, complaints, image, image_bytes);
	sepol_policydb_free(policydb);
	return error;
}

/* Levels are on unless a source says (mls false); for CIL, what is set here would win over that. */
static bool says_mls(const struct policy_text *sources, size_t n_sources)
{
	for (size_t i = 0; i < n_sources; i++)
		if (policy_text_find(&sources[i], "mls"))
			return true;
	return false;
}

static int compile_texts(const struct policy_text *sources, size_t n_sources, struct complaints *complaints,
                         void **image, size_t *image_bytes)
{
	cil_db_t *db = NULL;
	int error;

	cil_complaints = complaints;
	cil_set_log_handler(take_cil_message);
	cil_set_log_level(CIL_ERR);
	n_source_bytes = 0;
	for (size_t i = 0; i < n_sources; i++)
		n_source_bytes += sources[i].bytes;
	cil_db_init(&db);
	cil_set_mls(db, says_mls(sources, n_sources) ? -1 : 1);
	cil_set_target_platform(db, SEPOL_TARGET_SELINUX);
	cil_set_policy_version(db, POLICY_VERSION);
	cil_set_attrs_expand_generated(db, 1);
	cil_set_attrs_expand_size(db, 1);
	error = compile_cil(db, sources, n_sources, complaints, image, image_bytes);
	cil_db_destroy(&db);
	return error;
}

static int copy_image(const struct policy_text *source, struct complaints *complaints, void **image,
                      size_t *image_bytes)
{
	*image = malloc(source->bytes);
	if (!*image) {
		complaints_add(complaints, "%s: out of memory", source->name);
		return -1;
	}
	memcpy(*image, source->text, source->bytes);
	*image_bytes = source->bytes;
	return 0;
}

int policy_compile(const struct policy_text *sources, size_t n_sources, struct complaints *complaints,
                   void **image, size_t *image_bytes)
{
	size_t n_binary = 0;
	int error = 0;

	sepol_debug(0); /* libsepol would write to standard error */
	for (size_t i = 0; i < n_sources; i++) {
		int kind = classify(&sources[i], complaints);

		n_binary += kind == 1;
		error |= kind < 0;
	}
	if (!error && n_binary && n_sources > 1) {
		complaints_add(complaints, "%s: a binary policy can not be combined with other files",
		               sources[0].name);
		error = -1;
	}
	if (error)
		error = -1;
	else if (n_binary)
		error = copy_image(&sources[0], complaints, image, image_bytes);
	else
		error = compile_texts(sources, n_sources, complaints, image, image_bytes);
	complaints_end(complaints);
	if (error && !complaints->text[0])
		complaints_add(complaints, "the policy could not be compiled, and libsepol does not say why");
	return error;
}
