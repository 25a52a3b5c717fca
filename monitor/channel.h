/*
 * A channel: two ends, two flows, and what stands in memory for them.
 *
 * Memory follows from state by two functions alone: channel_word says what an
 * end's slot record holds, channel_part what of the peer's outbox stands in its
 * inbox slot. Whatever happens to a channel (accept, close, death, cut) changes
 * the states first and then makes memory follow: to open, windows before
 * records; to take away, records before windows, so that a reader's second look
 * at its record is sufficient (design: 7, commit).
 * All under the registry lock.
 */
#ifndef PORTCULLIS_MONITOR_CHANNEL_H
#define PORTCULLIS_MONITOR_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/needs.h"
#include "monitor/registry.h"
#include "vmm/window.h"

enum channel_side {
	SIDE_CLIENT,
	SIDE_SERVER,
	N_SIDES
};

enum flow_state {
	FLOW_DENIED,  /* never allowed */
	FLOW_PENDING, /* allowed; opens when the server accepts */
	FLOW_OPEN,
	FLOW_CUT,    /* a change took it away, for good */
	FLOW_CLOSED, /* an end closed or died */
};

/* Out of the end with the same index. */
struct flow {
	enum flow_state state : 8;
	bool flowctl; /* the destination's header is readable at the source */
};

/* What passed through a flow, as last inspected, for display. */
struct flow_count {
	uint64_t messages;
	uint64_t bytes;
	uint64_t unread_bytes;
};

/* Why an end is no longer held. */
enum end_fate {
	END_HELD,
	END_NEW,    /* server end before accept */
	END_CLOSED, /* in order */
	END_DIED,
};

struct endpoint {
	struct domain *domain;
	struct bell *bell; /* that it rings for a peer elsewhere: bells.h */
	uint64_t generation;
	uint32_t slot;
	enum end_fate fate : 8;
	enum window_part part : 8; /* what its inbox slot shows now */
	bool owns_slot : 1;        /* false once the slot was given back */
	bool rings : 1, heard : 1; /* counted at the bell */
};

struct channel {
	/* What a judging reads of every channel, and of one that it takes something from: beside each other.
	 */
	struct channel *next;  /* registry's list */
	struct channel *ahead; /* where a walk will be soon, to be fetched: it may be gone, and is no more
	                          than that */
	struct group *group;   /* group.h; NULL: opened on behalf of another */
	struct channel
		*parent; /* whose client it speaks for; NULL: that has ended in order, or is the host's */
	uint64_t number;
	struct flow flow[N_SIDES];
	policy_sid client_sid; /* effective identity of the client: its own context, or whom it speaks for */
	uint32_t n_children;
	const struct domain *left_by; /* that other, if it closed after a plan was made: what the plan says of
	                                 its identity still holds. Only compared */
	bool on_behalf;               /* the client is a relay that speaks for another */
	bool will_live[N_SIDES];      /* scratch of a judging, oldest first; of channels with children */
	bool accepted;                /* it has left the backlog */
	bool refused;                 /* ... because the server ended: nobody has accepted it */
	bool cut_waiting; /* ... because a change cut it: what the client had sent was seen by nobody */
	bool dead;        /* in the graveyard */
	struct endpoint end[N_SIDES];

	struct service *service;
	uint64_t opened_at_policy;
	struct flow_count count[N_SIDES];
	struct channel *previous; /* registry's list */
	struct channel *backlog_next;
};

/* The next channel of the registry's list. Of thousands none is in a cache: those that come soon are fetched.
 */
static inline struct channel *channel_next(const struct channel *channel)
{
	const char *ahead = (const char *)channel->ahead;

	__builtin_prefetch(ahead);
	__builtin_prefetch(ahead + offsetof(struct channel, end) - 1);
	__builtin_prefetch(ahead + offsetof(struct channel, service) - 1);
	return channel->next;
}

/* What a cut found in flight in one flow. Counters of a guest, clamped. */
struct flow_loss {
	uint64_t messages;
	uint64_t bytes;
	uint32_t calls;      /* domains that were blocked on it */
	bool to_host;        /* the flow led to a port ... */
	int64_t handed_over; /* ... whose reader has not taken these bytes yet; -1: nobody can know */
};

/*
 * A channel that was granted, not accepted yet: takes both slots, queues it at
 * the service, publishes the client's record. From here the client may send; the server sees it once it has
 * accepted. asked says on whose behalf it connects; NULL: its own. CALL_NO_SLOT, CALL_BUSY (backlog),
 * CALL_PEER_DIED (the server has ended); then nothing has changed (I7).
 *
 * A client that may hear nothing of its peer (only the flow out is allowed, without
 * flowctl) is not told of these either: it gets a channel that leads nowhere.
 */
int channel_create(struct registry *registry, struct domain *client, struct service *service,
                   const struct pending_connect *asked, const struct verdict *verdict, uint64_t policy_number,
                   struct channel **channel);

/* The oldest connect that waits at one of the server's services, opened; NULL: none. */
struct channel *channel_accept(struct registry *registry, struct domain *server);

/*
 * An end closes it (END_CLOSED) or died (END_DIED); the peer is told. Frees the channel when no end is left.
 * A client that has sent something, or whose domain ends, leaves it in the backlog: the server accepts it,
 * reads what was sent, and is told. Not if the client may hear nothing of it, or could send nothing.
 * What a closed end has left to be read goes when it ends again, because its guest is lost.
 */
void channel_end(struct registry *registry, struct channel *channel, enum channel_side side,
                 enum end_fate fate);

/* Lets go of both ends' guests. The registry lock; only of a channel that is on no list. */
void channel_free(struct channel *channel);

/* The channel that the domain holds in that slot, and its side; NULL: none. */
struct channel *channel_at(struct domain *domain, uint64_t slot, enum channel_side *side);

/* Whether the flow lets anything through now, or will after accept. */
static inline bool flow_live(const struct flow *flow)
{
	return flow->state == FLOW_PENDING || flow->state == FLOW_OPEN;
}

/*
 * The steps of a cut, in the order of the design page. States first (flow[side]
 * is set to FLOW_CUT by the caller), then channel_publish_cut for every channel, then
 * windows, then channel_inspect, then wakes.
 */
void channel_publish_cut(struct registry *registry, struct channel *channel);

/* Last of all: one that was cut while it waited for an accept, and whose client had gone before, ends here.
 */
void channel_sweep(struct registry *registry, struct channel *channel);

/* The domain whose context is the channel's client identity, up the chain of those it speaks for; NULL: none,
 * the identity stays what it is. */
static inline const struct domain *channel_origin(const struct channel *channel)
{
	while (channel->parent)
		channel = channel->parent;
	return channel->on_behalf ? channel->left_by : channel->end[SIDE_CLIENT].domain;
}

/* What the end's inbox slot has to show in the present state. */
enum window_part channel_part(const struct channel *channel, enum channel_side side);

/* In flight in flow[side] at its cut. Two counters, each read once and clamped. */
struct flow_loss channel_inspect(struct channel *channel, enum channel_side side);

/* Reads the counters of flow[side] for display. */
void channel_count(struct channel *channel, enum channel_side side);

const char *flow_state_name(enum flow_state state);

#endif
