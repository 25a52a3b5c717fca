/*
 * What ruleset.c and ruleset_explain.c share, and libsepol's functions that its
 * static library has and its headers lack (libsepol 3.4: src/context.h).
 */
#ifndef PORTCULLIS_POLICY_RULESET_INTERNAL_H
#define PORTCULLIS_POLICY_RULESET_INTERNAL_H

#include <sepol/policydb.h>
#include <sepol/policydb/conditional.h>
#include <sepol/policydb/policydb.h>
#include <sepol/policydb/services.h>
#include <sepol/policydb/sidtab.h>

#include "guest/abi/limits.h"
#include "policy/ruleset.h"
#include "policy/sid.h"

extern int context_from_string(sepol_handle_t *handle, const policydb_t *db, context_struct_t **context,
                               const char *text, size_t text_bytes);
extern int context_to_string(sepol_handle_t *handle, const policydb_t *db, const context_struct_t *context,
                             char **text, size_t *text_bytes);

struct ruleset {
	sepol_policydb_t *handle;
	policydb_t *db; /* inside the handle */
	char operator_context[MAX_CONTEXT_BYTES];
	uint32_t n_types;

	/* Our numbering to the policy's; 0 where it lacks the name. */
	sepol_security_class_t classes[N_CLASSES];
	sepol_access_vector_t permissions[N_CLASSES][MAX_PERMISSIONS];

	/* Contexts that were asked about: a known one has the same number in both. */
	struct sid_table *contexts;
	sidtab_t sidtab;
};

static inline bool ruleset_grants_unknown(const struct ruleset *ruleset)
{
	return ruleset->db->handle_unknown == SEPOL_ALLOW_UNKNOWN;
}

static inline uint32_t ruleset_type(struct ruleset *ruleset, uint32_t context)
{
	return sepol_sidtab_search(&ruleset->sidtab, context)->type;
}

#endif
