/*
 * Starts: from a definition to a guest that runs, without holding up the loop.
 *
 *	ask	which of its contexts the policy in force knows
 *	build	its machine, on another thread
 *	enter	the registry, while no change is under way and the answer still holds
 *
 * A push that was prepared before the guest appeared must not miss it:
 *
 *	start				change
 *	interns SIDs, asks about them
 *					(had asked its candidate before: knows nothing of them)
 *	builds
 *	waits for the end of the change
 *					puts the candidate in force; its answers do not reach these SIDs
 *	sees that, asks again
 *					another change: asks its candidate about them too
 *	enters
 *
 * So a start asks again once at most, however many changes there are. A channel needs the gate open, so none
 * is made between the plan of a change and its end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/guest.h"
#include "monitor/lifecycle_internal.h"
#include "monitor/posture.h"
#include "monitor/workers.h"
#include "vmm/check.h"
#include "vmm/machine.h"

#define DEADLINES 3u /* a start may have to wait for the security server, and for a change's two */

enum stage {
	STAGE_ASKING,
	STAGE_BUILDING,
	STAGE_WAITING, /* to enter */
	STAGE_OVER,    /* its caller has not been told yet */
};

struct start {
	struct start *next;
	struct lifecycle *lifecycle;
	struct definition *definition; /* NULL: undefined meanwhile */
	struct manifest *manifest;     /* held */
	const struct manifest_guest *spec;
	struct guest *guest; /* NULL: it is the definition's, or was given up */
	bool paused;
	enum stage stage;
	bool given_up; /* nobody wants it any more; whoever holds a pointer here comes back first */
	policy_sid highest;
	policy_sid sids[MAX_DOMAINS * (1 + MAX_SERVICES)];
	size_t n_sids;
	uint64_t asked_at; /* the policy number under which the answer was given */
	uint64_t deadline_ns;
	lifecycle_done_fn *done; /* NULL: the caller has gone */
	void *opaque;
	int error;
	char why[WHY_BYTES];

	/* Of the thread that builds, until it has ended. */
	int build_error;
	char build_why[WHY_BYTES];
};

static void arm(struct lifecycle *lifecycle)
{
	uint64_t nearest = UINT64_MAX;

	for (const struct start *start = lifecycle->starts; start; start = start->next) {
		uint64_t deadline = start->stage == STAGE_OVER ? loop_now() : start->deadline_ns;

		if (start->given_up && start->stage != STAGE_OVER)
			continue;
		if (deadline < nearest)
			nearest = deadline;
	}
	loop_arm(lifecycle->monitor->loop, &lifecycle->timer, nearest);
}

/* It is over; the caller hears of it from the loop's next round. */
static void finish(struct start *start)
{
	if (start->guest)
		guest_discard(start->guest);
	start->guest = NULL;
	start->stage = STAGE_OVER;
	arm(start->lifecycle);
}

static void fail_as(struct start *start, int error, const char *why, enum lifecycle_reason reason)
{
	struct definition *definition = start->definition;

	start->error = error;
	snprintf(start->why, sizeof(start->why), "%s", why);
	finish(start);
	if (definition && !start->lifecycle->ending)
		definition_becomes(start->lifecycle, definition, LIFECYCLE_OFF, EVENT_FAILED, reason);
}

static void fail(struct start *start, int error, const char *why)
{
	fail_as(start, error, why, REASON_FAILED);
}

/* True: it was given up while somebody held a pointer to it, who has just come back. */
static bool was_given_up(struct start *start)
{
	if (start->given_up)
		finish(start);
	return start->given_up;
}

/* ---- asking ---- */

static void ask(struct start *start);
static void build(struct start *start);

static void note_known(struct start *start, const bool *valid, size_t n_valid)
{
	struct monitor *monitor = start->lifecycle->monitor;
	struct registry *registry = registry_lock(monitor);

	CHECK(n_valid == start->n_sids);
	for (size_t i = 0; i < n_valid; i++)
		sid_set_known(monitor->posture->sids, start->sids[i], valid[i]);
	start->asked_at = monitor->posture->policy_number;
	registry_unlock(registry);
}

static void validated(void *opaque, int status, const bool *valid, size_t n_valid)
{
	struct start *start = opaque;
	struct monitor *monitor = start->lifecycle->monitor;

	start->stage = STAGE_WAITING;
	if (was_given_up(start))
		return;
	if (status == -ECANCELED && monitor->posture->policy.server && !start->lifecycle->ending) {
		ask(start); /* a change has put another server in force: that one is asked (R9) */
		return;
	}
	if (status < 0) {
		fail(start, status, "the security server did not answer about the guest's contexts");
		return;
	}
	note_known(start, valid, n_valid);
	if (!start->guest->machine)
		build(start);
	else if (!monitor->change)
		starts_pump(start->lifecycle);
}

