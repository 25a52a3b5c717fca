#include "policy/ruleset_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sepol/debug.h>

#include "policy/compile.h"

#define MAX_CONTEXTS 16384u /* asked about before they are forgotten: bounds memory and search */

/* The first thing that libsepol says is the cause; what follows are its callers. */
static void take_message(void *opaque, sepol_handle_t *handle, const char *format, ...)
{
	struct complaints *complaints = opaque;
	char text[256];
	va_list arguments;

	if (sepol_msg_get_level(handle) != SEPOL_MSG_ERR || complaints->detail[0])
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	snprintf(complaints->detail, sizeof(complaints->detail), "%s", text);
}

static void explain_unreadable(struct complaints *complaints)
{
	char cause[COMPLAINT_BYTES];

	memcpy(cause, complaints->detail, sizeof(cause));
	complaints->detail[0] = '\0';
	complaints_add(complaints, "%s: not a binary policy that libsepol can read%s%.300s",
	               complaints->n_sources ? complaints->sources[0].name : "policy", cause[0] ? ": " : "",
	               cause);
}

static int read_image(struct ruleset *ruleset, const void *image, size_t image_bytes,
                      struct complaints *complaints)
{
	sepol_handle_t *handle = sepol_handle_create();
	sepol_policy_file_t *file = NULL;
	int error = -1;

	if (handle && !sepol_policydb_create(&ruleset->handle) && !sepol_policy_file_create(&file)) {
		sepol_msg_set_callback(handle, take_message, complaints);
		sepol_policy_file_set_mem(file, (char *)image, image_bytes);
		sepol_policy_file_set_handle(file, handle);
		error = sepol_policydb_read(ruleset->handle, file);
	}
	if (error)
		explain_unreadable(complaints);
	complaints->detail[0] = '\0';
	if (error)
		ruleset->handle = NULL; /* half read: freeing it is not safe */
	else
		ruleset->db = &ruleset->handle->p;
	sepol_policy_file_free(file);
	sepol_handle_destroy(handle);
	return error ? -1 : 0;
}

/* The operator is the initial SID of that number. 0 or -1. */
static int find_operator(struct ruleset *ruleset, struct complaints *complaints)
{
	policydb_t *db = ruleset->db;
	const ocontext_t *sid = db->ocontexts[OCON_ISID];
	char *text = NULL;
	size_t bytes = 0;

	while (sid && sid->sid[0] != OPERATOR_SID)
		sid = sid->next;
	if (!sid || !policydb_context_isvalid(db, &sid->context[0]) ||
	    strcmp(db->p_role_val_to_name[sid->context[0].role - 1], "object_r") == 0 ||
	    context_to_string(NULL, db, &sid->context[0], &text, &bytes)) {
		complaints_add(
			complaints,
			"the policy has no initial SID \"operator\" (the fourth, a subject): whoever runs "
			"Portcullis would have no context");
		return -1;
	}
	if (strlen(text) >= sizeof(ruleset->operator_context)) {
		complaints_add(complaints,
		               "the context of the initial SID \"operator\" is longer than %u bytes",
		               MAX_CONTEXT_BYTES - 1);
		free(text);
		return -1;
	}
	snprintf(ruleset->operator_context, sizeof(ruleset->operator_context), "%s", text);
	free(text);
	return 0;
}

static void map_class(struct ruleset *ruleset, enum policy_class tclass, struct complaints *complaints)
{
	const char *fate = ruleset_grants_unknown(ruleset) ? "granted to all, as (handleunknown allow) says"
	                                                   : "never granted";
	uint32_t all = class_all_permissions(tclass);

	if (sepol_string_to_security_class(class_name(tclass), &ruleset->classes[tclass])) {
		ruleset->classes[tclass] = 0;
		complaints_add(complaints, "the policy has no class %s: its permissions are %s",
		               class_name(tclass), fate);
		return;
	}
	for (uint32_t i = 0; all >> i; i++) {
		const char *name = class_permission_name(tclass, 1u << i);

		if (sepol_string_to_av_perm(ruleset->classes[tclass], name,
		                            &ruleset->permissions[tclass][i])) {
			ruleset->permissions[tclass][i] = 0;
			complaints_add(complaints, "the policy's class %s has no permission %s: it is %s",
			               class_name(tclass), name, fate);
		}
	}
}

static int map_classes(struct ruleset *ruleset, struct complaints *complaints)
{
	size_t used = complaints->used;

	for (enum policy_class tclass = 0; tclass < N_CLASSES; tclass++)
		map_class(ruleset, tclass, complaints);
	if (complaints->used == used || ruleset->db->handle_unknown != SEPOL_REJECT_UNKNOWN)
		return 0;
	complaints_add(complaints, "refused, as (handleunknown reject) says");
	return -1;
}

