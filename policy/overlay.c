#include "policy/overlay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- words to rules ---- */

static bool is_side(const char *text)
{
	size_t n = strlen(text);

	if (n == 0 || n >= MAX_CONTEXT_BYTES)
		return false;
	for (size_t i = 0; i < n; i++)
		if (text[i] <= ' ' || text[i] > '~' || text[i] == '"')
			return false;
	return true;
}

static int parse_side(const char *text, const char *which, char side[static MAX_CONTEXT_BYTES],
                      char why[static WHY_BYTES])
{
	if (!is_side(text)) {
		snprintf(why, WHY_BYTES, "the %s must be a context, a type, or *", which);
		return -EINVAL;
	}
	snprintf(side, MAX_CONTEXT_BYTES, "%s", text);
	return 0;
}

int overlay_parse(const char *source, const char *target, const char *tclass, const char *permission,
                  struct overlay_rule *rule, char why[static WHY_BYTES])
{
	int number = class_find(tclass);

	*rule = (struct overlay_rule){0};
	if (number < 0) {
		snprintf(why, WHY_BYTES, "there is no class \"%.64s\": channel, domain, guest or monitor",
		         tclass);
		return -EINVAL;
	}
	rule->tclass = (enum policy_class)number;
	rule->permissions = strcmp(permission, "*") == 0 ? class_all_permissions(rule->tclass)
	                                                 : class_permission_find(rule->tclass, permission);
	if (!rule->permissions) {
		char all[WHY_BYTES / 2];

		class_format(rule->tclass, class_all_permissions(rule->tclass), all, sizeof(all));
		snprintf(why, WHY_BYTES, "class %s has no permission \"%.64s\"; it has %s", tclass,
		         permission, all);
		return -EINVAL;
	}
	if (parse_side(source, "source", rule->source, why) < 0)
		return -EINVAL;
	return parse_side(target, "target", rule->target, why);
}

/* ---- matching ---- */

/* The type is the third field; a level may hold more colons behind it. */
static bool type_is(const char *context, const char *type)
{
	const char *start = strchr(context, ':');
	size_t n = strlen(type);

	start = start ? strchr(start + 1, ':') : NULL;
	return start && strncmp(start + 1, type, n) == 0 && (start[1 + n] == ':' || start[1 + n] == '\0');
}

bool overlay_side_matches(const char *side, const char *context)
{
	if (strcmp(side, "*") == 0)
		return true;
	return strchr(side, ':') ? strcmp(side, context) == 0 : type_is(context, side);
}

static bool matches(const struct overlay_rule *rule, const char *source, const char *target,
                    enum policy_class tclass)
{
	return rule->tclass == tclass && overlay_side_matches(rule->source, source) &&
	       overlay_side_matches(rule->target, target);
}

void overlay_copy(struct overlay *to, const struct overlay *from)
{
	memcpy(to->rules, from->rules, from->n_rules * sizeof(from->rules[0]));
	to->n_rules = from->n_rules;
}

uint32_t overlay_mask(const struct overlay *overlay, const char *source, const char *target,
                      enum policy_class tclass)
{
	uint32_t mask = 0;

	for (size_t i = 0; i < overlay->n_rules; i++)
		if (matches(&overlay->rules[i], source, target, tclass))
			mask |= overlay->rules[i].permissions;
	return mask;
}

const struct overlay_rule *overlay_find(const struct overlay *overlay, const char *source, const char *target,
                                        enum policy_class tclass, uint32_t permission)
{
	for (size_t i = 0; i < overlay->n_rules; i++)
		if (overlay->rules[i].permissions & permission &&
		    matches(&overlay->rules[i], source, target, tclass))
			return &overlay->rules[i];
	return NULL;
}

/* ---- changing ---- */

static struct overlay_rule *same_rule(struct overlay *overlay, const struct overlay_rule *rule)
{
	for (size_t i = 0; i < overlay->n_rules; i++) {
		struct overlay_rule *there = &overlay->rules[i];

		if (there->tclass == rule->tclass && strcmp(there->source, rule->source) == 0 &&
		    strcmp(there->target, rule->target) == 0)
			return there;
	}
	return NULL;
}

int overlay_revoke(struct overlay *overlay, const struct overlay_rule *rule)
{
	struct overlay_rule *there = same_rule(overlay, rule);

	if (there) {
		there->permissions |= rule->permissions;
		return 0;
	}
	if (overlay->n_rules == MAX_OVERLAY_RULES)
		return -ENOSPC;
	overlay->rules[overlay->n_rules++] = *rule;
	return 0;
}

int overlay_grant(struct overlay *overlay, const struct overlay_rule *rule)
{
	struct overlay_rule *there = same_rule(overlay, rule);

	if (!there || !(there->permissions & rule->permissions))
		return -ENOENT;
	there->permissions &= ~rule->permissions;
	if (!there->permissions)
		*there = overlay->rules[--overlay->n_rules];
	return 0;
}

void overlay_format(const struct overlay_rule *rule, char text[static WHY_BYTES])
{
	char permissions[WHY_BYTES / 4];

	class_format(rule->tclass, rule->permissions, permissions, sizeof(permissions));
	snprintf(text, WHY_BYTES, "revoked: %s %s:%s %s", rule->source, rule->target,
	         class_name(rule->tclass), permissions);
}
