#include "monitor/change.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/audit.h"
#include "monitor/change_internal.h"
#include "monitor/lifecycle.h"
#include "monitor/loop.h"
#include "monitor/mediation.h"
#include "monitor/registry.h"

void change_release(struct change *change)
{
	struct monitor *monitor = change->monitor;
	struct registry *registry;

	watch_end(&change->watch);
	loop_disarm(monitor->loop, &change->soon);
	policy_release(&change->load.policy);
	policy_release(&change->old);
	registry = registry_lock(monitor);
	if (change->gate_closed)
		registry_open_gate(registry);
	if (change->pinned)
		registry_unpin(registry);
	registry_unlock(registry);
	monitor->change = NULL;
	mediation_pump(monitor);
	plan_free(&change->plan);
	reasons_destroy(change->reasons);
	decisions_destroy(change->decisions);
	settings_clear(&change->settings);
	free(change->load.why);
	free(change->boolean);
	free(change->why);
	free(change->known);
	free(change);
	lifecycle_change_ended(monitor);
}

void change_fail(struct change *change, int status, const char *why)
{
	change_done_fn *done = change->done;
	void *opaque = change->opaque;
	char *text = strdup(why);

	/* The first line says it; a policy's further errors are the caller's to read. */
	if (!change->plan_only)
		audit_notice(change->monitor->audit, "PORTCULLIS_REFUSED", "change=%s: %.*s",
		             change_kind_name(change->proposal.kind), (int)strcspn(why, "\n"), why);
	change_release(change);
	done(opaque, status, NULL, text ? text : strerror(ENOMEM));
	free(text);
}

/* The domain of that name; NULL and why. */
static struct domain *find_domain(struct registry *registry, const char *guest_name, const char *name,
                                  char why[static WHY_BYTES])
{
	for (uint32_t g = 0; g < registry->n_guests; g++) {
		struct guest *guest = registry->guests[g];

		if (guest_name && strcmp(guest->name, guest_name) != 0)
			continue;
		for (uint32_t d = 0; d < guest->n_domains; d++)
			if (strcmp(guest->domains[d].name, name) == 0)
				return &guest->domains[d];
	}
	snprintf(why, WHY_BYTES, "there is no domain %s%s%s; see portcullis domain list",
	         guest_name ? guest_name : "", guest_name ? "/" : "", name);
	return NULL;
}

static int find_channel(struct registry *registry, uint64_t number, char why[static WHY_BYTES])
{
	for (struct channel *channel = registry->first; channel; channel = channel->next)
		if (channel->number == number)
			return 0;
	snprintf(why, WHY_BYTES, "there is no channel %llu; see portcullis channel list",
	         (unsigned long long)number);
	return -ENOENT;
}

/* A word that means nobody would be a revoke that takes nothing back, and looks like one that did. */
static bool means_somebody(const struct sid_table *sids, const char *side)
{
	for (policy_sid sid = 1; sid <= sid_count(sids); sid++)
		if (overlay_side_matches(side, sid_context(sids, sid)))
			return true;
	return false;
}

static int check_sides(const struct sid_table *sids, const struct change_request *request,
                       char why[static WHY_BYTES])
{
	const char *nobody = NULL;

	if (request->force || request->operation != OVERLAY_REVOKE)
		return 0;
	if (!means_somebody(sids, request->rule.source))
		nobody = request->rule.source;
	else if (!means_somebody(sids, request->rule.target))
		nobody = request->rule.target;
	if (!nobody)
		return 0;
	snprintf(why, WHY_BYTES,
	         "nobody here has the type or context \"%s\"; --force revokes it for whoever comes", nobody);
	return -ENOENT;
}

