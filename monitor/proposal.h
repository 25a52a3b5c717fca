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

/* Why a flow is lost. */
enum cut_cause {
	CAUSE_DECISION, /* a need is missing: policy, overlay, mode, or context */
	CAUSE_QUARANTINE,
	CAUSE_OPERATOR, /* channel cut */
	CAUSE_PARENT,   /* the channel on whose behalf it was opened loses it */
	CAUSE_MEMBER,   /* the member decision names another instance */
};

struct judgement {
	struct verdict verdict;
	enum cut_cause
		cause[2]; /* of flow i, if it is not open; something is missing for CAUSE_DECISION only */
};

/* Who decides about the channel if the change is made. */
struct subjects proposal_subjects(const struct proposal *proposal, const struct channel *channel);

/*
 * Judges a channel, and notes in it which flows will live; all channels in their order, since what
 * was opened on behalf of another follows that. The decisions are answered and masked by the overlay.
 * False: one is not there.
 */
bool proposal_judge(const struct proposal *proposal, struct decisions *decisions, struct channel *channel,
                    struct judgement *judgement);

/* Commit: the domain's state and identity become what is proposed. */
void proposal_enact(struct registry *registry, const struct proposal *proposal);

#endif
