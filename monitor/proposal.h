/*
 * A proposal: what decisions would be made by if a change were made.
 *
 * The one place that knows how each kind of change alters the judgement of a
 * channel: prepare plans by it, commit puts it in force, verify checks by it
 * again. Under the registry lock where a registry is given.
 */
#ifndef PORTCULLIS_MONITOR_PROPOSAL_H
#define PORTCULLIS_MONITOR_PROPOSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/channel.h"
#include "monitor/decisions.h"
#include "monitor/group.h"
#include "monitor/registry.h"
#include "policy/overlay.h"

enum change_kind {
	CHANGE_POLICY,
	CHANGE_BOOLEAN,
	CHANGE_ENFORCING,
	CHANGE_OVERLAY,
	CHANGE_RELABEL,
	CHANGE_QUARANTINE,
	CHANGE_RELEASE,
	CHANGE_CUT,
	N_CHANGE_KINDS
};

/* "policy", "boolean", ...: as reports name them. */
const char *change_kind_name(enum change_kind kind);

struct proposal {
	enum change_kind kind;
	bool enforcing;
	struct overlay overlay;
	struct domain *domain; /* of RELABEL, QUARANTINE, RELEASE */
	policy_sid sid;        /* RELABEL: its new context */
	uint64_t channel;      /* CUT: its number */
};

/* Who decides about the channels of a group, or about one channel, if the change is made. */
struct subjects proposal_group_subjects(const struct proposal *proposal, const struct group *group);
struct subjects proposal_subjects(const struct proposal *proposal, const struct channel *channel);

/*
 * One look at all channels, while nothing changes. What it finds out about a group stands for all
 * channels of that; the next judging finds it out again.
 */
struct judging {
	const struct proposal *proposal;
	struct decisions *decisions; /* answered, and masked by the overlay */
	uint64_t number;
};

struct judging judging_begin(struct registry *registry, const struct proposal *proposal,
                             struct decisions *decisions);

/*
 * Judges a channel, and notes in it which flows will live if others were opened on its behalf: all channels
 * in their order, since those follow it. The judgement stands in its group, or in *own. NULL: a decision is
 * not there.
 */
const struct judgement *proposal_judge(const struct judging *judging, struct channel *channel,
                                       struct judgement *own);

/* Commit: the domain's state and identity become what is proposed. */
void proposal_enact(struct registry *registry, const struct proposal *proposal);

#endif
