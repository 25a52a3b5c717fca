/*
 * A plan: what a change would do to every flow, and why (design: 2, 7).
 *
 * Pure over the registry and a set of decisions; it may fail and may allocate,
 * so that commit need not. It stays exact while the gate is closed, and
 * readable while the registry is pinned (registry.h).
 * Under the registry lock while it is built.
 */
#ifndef PORTCULLIS_MONITOR_PLAN_H
#define PORTCULLIS_MONITOR_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/channel.h"
#include "monitor/decisions.h"
#include "monitor/proposal.h"
#include "monitor/registry.h"

/* One flow that is cut, or that a new connect would get. */
struct plan_flow {
	struct channel *channel;
	enum channel_side side;
	struct need missing;   /* of a cut: what is not allowed any more */
	enum cut_cause cause;  /* of a cut; something is missing for CAUSE_DECISION only */
	uint32_t reason;       /* of a cut: number in the change's reasons */
	struct flow_loss loss; /* of a cut: filled in by commit */
	bool done;             /* of a cut: it was still live at commit */
};

/* An inbox slot that has to show less, guest by guest, in the order of slots. */
struct plan_end {
	struct channel *channel;
	enum channel_side side;
};

struct plan {
	struct plan_flow *cuts;
	size_t n_cuts;
	struct plan_flow *allowed;
	size_t n_allowed;
	struct plan_flow
		*marked; /* kept, reverse cut, and its back-pressure still tells the writer something */
	size_t n_marked;
	struct plan_end *ends;
	size_t n_ends;
	struct domain **wakes; /* both ends' domains of each cut flow, each once */
	size_t n_wakes;
	uint64_t guests;     /* bit i: the guest with index i holds an end of a cut flow */
	uint64_t n_examined; /* live flows */
	uint64_t n_kept;
};

/* Puts what the judgement of all listed channels needs into the set. 0, -ENOMEM. */
int plan_questions(struct registry *registry, const struct proposal *proposal, struct decisions *decisions);

/*
 * Judges every listed channel. -ENOMEM; -EAGAIN: a decision is missing from the
 * set (channels were made since plan_questions). *plan is then empty.
 */
int plan_build(struct registry *registry, const struct proposal *proposal, struct decisions *decisions,
               struct plan *plan);

void plan_free(struct plan *plan);

#endif
