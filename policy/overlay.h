/*
 * The overlay: single permissions that an operator has taken back, whatever
 * the policy says (Flask, USENIX Security 1999, 5.3: the AVC's control messages
 * revoke, grant and reset; F11).
 *
 * It only narrows: a grant removes an earlier revoke and can not add what the
 * policy denies. So it survives a push. A side is a whole context, a type, or
 * "*". A plain value: copied into a candidate, changed there, put in force by
 * commit. Not locked; the owner says who may touch it.
 */
#ifndef PORTCULLIS_POLICY_OVERLAY_H
#define PORTCULLIS_POLICY_OVERLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/abi/limits.h"
#include "policy/class.h"

#define MAX_OVERLAY_RULES 256u

struct overlay_rule {
	char source[MAX_CONTEXT_BYTES];
	char target[MAX_CONTEXT_BYTES];
	enum policy_class tclass;
	uint32_t permissions;
};

struct overlay {
	struct overlay_rule rules[MAX_OVERLAY_RULES];
	size_t n_rules;
};

/*
 * Fills in a rule from words: permission is a name or "*". -EINVAL and why for
 * an unknown class or permission, or a side that is no context, type or "*".
 */
int overlay_parse(const char *source, const char *target, const char *tclass, const char *permission,
                  struct overlay_rule *rule, char why[static WHY_BYTES]);

/* Takes the permissions back from now on. -ENOSPC: MAX_OVERLAY_RULES are there already. */
int overlay_revoke(struct overlay *overlay, const struct overlay_rule *rule);

/* Ends a revoke of the same sides and class, for these permissions. -ENOENT: there was none. */
int overlay_grant(struct overlay *overlay, const struct overlay_rule *rule);

/* The rules that there are, and no more: the room for all is 84 KB. */
void overlay_copy(struct overlay *to, const struct overlay *from);

/* The permissions of tclass that are taken back between these contexts. */
uint32_t overlay_mask(const struct overlay *overlay, const char *source, const char *target,
                      enum policy_class tclass);

/* The rule that takes this permission back; NULL: none. */
const struct overlay_rule *overlay_find(const struct overlay *overlay, const char *source, const char *target,
                                        enum policy_class tclass, uint32_t permission);

/* Whether a rule's side means that context. */
bool overlay_side_matches(const char *side, const char *context);

/* "revoked: client_t server_t:channel { send }"; always terminated. */
void overlay_format(const struct overlay_rule *rule, char text[static WHY_BYTES]);

#endif
