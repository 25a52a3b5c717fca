/*
 * A set of questions to a security server, each asked once, and its answers.
 *
 * The loop collects the distinct (source, target, class) that pending connects
 * or a plan need, asks them in one batch, and then judges from here: a
 * candidate's decisions never mix with the AVC's. Questions that are added after an
 * answer can be asked in a further batch. Loop thread, except decisions_find under
 * no concurrent change.
 */
#ifndef PORTCULLIS_MONITOR_DECISIONS_H
#define PORTCULLIS_MONITOR_DECISIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/judgement.h"
#include "monitor/members.h"
#include "monitor/needs.h"
#include "policy/avc.h"
#include "policy/overlay.h"
#include "policy/server.h"
#include "policy/sid.h"

struct decisions;

struct decisions *decisions_create(void);
void decisions_destroy(struct decisions *decisions);

/* Adds a question if it is new. 0, -ENOMEM. */
int decisions_add(struct decisions *decisions, struct avc_key key);

/* Adds what judging a channel needs, its member decision among it. 0, -ENOMEM. */
int decisions_add_channel(struct decisions *decisions, const struct subjects *subjects);

/* Adds the member decision alone: which instance a client gets. 0, -ENOMEM. */
int decisions_add_member(struct decisions *decisions, policy_sid client, policy_sid service);

size_t decisions_count(const struct decisions *decisions);

/* Questions that have no answer yet. */
size_t decisions_unanswered(const struct decisions *decisions);

typedef void decisions_asked_fn(void *opaque, int status, struct decisions *decisions);

/*
 * Asks all unanswered questions; the answers carry policy_number. The set must
 * live until done has run. Status as in policy/server.h. server may be NULL: -ECONNRESET.
 */
int decisions_ask(struct decisions *decisions, struct server *server, const struct sid_table *sids,
                  uint64_t policy_number, uint64_t deadline_ns, decisions_asked_fn *done, void *opaque);

/* A decision_lookup_fn over answered questions; opaque is the set. */
bool decisions_find(void *decisions, struct avc_key key, struct decision *out);

/* Takes from the answers what the overlay takes back. Idempotent. */
void decisions_mask(struct decisions *decisions, const struct overlay *overlay, const struct sid_table *sids);

/* The member decision for a client and a service's context; NULL: no answer. */
const struct member *decisions_member(const struct decisions *decisions, policy_sid client,
                                      policy_sid service);

/* What answers say of equal subjects is the same for many channels: it is judged once. */
struct remembered {
	struct subjects subjects;
	const void *service;
	bool enforcing;
	bool valid; /* false: whoever asked fills in the judgement, and sets it */
	struct judgement judgement;
};

/* The place for these subjects; forgotten when a question is added or answered. NULL: no memory. */
struct remembered *decisions_remember(struct decisions *decisions, const struct subjects *subjects,
                                      const void *service, bool enforcing);

/* Inserts every answer into the AVC; those of an old number are refused there. */
void decisions_cache(const struct decisions *decisions, struct avc *avc, struct members *members);

#endif
