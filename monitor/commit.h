/*
 * Commit: the middle of a change, between stop and resume (design: 7).
 *
 * It can not fail. Under one hold of the registry lock:
 *
 *	raise	the policy number, then flush the AVC, then switch servers
 *	mark	the state of every flow of the plan that is still live
 *	patch	the records of both ends
 *	sever	windows; neighbouring slots by one mapping
 *	inspect	what was in flight
 *	wake	every domain that lost a flow
 *	verify	no open flow without a decision under the new number
 *
 * Patch before sever is what makes a reader's second look sufficient:
 *
 *	reader				commit
 *	looks at its record: open
 *	copies a message
 *					patch the record
 *					sever the window
 *	looks again: cut, drops it
 *
 * With sever first, the copy may be half zeroes and the second look still say
 * open. A window that the host refuses to take away loses its guest
 * (guest_lose): its whole inbox is closed by one mprotect, which needs no new mapping.
 */
#ifndef PORTCULLIS_MONITOR_COMMIT_H
#define PORTCULLIS_MONITOR_COMMIT_H

#include "monitor/decisions.h"
#include "monitor/plan.h"
#include "monitor/posture.h"
#include "monitor/proposal.h"

struct commit {
	struct plan *plan;
	const struct proposal *proposal;
	struct decisions *decisions; /* all answered under policy_number */
	uint64_t policy_number;
	const bool *known; /* of SID i + 1; n_known 0: as before */
	size_t n_known;
	policy_sid operator_sid;
	struct policy_instance *candidate; /* put in force; NULL: the policy stays */
	struct policy_instance old;        /* out: to be released after the report */
};

void commit_apply(struct registry *registry, struct monitor *monitor, struct commit *commit);

#endif
