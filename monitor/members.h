/*
 * Member decisions: which instance of a service a client gets (F6).
 *
 * A set of (client, service) pairs, each asked once. What matters of an answer
 * is type and low level: libsepol gives role object_r, and without a member
 * rule the client's level, so that there was a rule is kept too. Two of these exist:
 * the posture's cache under the registry lock, and one in each set of decisions.
 */
#ifndef PORTCULLIS_MONITOR_MEMBERS_H
#define PORTCULLIS_MONITOR_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/server.h"
#include "policy/sid.h"

struct members;

struct member {
	bool known;    /* the policy knows both contexts */
	bool has_rule; /* then the instance must have this type and low level */
	char type_and_level[MAX_CONTEXT_BYTES];
};

struct members *members_create(void);
void members_destroy(struct members *members);
void members_clear(struct members *members);

/* Adds a pair if it is new. 0, -ENOMEM. */
int members_add(struct members *members, policy_sid client, policy_sid service);

size_t members_count(const struct members *members);
size_t members_unanswered(const struct members *members);

typedef void members_asked_fn(void *opaque, int status);

/*
 * Asks all unanswered pairs; done runs once, with the first bad status if there
 * was one. The set must live until then. 0, or -errno and done does not run.
 */
int members_ask(struct members *members, struct server *server, const struct sid_table *sids,
                uint64_t deadline_ns, members_asked_fn *done, void *opaque);

/* NULL: not asked, or no answer. */
const struct member *members_find(const struct members *members, policy_sid client, policy_sid service);

/* Adds the answers of another set. What does not fit in memory is asked again some day. */
void members_merge(struct members *members, const struct members *from);

/* "type:lowlevel" of a context; "" if it has no type. */
void context_type_and_level(const char *context, char text[static MAX_CONTEXT_BYTES]);

#endif
