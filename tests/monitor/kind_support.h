/*
 * Every kind of change as a test asks for it, and what holds of all of them.
 *
 * Policies are texts here: base.cil with what the test says. A change is planned
 * first, and the plan must leave no trace and foretell what the change then does.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_KIND_SUPPORT_H
#define PORTCULLIS_TESTS_MONITOR_KIND_SUPPORT_H

#include "tests/monitor/world.h"

#define SUBJECT(type) "system_u:system_r:" type ":s0"

/* The path of a file in memory that holds the text; for as long as the process lives. */
const char *file_of(const char *text);

/* base.cil, types.cil and rules, as world_options and world_push take them; for as long as the process
 * lives. */
policy_files policy_of(const char *rules);

struct change_request to_boolean(const char *name, bool value);
struct change_request to_enforcing(bool value);
struct change_request to_revoke(const char *source, const char *target, const char *permission);
struct change_request to_grant(const char *source, const char *target, const char *permission);
struct change_request to_reset(void);
struct change_request to_relabel(const char *domain, const char *context);
struct change_request to_quarantine(const char *domain);
struct change_request to_release(const char *domain);
struct change_request to_cut(uint64_t channel);

/* A push of these files, which it opens; sources has room for them. */
struct change_request push_request(policy_files files, struct policy_source *sources);

/* Status, and *why (malloc, may be NULL) for one that fails. */
int change_try(struct world *world, struct change_request request, json_t **report, char **why);

/* Must succeed. */
json_t *change_do(struct world *world, struct change_request request);

/*
 * Plans, looks that nothing has changed, changes, compares the two reports, looks that
 * the policy number has grown by one. Cuts so many flows.
 */
json_t *change_planned(struct world *world, struct change_request request, json_int_t n_cut);
void change_quietly(struct world *world, struct change_request request, json_int_t n_cut);

/* Must fail so, leaving no trace; the reason holds the text. */
void change_refused(struct world *world, struct change_request request, int status, const char *text);

/* The plan of a push, compared with the push. */
json_t *push_planned(struct world *world, policy_files policy, enum stop_mode stop, json_int_t n_cut);

int64_t connect_result(struct world *world, const char *client, const char *service);

/* "open cut": the states of the flow from the client and of that to it. */
const char *flows_of(const struct pair *pair);
void assert_flows(const struct pair *pair, const char *states);

/* All that a domain can do at a wholly cut channel says so, and its inbox slots are empty. */
void assert_revoked(struct world *world, const struct pair *pair);
/* A message there and one back arrive. */
void assert_flowing(struct world *world, const struct pair *pair);

#endif
