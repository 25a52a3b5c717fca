/* Why a permission is denied, in words. */
#include "policy/ruleset_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct question {
	uint32_t source;
	uint32_t target;
	enum policy_class tclass;
	uint32_t permission; /* our bit */
};

static const char *type_name(struct ruleset *ruleset, uint32_t type)
{
	return ruleset->db->p_type_val_to_name[type - 1];
}

static const char *role_name(struct ruleset *ruleset, uint32_t context)
{
	return ruleset->db->p_role_val_to_name[sepol_sidtab_search(&ruleset->sidtab, context)->role - 1];
}

/* Whether the braces of "constrain channel { send recv } (...)" hold the permission. */
static bool names_permission(const char *line, const char *permission)
{
	size_t n = strlen(permission);
	const char *word = strchr(line, '{');

	while (word && *word != '}') {
		word += 1 + strspn(word + 1, " ");
		if (strncmp(word, permission, n) == 0 && (word[n] == ' ' || word[n] == '}'))
			return true;
		word += strcspn(word, " }");
	}
	return false;
}

/* Copies up to the ';' that ends a constraint, blanks squeezed. */
static void copy_constraint(const char *line, char *text, size_t text_bytes)
{
	size_t used = 0;

	for (; *line && *line != ';' && *line != '\n' && used + 1 < text_bytes; line++) {
		bool blank = *line == ' ' && (line[1] == ' ' || line[1] == ')' || line[1] == ';');

		if (!blank)
			text[used++] = *line;
	}
	text[used] = '\0';
}

/* libsepol reports every constraint that fails for the pair: find one that is about the permission. */
static void explain_constraint(const char *reasons, const char *permission, char *text, size_t text_bytes)
{
	static const char prefix[] = "constraint: ";
	const char *line = reasons;

	while (line && !names_permission(line, permission)) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	snprintf(text, text_bytes, "%s", prefix);
	copy_constraint(line      ? line
	                : reasons ? reasons
	                          : "of the policy",
	                text + strlen(prefix), text_bytes - strlen(prefix));
}

static void explain_bounds(struct ruleset *ruleset, const struct question *question, char *text,
                           size_t text_bytes)
{
	uint32_t source = ruleset_type(ruleset, question->source);
	uint32_t bound = ruleset->db->type_val_to_struct[source - 1]->bounds;

	snprintf(text, text_bytes, "bounds: %s is bounded by %s, which may not do it with %s:%s",
	         type_name(ruleset, source), bound ? type_name(ruleset, bound) : "?",
	         type_name(ruleset, ruleset_type(ruleset, question->target)), class_name(question->tclass));
}

static void explain_denial(struct ruleset *ruleset, const struct question *question, unsigned reason,
                           const char *reasons, char *text, size_t text_bytes)
{
	const char *permission = class_permission_name(question->tclass, question->permission);

	if (reason & SEPOL_COMPUTEAV_TE)
		snprintf(text, text_bytes, "no rule allows %s %s:%s %s",
		         type_name(ruleset, ruleset_type(ruleset, question->source)),
		         type_name(ruleset, ruleset_type(ruleset, question->target)),
		         class_name(question->tclass), permission);
	else if (reason & SEPOL_COMPUTEAV_CONS)
		explain_constraint(reasons, permission, text, text_bytes);
	else if (reason & SEPOL_COMPUTEAV_RBAC)
		snprintf(text, text_bytes, "role: no rule allows %s %s", role_name(ruleset, question->source),
		         role_name(ruleset, question->target));
	else
		explain_bounds(ruleset, question, text, text_bytes);
}

/* Asks libsepol; both contexts are known and the policy has the permission. */
static void explain_known(struct ruleset *ruleset, const struct question *question, char *text,
                          size_t text_bytes)
{
	sepol_access_vector_t theirs =
		ruleset->permissions[question->tclass][__builtin_ctz(question->permission)];
	struct sepol_av_decision av;
	unsigned reason = 0;
	char *reasons = NULL;

	if (sepol_compute_av_reason_buffer(question->source, question->target,
	                                   ruleset->classes[question->tclass], theirs, &av, &reason, &reasons,
	                                   0))
		abort(); /* the arguments are ours */
	if (av.allowed & theirs)
		snprintf(text, text_bytes, "allowed");
	else
		explain_denial(ruleset, question, reason, reasons, text, text_bytes);
	free(reasons);
}

void ruleset_explain(struct ruleset *ruleset, const char *source, const char *target,
                     enum policy_class tclass, uint32_t permission, char *text, size_t text_bytes)
{
	struct question question = {
		.source = ruleset_context(ruleset, source),
		.target = ruleset_context(ruleset, target),
		.tclass = tclass,
		.permission = permission,
	};

	if (!question.source || !question.target)
		snprintf(text, text_bytes, "the policy does not know the context %s",
		         question.source ? target : source);
	else if (ruleset->permissions[tclass][__builtin_ctz(permission)])
		explain_known(ruleset, &question, text, text_bytes);
	else if (ruleset_grants_unknown(ruleset))
		snprintf(text, text_bytes, "allowed");
	else if (!ruleset->classes[tclass])
		snprintf(text, text_bytes, "the policy has no class %s", class_name(tclass));
	else
		snprintf(text, text_bytes, "the policy has no permission %s:%s", class_name(tclass),
		         class_permission_name(tclass, permission));
}
