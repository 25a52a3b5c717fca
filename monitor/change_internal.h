/*
 * A change as its three files share it: change.c (begin and end), prepare.c
 * (stages, on the loop), execute.c (stop, commit, resume, report).
 */
#ifndef PORTCULLIS_MONITOR_CHANGE_INTERNAL_H
#define PORTCULLIS_MONITOR_CHANGE_INTERNAL_H

#include "monitor/change.h"
#include "monitor/decisions.h"
#include "monitor/plan.h"
#include "monitor/posture.h"
#include "monitor/reasons.h"
#include "monitor/report.h"
#include "monitor/settings.h"

/* What prepare waits for; each stage ends with an answer of a security server. */
enum change_stage {
	STAGE_LOAD,     /* the candidate compiles; POLICY and BOOLEAN */
	STAGE_BOOLEANS, /* which booleans it has; if any are set */
	STAGE_VALIDATE, /* which contexts are known; POLICY, BOOLEAN, RELABEL */
	STAGE_DECIDE,
	STAGE_EXPLAIN,
};

struct change {
	struct monitor *monitor;
	bool plan_only, force;
	bool abandoned; /* nobody waits for it any more; released when no answer is under way */
	enum stop_mode stop;
	policy_sid author;
	change_done_fn *done;
	void *opaque;
	void (*planned)(void *opaque); /* of the request */
	void *planned_opaque;

	struct proposal proposal;
	char *boolean; /* BOOLEAN: must exist */

	enum change_stage stage;
	bool answered; /* the stage's answer is there, with this status */
	int status;
	char *why; /* of a status that has a text of its own */
	uint64_t deadline_ns;

	bool has_candidate; /* a server of its own: else the one in force is asked */
	struct policy_load load;
	struct server_watch watch;
	struct loop_timer soon; /* an answer was there at once */
	struct settings settings;
	bool *known; /* of SID i + 1 */
	size_t n_known;
	policy_sid operator_sid;
	struct decisions *decisions;
	struct plan plan;
	struct reasons *reasons;
	bool gate_closed, pinned;
	struct change_outcome outcome;
	struct policy_instance old; /* was in force before; released when the caller can be answered */
};

/* change.c: frees everything, opens the gate, lets connects go on. */
void change_release(struct change *change);

/* Ends it without a change. */
void change_fail(struct change *change, int status, const char *why);

/* prepare.c: the first stage, and then each time that answers may have come. */
int prepare_begin(struct change *change, const struct change_request *request, char why[static WHY_BYTES]);
void prepare_step(struct change *change);

/* execute.c: from the finished plan to the report; for plan_only the report alone. The change is gone then.
 */
void execute(struct change *change);

#endif
