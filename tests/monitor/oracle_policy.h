/*
 * The policies of the oracle: drawn at random for the model, and written as CIL for the security server.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_ORACLE_POLICY_H
#define PORTCULLIS_TESTS_MONITOR_ORACLE_POLICY_H

#include "tests/monitor/oracle_model.h"
#include "tests/monitor/world.h"

/* splitmix64: the whole run follows from the seed. */
uint64_t oracle_draw(uint64_t *state);
/* From 0 to n - 1. */
unsigned oracle_pick(uint64_t *state, unsigned n);
/* n of 100 times. */
bool oracle_chance(uint64_t *state, unsigned n);

/* complete: every type is known, as a guest's start needs it. */
void oracle_policy_draw(struct oracle_policy *policy, uint64_t *state, bool complete);

/* base.cil and the policy's own text, for world_push; for as long as the process lives. */
policy_files oracle_policy_files(const struct oracle_policy *policy);

#endif
