/*
 * A chain: "one" connects to "two", who connects on its behalf to "three", who
 * connects on its behalf to "four". Each is an actor with a type of its own.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_IDENTITY_SUPPORT_H
#define PORTCULLIS_TESTS_MONITOR_IDENTITY_SUPPORT_H

#include "tests/monitor/kind_support.h"

extern const char MANIFEST_CHAIN[]; /* one offers "own", two "svc", three "rel", four "aux" */

/* Both relays may speak for one, who may connect to all. */
#define RULES_CHAIN                                                                                          \
	"(call can_connect (one_t two_t)) (call can_connect (one_t three_t))"                                \
	"(call can_connect (one_t four_t)) (call can_relay (two_t one_t)) (call can_relay (three_t one_t))"

struct chain {
	struct pair first;  /* one to two */
	struct pair second; /* two to three, for one */
	struct pair third;  /* three to four, for one */
};

void chain_world(struct world *world, const char *rules);
struct chain chain_open(struct world *world);

/* A channel on behalf of the client of one that the relay accepted; it must be granted. */
struct pair pair_open_for(struct world *world, const struct pair *parent, const char *server,
                          const char *service);

/* What the relay of that channel gets for a connect on behalf of its client. */
int64_t connect_for_result(struct world *world, const struct pair *parent, const char *service);

/* What an end is told of its peer's context. */
const char *peer_of(struct world *world, const struct pair *pair, bool at_client);

#endif