static void ask(struct start *start)
{
	struct monitor *monitor = start->lifecycle->monitor;
	const char **contexts = calloc(start->n_sids, sizeof(*contexts));
	int error = -ENOMEM;

	start->stage = STAGE_ASKING;
	for (size_t i = 0; contexts && i < start->n_sids; i++)
		contexts[i] = sid_context(monitor->posture->sids, start->sids[i]);
	if (contexts && !monitor->posture->policy.server)
		error = -EAGAIN;
	else if (contexts)
		error = server_validate(monitor->posture->policy.server, contexts, start->n_sids,
		                        loop_now() + monitor->deadline_ns, validated, start);
	free(contexts);
	if (error < 0) {
		start->stage = STAGE_WAITING;
		fail(start, error, "the security server cannot be asked now; try again in a moment");
		return;
	}
	posture_rearm(monitor);
}

static void note_sid(struct start *start, policy_sid sid)
{
	for (size_t i = 0; i < start->n_sids; i++)
		if (start->sids[i] == sid)
			return;
	start->sids[start->n_sids++] = sid;
	if (sid > start->highest)
		start->highest = sid;
}

static void note_sids(struct start *start)
{
	for (uint32_t d = 0; d < start->guest->n_domains; d++) {
		const struct domain *domain = &start->guest->domains[d];

		note_sid(start, domain->sid);
		for (uint32_t s = 0; s < domain->n_services; s++)
			note_sid(start, domain->services[s].sid);
	}
}

/* Registry lock. Whether known SIDs are those of the policy in force. */
static bool answer_holds(const struct start *start)
{
	const struct posture *posture = start->lifecycle->monitor->posture;

	return start->asked_at >= posture->switched_at || start->highest <= posture->n_judged;
}

static int check_contexts(struct start *start, bool *holds, char why[static WHY_BYTES])
{
	struct registry *registry = registry_lock(start->lifecycle->monitor);
	int error = 0;

	*holds = answer_holds(start);
	if (*holds)
		error = guest_check_contexts(registry, start->guest, start->spec, why);
	registry_unlock(registry);
	return error;
}

/* ---- building ---- */

static void run_build(void *opaque)
{
	struct start *start = opaque;

	start->build_error = guest_build(start->guest, start->build_why);
}

static void built(void *opaque)
{
	struct start *start = opaque;

	start->stage = STAGE_WAITING;
	if (was_given_up(start))
		return;
	if (start->build_error < 0)
		fail(start, start->build_error, start->build_why);
	else if (!start->lifecycle->monitor->change)
		starts_pump(start->lifecycle);
}

/* Contexts are known, so what follows is worth its while. */
static void build(struct start *start)
{
	char why[WHY_BYTES];
	bool holds;
	int error = check_contexts(start, &holds, why);

	if (error == 0)
		error = guest_begin(start->guest, start->spec, why);
	if (error == 0) {
		start->stage = STAGE_BUILDING;
		error = workers_run(start->lifecycle->workers, run_build, built, start);
		if (error < 0)
			snprintf(why, sizeof(why), "guest %s: no thread to build it: %s", start->spec->name,
			         strerror(-error));
	}
	if (error < 0) {
		start->stage = STAGE_WAITING;
		fail(start, error, why);
	}
}

/* ---- entering ---- */

static void enter(struct start *start)
{
	struct lifecycle *lifecycle = start->lifecycle;
	struct definition *definition = start->definition;
	char why[WHY_BYTES];
	bool holds;
	int error = check_contexts(start, &holds, why);

	if (!holds) {
		ask(start);
		return;
	}
	if (error == 0)
		error = guest_enter(start->guest, why);
	if (error < 0) {
		fail(start, error, why);
		return;
	}
	definition->guest = start->guest;
	start->guest = NULL;
	error = definition_launch(lifecycle, definition, start->paused, why);
	if (error < 0) {
		definition_drop_run(lifecycle, definition);
		fail(start, error, why);
		return;
	}
	finish(start);
}

void starts_pump(struct lifecycle *lifecycle)
{
	bool again = !lifecycle->ending;

	while (again) {
		struct start *start = lifecycle->starts;

		while (start && (start->stage != STAGE_WAITING || start->given_up))
			start = start->next;
		again = start != NULL;
		if (start)
			enter(start);
	}
}

/* ---- begin and end ---- */

static void free_start(struct start *start)
{
	struct start **link = &start->lifecycle->starts;

	while (*link != start)
		link = &(*link)->next;
	*link = start->next;
	if (start->guest)
		guest_discard(start->guest);
	manifest_free(start->manifest);
	free(start);
}

static void report(struct start *start)
{
	lifecycle_done_fn *done = start->done;
	struct definition *definition = start->definition;
	void *opaque = start->opaque;
	int error = start->error;
	char why[WHY_BYTES];

	snprintf(why, sizeof(why), "%s", error < 0 ? start->why : "");
	free_start(start);
	if (done)
		done(opaque, definition, error, why);
}

