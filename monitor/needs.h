/*
 * What a flow needs: the one table of who may talk to whom (design: 6; F4, F5).
 *
 * For the flow from A to B of a channel whose client connected to a service:
 *
 *	connect		client -> service's context	both flows
 *	accept		server -> client		both flows
 *	send		A -> B				this flow
 *	recv		B -> A				this flow
 *	flowctl		B -> A				back-pressure of this flow
 *	specify_client	relay -> client			both flows, if a relay speaks for the client
 *
 * all of class channel. Pure: it asks a lookup that the caller gives, so the
 * AVC, a candidate's answers, and a model are judged by the same code.
 */
#ifndef PORTCULLIS_MONITOR_NEEDS_H
#define PORTCULLIS_MONITOR_NEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/avc.h"
#include "policy/sid.h"

/* Whose contexts decide about a channel. */
struct subjects {
	policy_sid client; /* effective identity: its own context, or whom it speaks for */
	policy_sid server;
	policy_sid service;
	policy_sid relay; /* who speaks for the client; SID_NONE: the client itself */
};

/* One permission that flows rest on. Flow 0 goes from client to server. */
struct need {
	policy_sid source;
	policy_sid target;
	uint32_t permission; /* one bit of enum channel_permission */
	uint8_t flows;       /* bit i: losing it cuts flow i */
	uint8_t flowctl;     /* bit i: it is flow i's back-pressure */
	bool masked;         /* missing, but permissive mode grants it */
};

#define MAX_NEEDS 9u

/* What the decisions say of a channel. */
struct verdict {
	bool open[2];    /* flow i is allowed */
	bool flowctl[2]; /* with back-pressure */
	struct need missing[MAX_NEEDS];
	size_t n_missing;
};

/* The needs of a channel between them; returns their number. */
size_t needs_list(const struct subjects *subjects, struct need needs[static MAX_NEEDS]);

/* True and *out if there is a decision for the key. */
typedef bool decision_lookup_fn(void *opaque, struct avc_key key, struct decision *out);

/*
 * Judges a channel. False: a decision is not there, *verdict is undefined.
 * With enforcing false, or a permissive source, what is missing is listed but granted.
 */
bool needs_judge(const struct subjects *subjects, bool enforcing, decision_lookup_fn *lookup, void *opaque,
                 struct verdict *verdict);

/* The first need whose lack denies flow i, or its flowctl; NULL: none. */
const struct need *verdict_missing(const struct verdict *verdict, unsigned flow);

#endif
