#include "monitor/change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/audit.h"
#include "monitor/commit.h"
#include "monitor/decisions.h"
#include "monitor/guest.h"
#include "monitor/loop.h"
#include "monitor/mediation.h"
#include "monitor/plan.h"
#include "monitor/reasons.h"
#include "monitor/registry.h"
#include "monitor/report.h"
#include "vmm/check.h"
#include "vmm/stop.h"

/* What prepare waits for; each stage ends with an answer of the candidate. */
enum change_stage {
	STAGE_LOAD,
	STAGE_VALIDATE,
	STAGE_DECIDE,
	STAGE_EXPLAIN,
};

struct change {
	struct monitor *monitor;
	struct change_request request; /* sources are not ours: the loading has taken them */
	change_done_fn *done;
	void *opaque;

	enum change_stage stage;
	bool answered; /* the stage's answer is there, with this status */
	int status;
	uint64_t deadline_ns;

	struct policy_load load;
	struct server_watch watch;
	bool *known; /* of SID i + 1 under the candidate */
	size_t n_known;
	policy_sid operator_sid;
	struct decisions *decisions;
	struct plan plan;
	struct reasons *reasons;
	bool gate_closed, pinned;
	struct change_outcome outcome;
	struct policy_instance old; /* was in force before; released when the caller can be answered */
};

/* ---- the end, good or bad ---- */

static void release(struct change *change)
{
	struct registry *registry;

	watch_end(&change->watch);
	policy_release(&change->load.policy);
	policy_release(&change->old);
	registry = registry_lock(change->monitor);
	if (change->gate_closed)
		registry_open_gate(registry);
	if (change->pinned)
		registry_unpin(registry);
	registry_unlock(registry);
	change->monitor->change = NULL;
	mediation_pump(change->monitor);
	plan_free(&change->plan);
	reasons_destroy(change->reasons);
	decisions_destroy(change->decisions);
	free(change->load.why);
	free(change->known);
	free(change);
}

static void fail(struct change *change, int status, const char *why)
{
	change_done_fn *done = change->done;
	void *opaque = change->opaque;
	char *text = strdup(why);

	if (!change->request.plan_only && status == -EBADMSG)
		audit_notice(change->monitor->audit, "PORTCULLIS_POLICY_REFUSED",
		             "the policy in force stays");
	release(change);
	done(opaque, status, NULL, text ? text : strerror(ENOMEM));
	free(text);
}

static void fail_server(struct change *change, int status)
{
	fail(change, status,
	     status == -ETIMEDOUT
	             ? "the security server did not answer in time; the policy in force stays"
	             : "the security server of the new policy failed; the policy in force stays");
}

/* ---- stop, commit, resume ---- */

struct machines {
	struct machine *machine[MAX_GUESTS];
	struct guest *guest[MAX_GUESTS];
	bool late[MAX_GUESTS];
	size_t n;
};

static struct machines choose(struct change *change)
{
	struct registry *registry = registry_lock(change->monitor);
	struct machines chosen = {.n = 0};

	for (uint32_t g = 0; g < registry->n_guests && change->plan.n_cuts; g++) {
		struct guest *guest = registry->guests[g];
		bool affected = change->plan.guests & 1ull << g;

		if (guest->lost || change->request.stop == STOP_NONE ||
		    (change->request.stop == STOP_AFFECTED && !affected))
			continue;
		chosen.machine[chosen.n] = guest->machine;
		chosen.guest[chosen.n++] = guest;
	}
	registry_unlock(registry);
	return chosen;
}

static void lose_late(struct registry *registry, const struct machines *stopped, const char *why)
{
	for (size_t i = 0; i < stopped->n; i++)
		if (stopped->late[i])
			guest_lose(registry, stopped->guest[i], why);
}

/* Guests that were lost on the way take their channels along before anything runs again. */
static uint64_t reap(struct registry *registry)
{
	uint64_t lost = 0;

	for (uint32_t g = 0; g < registry->n_guests; g++) {
		struct guest *guest = registry->guests[g];

		if (!guest->lost || guest->ended || machine_state(guest->machine) != MACHINE_KILLED)
			continue;
		guest_reap(registry, guest);
		lost |= 1ull << g;
	}
	return lost;
}

static void resume(struct change *change, struct machines *stopped)
{
	char why[WHY_BYTES];
	size_t n = 0;

	for (size_t i = 0; i < stopped->n; i++)
		if (!stopped->guest[i]->lost)
			stopped->machine[n++] = stopped->machine[i];
	if (n && resume_machines(stopped->machine, n, loop_now() + change->monitor->deadline_ns, why) < 0)
		audit_notice(change->monitor->audit, "PORTCULLIS_LATE", "%s", why);
}

