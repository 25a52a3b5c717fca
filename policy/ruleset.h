/*
 * A loaded policy: libsepol's tables behind our class numbers and texts.
 *
 * Translates names (a policy numbers classes and permissions as it likes),
 * keeps the contexts that were asked about, and adds what compute_av leaves
 * out: permissive types and handle_unknown. libsepol answers from globals, so
 * there is one ruleset per process and one thread. Part of the security server.
 */
#ifndef PORTCULLIS_POLICY_RULESET_H
#define PORTCULLIS_POLICY_RULESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/class.h"
#include "policy/complaints.h"
#include "policy/server.h"

struct ruleset;

/*
 * Reads an image and sets the booleans that the policy has. Warnings and
 * errors become complaints; NULL after errors.
 */
struct ruleset *ruleset_load(const void *image, size_t image_bytes, const struct policy_boolean *booleans,
                             size_t n_booleans, struct complaints *complaints);
void ruleset_destroy(struct ruleset *ruleset);

/* The image with the booleans as they stand (malloc). 0 or -1. */
int ruleset_image(struct ruleset *ruleset, void **image, size_t *image_bytes);

/* operator_context, n_types, n_rules, n_booleans and mls; valid while the ruleset is. */
struct server_policy ruleset_describe(const struct ruleset *ruleset);

/* Forgets contexts if very many have been asked about. Numbers given before are void. */
void ruleset_trim(struct ruleset *ruleset);

/* A number for a context, 0 if the policy does not know it. */
uint32_t ruleset_context(struct ruleset *ruleset, const char *context);

/* Source and target are numbers of ruleset_context, or 0. */
struct server_decision ruleset_decide(struct ruleset *ruleset, uint32_t source, uint32_t target,
                                      enum policy_class tclass);

/* The context's text is written to `context` ("" if the rule's result is no valid context). */
struct server_member ruleset_member(struct ruleset *ruleset, const char *source, const char *target,
                                    enum policy_class tclass, char context[static MAX_CONTEXT_BYTES]);

/* One permission: "allowed", or why not (server.h). */
void ruleset_explain(struct ruleset *ruleset, const char *source, const char *target,
                     enum policy_class tclass, uint32_t permission, char *text, size_t text_bytes);

/* Boolean i of n_booleans. */
struct policy_boolean ruleset_boolean(const struct ruleset *ruleset, uint32_t i);

#endif
