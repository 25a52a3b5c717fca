#include <errno.h>
#include <string.h>

#include "monitor/audit.h"
#include "monitor/bells.h"
#include "monitor/change_internal.h"
#include "monitor/commit.h"
#include "monitor/guest.h"
#include "monitor/loop.h"
#include "monitor/port.h"
#include "monitor/registry.h"
#include "vmm/stop.h"
#include "vmm/window.h"

struct stopped {
	struct machine *machine[MAX_GUESTS];
	struct guest *guest[MAX_GUESTS];
	bool late[MAX_GUESTS];
	size_t n;
};

/* Whom the stop mode names; nobody if the plan cuts nothing. */
static struct stopped choose(struct change *change)
{
	struct registry *registry = registry_lock(change->monitor);
	struct stopped chosen = {.n = 0};

	for (uint32_t g = 0; g < registry->n_guests && change->plan.n_cuts; g++) {
		struct guest *guest = registry->guests[g];
		bool affected = change->plan.guests & 1ull << guest->index;

		if (guest->lost || change->stop == STOP_NONE || (change->stop == STOP_AFFECTED && !affected))
			continue;
		chosen.machine[chosen.n] = guest->machine;
		chosen.guest[chosen.n++] = guest;
	}
	registry_unlock(registry);
	return chosen;
}

static void lose_late(struct registry *registry, const struct stopped *stopped, const char *why)
{
	for (size_t i = 0; i < stopped->n; i++)
		if (stopped->late[i])
			guest_lose(registry, stopped->guest[i], why);
}

/* Guests that were lost on the way take their channels along before anything runs again. */
static uint64_t reap(struct registry *registry)
{
	uint64_t killed = 0;

	for (uint32_t g = 0; g < registry->n_guests; g++) {
		struct guest *guest = registry->guests[g];

		if (!guest->lost || guest->ended || machine_state(guest->machine) != MACHINE_KILLED)
			continue;
		guest_reap(registry, guest);
		killed |= 1ull << guest->index;
	}
	return killed;
}

static void resume(struct change *change, struct stopped *stopped)
{
	char why[WHY_BYTES];
	size_t n = 0;

	for (size_t i = 0; i < stopped->n; i++)
		if (!stopped->guest[i]->lost)
			stopped->machine[n++] = stopped->machine[i];
	if (n && resume_machines(stopped->machine, n, loop_now() + change->monitor->deadline_ns, why) < 0)
		audit_notice(change->monitor->audit, "PORTCULLIS_LATE", "%s", why);
}

static void open_gate(struct change *change)
{
	struct registry *registry = registry_lock(change->monitor);

	registry_open_gate(registry);
	registry_unlock(registry);
	change->gate_closed = false;
}

static void carry_out(struct change *change, struct commit *commit)
{
	struct monitor *monitor = change->monitor;
	struct change_times *times = &change->outcome.times;
	struct stopped stopped = choose(change);
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
	open_gate(change);
	times->t3 = loop_now();
	bells_settle(monitor); /* once the report is given, nobody rings whom it has cut off */
}

static void outcome_init(struct change *change)
{
	struct posture *posture = change->monitor->posture;

	change->outcome.change = change_kind_name(change->proposal.kind);
	change->outcome.planned = change->plan_only;
	change->outcome.previous = posture->policy_number;
	change->outcome.policy_number = posture->policy_number + !change->plan_only;
	change->outcome.stop = change->stop;
	change->outcome.enforcing = change->proposal.enforcing;
	change->outcome.plan = &change->plan;
	change->outcome.reasons = change->reasons;
}

static void put_in_force(struct change *change)
{
	struct posture *posture = change->monitor->posture;
	struct commit commit = {
		.plan = &change->plan,
		.proposal = &change->proposal,
		.decisions = change->decisions,
		.policy_number = posture->policy_number + 1,
		.known = change->known,
		.n_known = change->n_known,
		.operator_sid = change->operator_sid,
		.candidate = change->has_candidate ? &change->load.policy : NULL,
		.old.image_fd = -1,
	};
	struct settings settings = posture->settings;

	if (change->has_candidate) {
		watch_end(&change->watch);
		watch_end(&posture->watch);
	}
	carry_out(change, &commit);
	ports_follow(change->monitor);
	change->old = commit.old;
	posture->settings = change->settings;
	change->settings = settings;
	if (change->has_candidate)
		posture_watch(change->monitor);
}

/* What the commit moved out of windows is freed now that guests run and the caller has its answer. */
static void discard(struct monitor *monitor)
{
	struct guest *guests[MAX_GUESTS];
	struct registry *registry = registry_lock(monitor);
	uint32_t n = registry->n_guests;

	for (uint32_t g = 0; g < n; g++) {
		guests[g] = registry->guests[g];
		guests[g]->n_refs++;
	}
	registry_unlock(registry);
	for (uint32_t g = 0; g < n; g++)
		window_discard(guests[g]->machine);
	registry = registry_lock(monitor);
	for (uint32_t g = 0; g < n; g++)
		guest_release(guests[g]);
	registry_unlock(registry);
}

void execute(struct change *change)
{
	struct monitor *monitor = change->monitor;
	change_done_fn *done = change->done;
	void *opaque = change->opaque;
	json_t *report;
	int status;

	outcome_init(change);
	if (change->planned)
		change->planned(change->planned_opaque);
	if (change->plan_only) {
		change->outcome.times = (struct change_times){0};
	} else {
		put_in_force(change);
		change->outcome.times.t4 = loop_now();
	}
	report = report_json(monitor, &change->outcome);
	if (!change->plan_only)
		report_audit(monitor, &change->outcome);
	status = change->outcome.killed ? -EOWNERDEAD : 0;
	change_release(change);
	done(opaque, report ? status : -ENOMEM, report, report ? "" : strerror(ENOMEM));
	discard(monitor);
}