static void carry_out(struct change *change, struct commit *commit)
{
	struct monitor *monitor = change->monitor;
	struct change_times *times = &change->outcome.times;
	struct machines stopped = choose(change);
	char why[WHY_BYTES] = "";
	struct registry *registry;

	times->t0 = loop_now();
	if (stopped.n)
		stop_machines(stopped.machine, stopped.n, times->t0 + monitor->deadline_ns,
		              &change->outcome.stopped, stopped.late, why);
	times->t1 = loop_now();
	registry = registry_lock(monitor);
	lose_late(registry, &stopped, why);
	commit_apply(registry, monitor, commit);
	change->outcome.killed = reap(registry);
	registry_unlock(registry);
	times->t2 = loop_now();
	resume(change, &stopped);
	registry = registry_lock(monitor);
	registry_open_gate(registry);
	registry_unlock(registry);
	change->gate_closed = false;
	times->t3 = loop_now();
}

static void finish(struct change *change)
{
	struct monitor *monitor = change->monitor;
	change_done_fn *done = change->done;
	void *opaque = change->opaque;
	int status = change->outcome.killed ? -EOWNERDEAD : 0;
	json_t *report;

	change->outcome.times.t4 = loop_now();
	report = report_json(monitor, &change->outcome);
	if (!change->outcome.planned)
		report_audit(monitor, &change->outcome);
	release(change);
	done(opaque, report ? status : -ENOMEM, report, report ? "" : strerror(ENOMEM));
}

static void outcome_init(struct change *change)
{
	struct posture *posture = change->monitor->posture;
	bool planned = change->request.plan_only;

	change->outcome.change = "policy";
	change->outcome.planned = planned;
	change->outcome.previous = posture->policy_number;
	change->outcome.policy_number = posture->policy_number + !planned;
	change->outcome.stop = change->request.stop;
	change->outcome.enforcing = posture->enforcing;
	change->outcome.plan = &change->plan;
	change->outcome.reasons = change->reasons;
}

static void execute(struct change *change)
{
	struct monitor *monitor = change->monitor;
	struct commit commit = {
		.plan = &change->plan,
		.decisions = change->decisions,
		.policy_number = monitor->posture->policy_number + 1,
		.known = change->known,
		.n_known = change->n_known,
		.operator_sid = change->operator_sid,
		.candidate = &change->load.policy,
	};

	watch_end(&change->watch);
	watch_end(&monitor->posture->watch);
	carry_out(change, &commit);
	change->old = commit.old;
	posture_watch(monitor);
	finish(change);
}

/* ---- prepare: one stage after the other ---- */

static void validated(void *opaque, int status, const bool *valid, size_t n_valid)
{
	struct change *change = opaque;

	change->answered = true;
	change->status = status;
	if (status == 0 && n_valid == change->n_known)
		memcpy(change->known, valid, n_valid * sizeof(*valid));
}

/* The operator's context may be a new one; then it gets its SID now, which widens nothing. */
static int begin_validate(struct change *change)
{
	struct sid_table *sids = change->monitor->posture->sids;
	struct registry *registry = registry_lock(change->monitor);
	int error = sid_intern(sids, change->load.policy.operator_context, &change->operator_sid);
	const char **contexts;

	registry_unlock(registry);
	if (error < 0)
		return error;
	change->n_known = sid_count(sids);
	change->known = calloc(change->n_known, sizeof(*change->known));
	contexts = calloc(change->n_known, sizeof(*contexts));
	if (!change->known || !contexts) {
		free(contexts);
		return -ENOMEM;
	}
	for (size_t i = 0; i < change->n_known; i++)
		contexts[i] = sid_context(sids, (policy_sid)i + 1);
	change->stage = STAGE_VALIDATE;
	error = server_validate(change->load.policy.server, contexts, change->n_known, change->deadline_ns,
	                        validated, change);
	free(contexts);
	return error;
}

static void decided(void *opaque, int status, struct decisions *decisions)
{
	struct change *change = opaque;

	(void)decisions;
	change->answered = true;
	change->status = status;
}

static struct avc_key author_key(const struct change *change)
{
	return (struct avc_key){change->request.author, change->operator_sid, CLASS_MONITOR};
}

static int begin_decide(struct change *change)
{
	struct registry *registry = registry_lock(change->monitor);
	int error = plan_questions(registry, change->decisions);

	registry_unlock(registry);
	if (error == 0 && change->request.author != SID_NONE)
		error = decisions_add(change->decisions, author_key(change));
	if (error < 0)
		return error;
	change->stage = STAGE_DECIDE;
	if (decisions_unanswered(change->decisions) == 0) {
		change->answered = true;
		return 0;
	}
	return decisions_ask(change->decisions, change->load.policy.server, change->monitor->posture->sids,
	                     change->monitor->posture->policy_number + 1, change->deadline_ns, decided,
	                     change);
}

/* From here no new channel appears, so the second round of questions is the last. */
static void close_gate(struct change *change)
{
	struct registry *registry;

	if (change->gate_closed || change->request.plan_only)
		return;
	registry = registry_lock(change->monitor);
	registry_close_gate(registry);
	registry_unlock(registry);
	change->gate_closed = true;
}

