/*
 * What stands in memory for a channel: records, windows, counters.
 *
 * Everything here follows from a channel's states; nothing decides. For
 * channel.c and commit.c, under the registry lock.
 */
#ifndef PORTCULLIS_MONITOR_CHANNEL_MEMORY_H
#define PORTCULLIS_MONITOR_CHANNEL_MEMORY_H

#include "monitor/channel.h"

#define OTHER(side) ((enum channel_side)(1 - (side)))

/*
 * Whether the end may learn anything of its peer: it may read it, or its own flow out has
 * back-pressure. An end that may not is shown an open flow out from the connect to its own close or
 * a cut, whatever the peer does (design: 4, one-way flows).
 */
bool channel_hears(const struct channel *channel, enum channel_side side);

/* Fills in the words of the end's record that stand while it is not free; before its first publish. */
void channel_describe(const struct channel *channel, enum channel_side side);

/* Publishes what the end's domain may know: one atomic word; doorbells follow (bells.h). */
void channel_publish(struct channel *channel, enum channel_side side);

/* Notes what the end's inbox slot shows now. */
void channel_shows(struct endpoint *end, enum window_part part);

/* Makes the end's inbox slot show what it has to. A guest whose window cannot be changed is lost. */
void channel_follow(struct registry *registry, struct channel *channel, enum channel_side side);

/* What channel_publish will write, and what channel_inspect will read, on its way into the cache. */
void channel_fetch_records(const struct channel *channel);
void channel_fetch_headers(const struct channel *channel);

/* Whether messages of flow[side] are there that the peer has not taken. */
bool channel_has_unread(const struct channel *channel, enum channel_side side);

#endif