static int propose_overlay(struct overlay *overlay, const struct change_request *request,
                           char why[static WHY_BYTES])
{
	int error = 0;

	if (request->operation == OVERLAY_RESET)
		overlay->n_rules = 0;
	else if (request->operation == OVERLAY_REVOKE)
		error = overlay_revoke(overlay, &request->rule);
	else
		error = overlay_grant(overlay, &request->rule);
	if (error == -ENOENT)
		snprintf(why, WHY_BYTES,
		         "nothing of that was revoked, and grant only ends a revoke; see portcullis policy "
		         "show");
	if (error == -ENOSPC)
		snprintf(why, WHY_BYTES,
		         "%u revokes are in force already; a pushed policy says more with less",
		         MAX_OVERLAY_RULES);
	return error;
}

/* Fills in what the request proposes; it names things that exist, or -ENOENT and why. */
static int propose(struct change *change, const struct change_request *request, char why[static WHY_BYTES])
{
	struct posture *posture = change->monitor->posture;
	struct proposal *proposal = &change->proposal;
	struct registry *registry = registry_lock(change->monitor);
	int error = 0;

	*proposal = (struct proposal){.kind = request->kind, .enforcing = posture->enforcing};
	proposal->overlay = posture->overlay;
	proposal->channel = request->channel;
	switch (request->kind) {
	case CHANGE_ENFORCING:
		proposal->enforcing = request->value;
		break;
	case CHANGE_OVERLAY:
		error = check_sides(posture->sids, request, why);
		if (error == 0)
			error = propose_overlay(&proposal->overlay, request, why);
		break;
	case CHANGE_RELABEL:
	case CHANGE_QUARANTINE:
	case CHANGE_RELEASE:
		proposal->domain = find_domain(registry, request->guest, request->domain, why);
		error = proposal->domain ? 0 : -ENOENT;
		break;
	case CHANGE_CUT:
		error = find_channel(registry, request->channel, why);
		break;
	default:
		break;
	}
	if (error == 0 && request->kind == CHANGE_RELABEL) {
		error = sid_intern(posture->sids, request->context, &proposal->sid);
		if (error < 0)
			snprintf(why, WHY_BYTES,
			         "\"%.128s\" is no security context: expected user:role:type:level",
			         request->context);
	}
	registry_unlock(registry);
	return error;
}

static struct change *change_create(struct monitor *monitor, const struct change_request *request)
{
	struct change *change = calloc(1, sizeof(*change));

	if (!change)
		return NULL;
	change->monitor = monitor;
	change->plan_only = request->plan_only;
	change->force = request->force;
	change->stop = request->stop;
	change->author = request->author;
	change->planned = request->planned;
	change->planned_opaque = request->planned_opaque;
	change->old.image_fd = -1;
	change->load.policy.image_fd = -1;
	change->operator_sid = monitor->posture->operator_sid;
	change->outcome.times.begun = loop_now();
	change->deadline_ns = change->outcome.times.begun + monitor->deadline_ns;
	change->boolean = request->boolean ? strdup(request->boolean) : NULL;
	change->decisions = decisions_create();
	return change;
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
	change = change_create(monitor, request);
	if (!change)
		return -ENOMEM;
	change->done = done;
	change->opaque = opaque;
	error = change->decisions ? propose(change, request, why) : -ENOMEM;
	if (error == 0)
		error = settings_copy(&change->settings, &monitor->posture->settings);
	if (error == 0)
		error = prepare_begin(change, request, why);
	if (error < 0) {
		change_release(change);
		return error;
	}
	monitor->change = change;
	return 0;
}

void change_abandon(struct monitor *monitor, const void *opaque)
{
	struct change *change = monitor->change;

	if (!change || change->opaque != opaque)
		return;
	/* The server in force goes on and its answers point here. A candidate ends with the change. */
	change->abandoned = true;
	if (change->has_candidate)
		change_release(change);
}

void change_drop(struct monitor *monitor)
{
	if (monitor->change)
		change_release(monitor->change);
}

void change_answers(struct monitor *monitor)
{
	if (monitor->change && !monitor->change->has_candidate)
		prepare_step(monitor->change);
}