/* 0: the plan stands; -EAGAIN: pairs have appeared that nobody has asked about. */
static int make_plan(struct change *change)
{
	struct registry *registry = registry_lock(change->monitor);
	int error = plan_questions(registry, change->decisions);

	if (error == 0 && decisions_unanswered(change->decisions) > 0)
		error = -EAGAIN;
	if (error == 0)
		error = plan_build(registry, change->decisions, change->monitor->posture->enforcing,
		                   &change->plan);
	if (error == 0) {
		registry_pin(registry);
		change->pinned = true;
	}
	registry_unlock(registry);
	return error;
}

static bool locks_author_out(struct change *change)
{
	struct decision decision;

	if (change->request.force || change->request.plan_only || change->request.author == SID_NONE)
		return false;
	return !decisions_find(change->decisions, author_key(change), &decision) ||
	       (!(decision.allowed & MONITOR_LOAD_POLICY) && !decision.permissive &&
	        change->monitor->posture->enforcing);
}

static int begin_explain(struct change *change)
{
	int error;

	change->stage = STAGE_EXPLAIN;
	change->reasons = reasons_create();
	if (!change->reasons || reasons_collect(change->reasons, &change->plan) < 0)
		return -ENOMEM;
	error = reasons_ask(change->reasons, change->load.policy.server, change->monitor->posture->sids,
	                    change->deadline_ns);
	change->answered = reasons_pending(change->reasons) == 0;
	return error;
}

/* The candidate has decided about everything that was known: plan, or ask about what has appeared. */
static int after_decide(struct change *change)
{
	bool was_closed = change->gate_closed;
	int error;

	close_gate(change);
	error = make_plan(change);
	if (error == -EAGAIN) {
		CHECK(!was_closed || change->request.plan_only);
		return begin_decide(change);
	}
	return error < 0 ? error : begin_explain(change);
}

/* Takes the answer that has come; true if the next stage has one already. */
static bool advance(struct change *change)
{
	int error = 0;

	if (change->stage == STAGE_LOAD) {
		change->answered = change->load.done;
		change->status = change->load.status;
	} else if (change->stage == STAGE_EXPLAIN) {
		change->answered = reasons_pending(change->reasons) == 0;
		change->status = server_alive(change->load.policy.server) ? 0 : -ECONNRESET;
	}
	if (!change->answered)
		return false;
	change->answered = false;
	if (change->status < 0) {
		if (change->stage == STAGE_LOAD)
			fail(change, change->status,
			     change->load.why ? change->load.why : "the policy was refused");
		else
			fail_server(change, change->status);
		return false;
	}
	switch (change->stage) {
	case STAGE_LOAD:
		error = begin_validate(change);
		break;
	case STAGE_VALIDATE:
		error = begin_decide(change);
		break;
	case STAGE_DECIDE:
		error = after_decide(change);
		break;
	case STAGE_EXPLAIN:
		outcome_init(change);
		if (change->request.plan_only)
			finish(change);
		else if (locks_author_out(change))
			fail(change, -EKEYREJECTED,
			     "the new policy would take monitor:load_policy from its own pusher; --force "
			     "does it all the same");
		else
			execute(change);
		return false;
	}
	if (error == -ECONNRESET)
		fail_server(change, error);
	else if (error < 0)
		fail(change, error, strerror(-error));
	return error == 0 && change->answered;
}

static void after_answers(void *opaque)
{
	struct change *change = opaque;

	while (advance(change))
		;
}

int change_begin(struct monitor *monitor, const struct change_request *request, change_done_fn *done,
                 void *opaque, char why[static WHY_BYTES])
{
	struct change *change;
	int error;

	if (monitor->change) {
		snprintf(why, WHY_BYTES, "another change is under way; try again when it has ended");
		return -EBUSY;
	}
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	change = calloc(1, sizeof(*change));
	if (!change)
		return -ENOMEM;
	change->monitor = monitor;
	change->old.image_fd = -1;
	change->load.policy.image_fd = -1;
	change->request = *request;
	change->done = done;
	change->opaque = opaque;
	change->outcome.times.begun = loop_now();
	change->deadline_ns = change->outcome.times.begun + monitor->deadline_ns;
	change->decisions = decisions_create();
	if (!change->decisions) {
		free(change);
		return -ENOMEM;
	}
	error = policy_begin(monitor, request->sources, request->n_sources, &change->load, why);
	if (error == 0)
		error = watch_begin(&change->watch, monitor->loop, change->load.policy.server, after_answers,
		                    change);
	if (error < 0) {
		release(change);
		return error;
	}
	change->request.sources = NULL;
	monitor->change = change;
	return 0;
}

void change_abandon(struct monitor *monitor, const void *opaque)
{
	if (monitor->change && monitor->change->opaque == opaque)
		release(monitor->change);
}

void change_drop(struct monitor *monitor)
{
	if (monitor->change)
		release(monitor->change);
}
