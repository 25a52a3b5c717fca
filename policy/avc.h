/*
 * The access vector cache: decisions under one policy number.
 *
 * Flask, USENIX Security 1999, section 4.2 (F2). The order that makes a
 * change complete is built in: avc_raise raises the number before it flushes,
 * and avc_insert compares numbers and inserts in one step, so a decision that
 * was computed under an old policy can not enter after the change.
 *
 *	check			change
 *	compute under n
 *				raise to n+1, flush
 *	insert: n is old,
 *	refused, asked again
 *
 * What remains is a check between lookup and effect; the caller closes that
 * by holding the registry lock over both, as commit does over raise and patch.
 * Not locked here: every call is under the registry lock.
 * A fixed number of entries; where a key's places are taken the oldest goes.
 */
#ifndef PORTCULLIS_POLICY_AVC_H
#define PORTCULLIS_POLICY_AVC_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/class.h"
#include "policy/sid.h"

/* What the security server says of (source, target, class); bits of class.h. */
struct decision {
	uint32_t allowed;
	uint32_t auditallow;
	uint32_t auditdeny;
	bool permissive;        /* the source's type is permissive */
	uint64_t policy_number; /* under which it was made */
};

struct avc_key {
	policy_sid source;
	policy_sid target;
	enum policy_class tclass;
};

struct avc_counters {
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;
	uint64_t stale; /* inserts refused for an old number */
};

struct avc;

/* At least `entries` (rounded up to a power of two); the number starts at 1. NULL when memory is short. */
struct avc *avc_create(uint32_t entries);
void avc_destroy(struct avc *avc);

/* The key in words, as avc_lookup passes it. */
bool avc_lookup_words(struct avc *avc, uint64_t pair, enum policy_class tclass, struct decision *out);

/*
 * True and *out on a hit. Counts. Inline, since a key that is passed as a structure is stored as two halves
 * and loaded as a whole, which costs as much as the lookup.
 */
static inline bool avc_lookup(struct avc *avc, struct avc_key key, struct decision *out)
{
	return avc_lookup_words(avc, (uint64_t)key.source << 32 | key.target, key.tclass, out);
}

/* -ESTALE if the decision's number is not the number in force: ask again. 0 otherwise. */
int avc_insert(struct avc *avc, struct avc_key key, const struct decision *decision);

/* Raises the number (which must grow), then forgets all entries: O(1). */
void avc_raise(struct avc *avc, uint64_t policy_number);

uint64_t avc_policy_number(const struct avc *avc);
struct avc_counters avc_counters(const struct avc *avc);

#endif