static void set_booleans(policydb_t *db, const struct policy_boolean *booleans, size_t n_booleans)
{
	for (size_t i = 0; i < n_booleans; i++) {
		cond_bool_datum_t *boolean = hashtab_search(db->p_bools.table, booleans[i].name);

		if (boolean)
			boolean->state = booleans[i].value;
	}
	evaluate_conds(db);
}

static uint32_t count_types(const policydb_t *db)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < db->p_types.nprim; i++)
		n += db->type_val_to_struct[i] && db->type_val_to_struct[i]->flavor == TYPE_TYPE;
	return n;
}

static int prepare(struct ruleset *ruleset, const struct policy_boolean *booleans, size_t n_booleans,
                   struct complaints *complaints)
{
	policydb_t *db = ruleset->db;

	if (db->policy_type != POLICY_KERN || db->target_platform != SEPOL_TARGET_SELINUX) {
		complaints_add(complaints, "the binary policy is not one for SELinux: a module, or for Xen");
		return -1;
	}
	sepol_set_policydb(db);
	sepol_set_sidtab(&ruleset->sidtab);
	if (find_operator(ruleset, complaints) || map_classes(ruleset, complaints))
		return -1;
	set_booleans(db, booleans, n_booleans);
	ruleset->n_types = count_types(db);
	return 0;
}

struct ruleset *ruleset_load(const void *image, size_t image_bytes, const struct policy_boolean *booleans,
                             size_t n_booleans, struct complaints *complaints)
{
	struct ruleset *ruleset = calloc(1, sizeof(*ruleset));

	if (!ruleset)
		return NULL;
	ruleset->contexts = sid_table_create();
	if (!ruleset->contexts || sepol_sidtab_init(&ruleset->sidtab) ||
	    read_image(ruleset, image, image_bytes, complaints) ||
	    prepare(ruleset, booleans, n_booleans, complaints)) {
		ruleset_destroy(ruleset);
		return NULL;
	}
	return ruleset;
}

void ruleset_destroy(struct ruleset *ruleset)
{
	if (!ruleset)
		return;
	sid_table_destroy(ruleset->contexts);
	if (ruleset->sidtab.htable)
		sepol_sidtab_destroy(&ruleset->sidtab);
	sepol_policydb_free(ruleset->handle);
	free(ruleset);
}

int ruleset_image(struct ruleset *ruleset, void **image, size_t *image_bytes)
{
	return sepol_policydb_to_image(NULL, ruleset->handle, image, image_bytes) ? -1 : 0;
}

struct server_policy ruleset_describe(const struct ruleset *ruleset)
{
	return (struct server_policy){
		.operator_context = ruleset->operator_context,
		.image_fd = -1,
		.n_types = ruleset->n_types,
		.n_rules = ruleset->db->te_avtab.nel + ruleset->db->te_cond_avtab.nel,
		.n_booleans = ruleset->db->p_bools.nprim,
		.mls = ruleset->db->mls != 0,
	};
}

/* A process that can not even start over is of no use: its end is a dead server, which is handled. */
static void forget_contexts(struct ruleset *ruleset)
{
	sid_table_destroy(ruleset->contexts);
	sepol_sidtab_destroy(&ruleset->sidtab);
	ruleset->contexts = sid_table_create();
	if (!ruleset->contexts || sepol_sidtab_init(&ruleset->sidtab))
		abort();
}

void ruleset_trim(struct ruleset *ruleset)
{
	if (sid_count(ruleset->contexts) >= MAX_CONTEXTS)
		forget_contexts(ruleset);
}

/* Gives libsepol's SID table our number for a context that is new. */
static bool learn_context(struct ruleset *ruleset, const char *text, policy_sid sid)
{
	context_struct_t *context = NULL;
	bool known;

	if (context_from_string(NULL, ruleset->db, &context, text, strlen(text)) < 0)
		return false;
	known = sepol_sidtab_insert(&ruleset->sidtab, sid, context) == 0;
	context_destroy(context);
	free(context);
	return known;
}

uint32_t ruleset_context(struct ruleset *ruleset, const char *context)
{
	uint32_t n_before = sid_count(ruleset->contexts);
	policy_sid sid;

	if (sid_intern(ruleset->contexts, context, &sid))
		return 0;
	if (sid > n_before)
		sid_set_known(ruleset->contexts, sid, learn_context(ruleset, context, sid));
	return sid_known(ruleset->contexts, sid) ? sid : 0;
}

