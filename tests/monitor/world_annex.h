/*
 * A second guest in the same monitor, and channels that the host makes itself: for
 * guests that do not, or can not, connect.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_WORLD_ANNEX_H
#define PORTCULLIS_TESTS_MONITOR_WORLD_ANNEX_H

#include "tests/monitor/world.h"

/*
 * Builds and starts it; two actors on one vCPU, "five" with context three_t, and "six" with
 * four_t, which offers "sub". With a kernel of tests/hostile (world_faults.h) they never run.
 */
struct guest *annex_open(struct world *world, const char *kernel);

/* Another one, of a manifest's text; names of domains are unlike those that there are. */
struct guest *annex_open_as(struct world *world, const char *manifest_text, const char *kernel);

/* An accepted channel with both flows and back-pressure, between any two domains. */
struct channel *annex_channel(struct world *world, const char *client, const char *server);

/* A byte of the window can be read; PROT_NONE can not. */
bool annex_can_read(const void *address);

#endif
