/*
 * SIDs: 32-bit handles of security contexts (Flask, USENIX Security 1999,
 * section 4.1; F3). A context is opaque text here.
 *
 * Interned with xxHash, never freed: a SID stays the same context for the
 * life of the monitor. Contexts come only from manifest, operator and
 * relabel, so a guest cannot make this table grow. Not locked: the caller
 * holds the registry lock, or is the only thread.
 */
#ifndef PORTCULLIS_POLICY_SID_H
#define PORTCULLIS_POLICY_SID_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t policy_sid; /* 0 (SID_NONE) is never valid */
#define SID_NONE 0u

struct sid_table;

/* NULL when memory is short. */
struct sid_table *sid_table_create(void);
void sid_table_destroy(struct sid_table *table);

/*
 * The SID of that text, made if it is new (and then marked unknown to the
 * policy until sid_set_known).
 * -EINVAL: empty, MAX_CONTEXT_BYTES or longer, or a character outside
 * printable ASCII without blanks and quotes; -ENOMEM.
 */
int sid_intern(struct sid_table *table, const char *context, policy_sid *sid);

/* The text; NULL for SID_NONE or a number that was never given. Stable for the table's life. */
const char *sid_context(const struct sid_table *table, policy_sid sid);

/* Whether the policy in force knows the context (F13). False for SID_NONE. */
bool sid_known(const struct sid_table *table, policy_sid sid);
void sid_set_known(struct sid_table *table, policy_sid sid, bool known);

/* SIDs run from 1 to this number. */
uint32_t sid_count(const struct sid_table *table);

#endif