static void on_timer(void *opaque)
{
	struct lifecycle *lifecycle = opaque;
	struct start *start;

	for (start = lifecycle->starts; start; start = start->next)
		if (!start->given_up && start->stage != STAGE_OVER && loop_now() >= start->deadline_ns) {
			start_cancel(lifecycle, start->definition);
			start->error = -ETIMEDOUT;
			snprintf(start->why, sizeof(start->why), "guest %s was not ready to start in time",
			         start->spec->name);
		}
	do {
		for (start = lifecycle->starts; start && start->stage != STAGE_OVER;)
			start = start->next;
		if (start)
			report(start);
	} while (start);
	arm(lifecycle);
}

static struct start *start_create(struct monitor *monitor, struct definition *definition,
                                  char why[static WHY_BYTES])
{
	struct start *start = calloc(1, sizeof(*start));

	if (!start) {
		snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
		return NULL;
	}
	start->lifecycle = monitor->lifecycle;
	start->definition = definition;
	start->manifest = manifest_hold(definition->manifest);
	start->spec = definition->spec;
	start->stage = STAGE_WAITING;
	start->deadline_ns = loop_now() + DEADLINES * monitor->deadline_ns;
	start->next = monitor->lifecycle->starts;
	monitor->lifecycle->starts = start;
	return start;
}

int lifecycle_start(struct monitor *monitor, struct definition *definition, bool paused,
                    lifecycle_done_fn *done, void *opaque, char why[static WHY_BYTES])
{
	struct lifecycle *lifecycle = monitor->lifecycle;
	struct start *start;
	int error;

	if (definition_is_active(definition)) {
		snprintf(why, WHY_BYTES, "guest %s is %s already", definition->name,
		         definition_state_name(definition));
		return -EBUSY;
	}
	if (monitor->kvm_fd < 0 || lifecycle->ending) {
		snprintf(why, WHY_BYTES, "guest %s cannot start: %s", definition->name,
		         lifecycle->ending ? "the monitor ends"
		                           : "this monitor has no KVM; portcullis doctor says why");
		return -ENODEV;
	}
	if (!monitor->posture->policy.server) {
		snprintf(why, WHY_BYTES, "the security server is being started again; try again in a moment");
		return -EAGAIN;
	}
	start = start_create(monitor, definition, why);
	if (!start)
		return -ENOMEM;
	error = guest_outline(monitor, start->spec, &start->guest, why);
	if (error < 0) {
		free_start(start);
		return error;
	}
	note_sids(start);
	start->paused = paused;
	start->done = done;
	start->opaque = opaque;
	lifecycle->timer.fn = on_timer;
	lifecycle->timer.opaque = lifecycle;
	definition_drop_run(lifecycle, definition);
	definition->state = LIFECYCLE_STARTING;
	definition->reason = REASON_NONE;
	definition->since_ns = loop_now();
	ask(start);
	arm(lifecycle);
	return 0;
}

void lifecycle_forget(struct monitor *monitor, void *opaque)
{
	for (struct start *start = monitor->lifecycle->starts; start; start = start->next)
		if (start->opaque == opaque)
			start->done = NULL;
}

void start_cancel(struct lifecycle *lifecycle, struct definition *definition)
{
	struct start *start = lifecycle->starts;

	while (start && (start->definition != definition || start->given_up || start->stage == STAGE_OVER))
		start = start->next;
	if (!start)
		return;
	start->given_up = true;
	start->error = -ECANCELED;
	snprintf(start->why, sizeof(start->why), "guest %s was stopped before it had started",
	         definition->name);
	if (start->stage == STAGE_WAITING)
		finish(start);
	definition_becomes(lifecycle, definition, LIFECYCLE_OFF, EVENT_FAILED, REASON_OPERATOR);
}

void start_orphan(struct lifecycle *lifecycle, const struct definition *definition)
{
	for (struct start *start = lifecycle->starts; start; start = start->next)
		if (start->definition == definition)
			start->definition = NULL;
}

void starts_give_up(struct lifecycle *lifecycle)
{
	for (struct start *start = lifecycle->starts; start; start = start->next) {
		if (start->stage == STAGE_OVER)
			continue;
		start->given_up = true;
		start->definition = NULL;
		start->error = -ECANCELED;
		snprintf(start->why, sizeof(start->why), "the monitor ends");
	}
}

void starts_free(struct lifecycle *lifecycle)
{
	struct start *next;

	for (struct start *start = lifecycle->starts; start; start = next) {
		next = start->next;
		report(start);
	}
	CHECK(!lifecycle->starts); /* nobody starts a guest because another's start was given up */
	loop_disarm(lifecycle->monitor->loop, &lifecycle->timer);
}
