/*
 * A judgement: what would become of a channel's flows, and why.
 *
 * A plain value; proposal.h makes it. Small, since there is one for each group of
 * channels (group.h) for as long as the group lives.
 */
#ifndef PORTCULLIS_MONITOR_JUDGEMENT_H
#define PORTCULLIS_MONITOR_JUDGEMENT_H

#include <stdbool.h>

#include "monitor/needs.h"

/* Why a flow is lost. */
enum cut_cause {
	CAUSE_DECISION, /* a need is missing: policy, overlay, mode, or context */
	CAUSE_QUARANTINE,
	CAUSE_OPERATOR, /* channel cut */
	CAUSE_PARENT,   /* the channel on whose behalf it was opened loses it */
	CAUSE_MEMBER,   /* the member decision names another instance */
};

struct judgement {
	bool open[2];    /* flow i is allowed */
	bool flowctl[2]; /* with back-pressure */
	/* Of a flow that is not open, or has no back-pressure: */
	enum cut_cause cause[2];
	struct need missing[2]; /* the first that is, for CAUSE_DECISION only */
};

#endif