/* The policy's bits in our numbering. */
static uint32_t translate(const struct ruleset *ruleset, enum policy_class tclass, sepol_access_vector_t av,
                          bool unknown)
{
	uint32_t all = class_all_permissions(tclass);
	uint32_t bits = 0;

	for (uint32_t i = 0; all >> i; i++) {
		sepol_access_vector_t theirs = ruleset->permissions[tclass][i];

		if (theirs ? (av & theirs) != 0 : unknown)
			bits |= 1u << i;
	}
	return bits;
}

struct server_decision ruleset_decide(struct ruleset *ruleset, uint32_t source, uint32_t target,
                                      enum policy_class tclass)
{
	struct server_decision decision = {.auditdeny = class_all_permissions(tclass)};
	struct sepol_av_decision av = {.auditdeny = ~0u};

	if (!source || !target)
		return decision;
	decision.known = true;
	decision.permissive =
		ebitmap_get_bit(&ruleset->db->permissive_map, ruleset_type(ruleset, source)) != 0;
	if (ruleset->classes[tclass] && sepol_compute_av(source, target, ruleset->classes[tclass], ~0u, &av))
		abort(); /* the arguments are ours */
	decision.allowed = translate(ruleset, tclass, av.allowed, ruleset_grants_unknown(ruleset));
	decision.auditallow = translate(ruleset, tclass, av.auditallow, false);
	decision.auditdeny = translate(ruleset, tclass, av.auditdeny, true);
	return decision;
}

/* member_sid answers without a rule too: look for the rule itself, as compute_sid does. */
static bool has_member_rule(struct ruleset *ruleset, uint32_t source, uint32_t target,
                            sepol_security_class_t tclass)
{
	avtab_key_t key = {.source_type = (uint16_t)ruleset_type(ruleset, source),
	                   .target_type = (uint16_t)ruleset_type(ruleset, target),
	                   .target_class = tclass,
	                   .specified = AVTAB_MEMBER};

	if (avtab_search(&ruleset->db->te_avtab, &key))
		return true;
	for (avtab_ptr_t node = avtab_search_node(&ruleset->db->te_cond_avtab, &key); node;
	     node = avtab_search_node_next(node, AVTAB_MEMBER))
		if (node->key.specified & AVTAB_ENABLED)
			return true;
	return false;
}

/*
 * sepol_member_sid gives its result a SID of its own choice, which would be a
 * number that our next context needs: so it works on a table that is thrown away.
 */
static void compute_member(struct ruleset *ruleset, uint32_t source, uint32_t target,
                           sepol_security_class_t tclass, char context[static MAX_CONTEXT_BYTES])
{
	sidtab_t scratch = {0};
	sepol_security_id_t sid;
	char *text = NULL;
	size_t bytes;

	if (sepol_sidtab_init(&scratch))
		return;
	sepol_set_sidtab(&scratch);
	if (!sepol_sidtab_insert(&scratch, 1, sepol_sidtab_search(&ruleset->sidtab, source)) &&
	    !sepol_sidtab_insert(&scratch, 2, sepol_sidtab_search(&ruleset->sidtab, target)) &&
	    !sepol_member_sid(1, 2, tclass, &sid) && !sepol_sid_to_context(sid, &text, &bytes) &&
	    strlen(text) < MAX_CONTEXT_BYTES)
		snprintf(context, MAX_CONTEXT_BYTES, "%s", text);
	free(text);
	sepol_set_sidtab(&ruleset->sidtab);
	sepol_sidtab_destroy(&scratch);
}

struct server_member ruleset_member(struct ruleset *ruleset, const char *source, const char *target,
                                    enum policy_class tclass, char context[static MAX_CONTEXT_BYTES])
{
	sepol_security_class_t theirs = ruleset->classes[tclass];
	uint32_t source_sid = ruleset_context(ruleset, source);
	uint32_t target_sid = ruleset_context(ruleset, target);
	struct server_member member = {.known = source_sid && target_sid, .context = context};

	context[0] = '\0';
	if (!member.known || !theirs)
		return member;
	member.has_rule = has_member_rule(ruleset, source_sid, target_sid, theirs);
	compute_member(ruleset, source_sid, target_sid, theirs, context);
	return member;
}

struct policy_boolean ruleset_boolean(const struct ruleset *ruleset, uint32_t i)
{
	return (struct policy_boolean){.name = ruleset->db->p_bool_val_to_name[i],
	                               .value = ruleset->db->bool_val_to_struct[i]->state != 0};
}
