/*
 * The life of guests as the monitor itself begins and ends it, who hears of it, and its words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/guest.h"
#include "monitor/lifecycle_internal.h"
#include "monitor/workers.h"

/* ---- words ---- */

static const char *name_in(const char *const *names, size_t n, unsigned i)
{
	return i < n ? names[i] : "?";
}
#define NAME_IN(names, i) name_in(names, sizeof(names) / sizeof((names)[0]), (unsigned)(i))

const char *definition_state_name(const struct definition *definition)
{
	static const char *const names[] = {
		[LIFECYCLE_OFF] = "stopped",     [LIFECYCLE_STARTING] = "starting",
		[LIFECYCLE_RUNNING] = "running", [LIFECYCLE_SUSPENDED] = "suspended",
		[LIFECYCLE_CRASHED] = "crashed",
	};

	if (definition->state == LIFECYCLE_OFF && definition->reason == REASON_KILLED)
		return "killed";
	return NAME_IN(names, definition->state);
}

const char *lifecycle_reason_name(enum lifecycle_reason reason)
{
	static const char *const names[] = {
		[REASON_NONE] = "none",         [REASON_BOOTED] = "booted",   [REASON_OPERATOR] = "operator",
		[REASON_FINISHED] = "finished", [REASON_CRASHED] = "crashed", [REASON_KILLED] = "killed",
		[REASON_FAILED] = "failed",
	};

	return NAME_IN(names, reason);
}

const char *lifecycle_event_name(enum lifecycle_event event)
{
	static const char *const names[] = {
		[EVENT_DEFINED] = "defined",     [EVENT_UNDEFINED] = "undefined",
		[EVENT_STARTED] = "started",     [EVENT_SUSPENDED] = "suspended",
		[EVENT_RESUMED] = "resumed",     [EVENT_SHUTDOWN] = "shutdown",
		[EVENT_DESTROYED] = "destroyed", [EVENT_CRASHED] = "crashed",
		[EVENT_KILLED] = "killed",       [EVENT_FAILED] = "failed",
	};

	return NAME_IN(names, event);
}

/* ---- listeners ---- */

void lifecycle_listen(struct monitor *monitor, struct lifecycle_listener *listener)
{
	struct lifecycle_listener **link = &monitor->lifecycle->listeners;

	while (*link)
		link = &(*link)->next;
	listener->next = NULL;
	*link = listener;
}

void lifecycle_unlisten(struct monitor *monitor, struct lifecycle_listener *listener)
{
	struct lifecycle_listener **link = &monitor->lifecycle->listeners;

	while (*link && *link != listener)
		link = &(*link)->next;
	if (*link)
		*link = listener->next;
}

/* ---- begin and end ---- */

struct lifecycle *lifecycle_create(struct monitor *monitor)
{
	struct lifecycle *lifecycle = calloc(1, sizeof(*lifecycle));

	if (!lifecycle)
		return NULL;
	lifecycle->monitor = monitor;
	lifecycle->workers = workers_create(monitor->loop);
	if (!lifecycle->workers) {
		free(lifecycle);
		return NULL;
	}
	uuid_host(lifecycle->host);
	return lifecycle;
}

int lifecycle_launch(struct monitor *monitor, char why[static WHY_BYTES])
{
	struct lifecycle *lifecycle = monitor->lifecycle;
	int error = 0;

	for (struct definition *definition = lifecycle->first; definition && error == 0;
	     definition = definition->next)
		if (definition->state == LIFECYCLE_STARTING && definition->guest)
			error = definition_launch(lifecycle, definition, false, why);
	return error;
}

void lifecycle_end(struct monitor *monitor)
{
	struct lifecycle *lifecycle = monitor->lifecycle;

	if (!lifecycle)
		return;
	lifecycle->ending = true;
	lifecycle->listeners = NULL;
	starts_give_up(lifecycle);
}

void lifecycle_free(struct monitor *monitor)
{
	struct lifecycle *lifecycle = monitor->lifecycle;
	struct definition *definition;

	if (!lifecycle)
		return;
	workers_destroy(lifecycle->workers);
	boots_free(lifecycle);
	starts_free(lifecycle);
	while ((definition = lifecycle->first)) {
		lifecycle->first = definition->next;
		manifest_free(definition->manifest);
		free(definition);
	}
	free(lifecycle);
	monitor->lifecycle = NULL;
}
