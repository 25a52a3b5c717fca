/*
 * A change: prepare, stop, commit, verify, resume, report (design: 7; Flask,
 * USENIX Security 1999, 5.3; F8-F10).
 *
 * Everything that alters decisions goes this way, one at a time. Prepare runs
 * on the loop, asynchronously, while guests run; from the end of prepare to the
 * report it is one uninterrupted call on the loop thread.
 */
#ifndef PORTCULLIS_MONITOR_CHANGE_H
#define PORTCULLIS_MONITOR_CHANGE_H

#include <jansson.h>
#include <stdbool.h>

#include "monitor/manifest.h"
#include "monitor/monitor.h"
#include "monitor/proposal.h"
#include "policy/overlay.h"
#include "policy/server.h"
#include "policy/sid.h"

enum overlay_operation {
	OVERLAY_REVOKE,
	OVERLAY_GRANT,
	OVERLAY_RESET, /* every rule goes, everything is checked again */
};

struct change_request {
	enum change_kind kind;
	bool plan_only; /* prepare, report with "planned", change nothing */
	bool force;     /* also when the author would lose the right to do it again */
	enum stop_mode stop;
	policy_sid author; /* SID_NONE: nobody is asked after */

	/* What the kind names; pointers need not outlive change_begin. */
	const struct policy_source *sources; /* POLICY; descriptors are dup'ed on the way to the server */
	size_t n_sources;
	const char *boolean;              /* BOOLEAN */
	bool value;                       /* BOOLEAN, ENFORCING */
	enum overlay_operation operation; /* OVERLAY */
	struct overlay_rule rule;
	const char *guest, *domain; /* RELABEL, QUARANTINE, RELEASE */
	const char *context;        /* RELABEL */
	uint64_t channel;           /* CUT */

	/*
	 * Called from the loop, no lock held, when the plan stands and the stop is next; also of a change
	 * that is only planned. Benchmarks begin to count here, or do what they compare with. NULL: nobody
	 * looks.
	 */
	void (*planned)(void *opaque);
	void *planned_opaque;
};

/*
 * status 0: the report (form in docs/cli.md: "policy push"), owned by the callee;
 * -EKEYREJECTED: the author would lock itself out; -EBADMSG: the policy was
 * refused; -ENOENT: what it names does not exist; -EINVAL: the context is not known; -ETIMEDOUT,
 * -ECONNRESET: the security server failed; -EOWNERDEAD: in force, report given, but guests named
 * in "killed" were killed. why holds lines for the user.
 */
typedef void change_done_fn(void *opaque, int status, json_t *report, const char *why);

/* 0: under way, done will be called from the loop. -EBUSY: another one is; -ENOENT, -ENOMEM, -errno: not
 * begun. */
int change_begin(struct monitor *monitor, const struct change_request *request, change_done_fn *done,
                 void *opaque, char why[static WHY_BYTES]);

/* The client with that opaque has gone: its change, if still in prepare, is dropped without a trace. */
void change_abandon(struct monitor *monitor, const void *opaque);

/* The monitor ends: whatever is in prepare is dropped; its caller is not called. */
void change_drop(struct monitor *monitor);

/* The posture has dispatched answers of the server in force: a change may have waited for them. */
void change_answers(struct monitor *monitor);

#endif
