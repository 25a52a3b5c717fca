/*
 * What lifecycle.c (definitions, suspending, ends) and lifecycle_start.c (starts) share. Loop thread.
 */
#ifndef PORTCULLIS_MONITOR_LIFECYCLE_INTERNAL_H
#define PORTCULLIS_MONITOR_LIFECYCLE_INTERNAL_H

#include "monitor/lifecycle.h"
#include "monitor/loop.h"

struct boot;
struct start;
struct workers;

struct lifecycle {
	struct monitor *monitor;
	struct definition *first;
	uint32_t n_definitions;
	struct lifecycle_listener *listeners;
	struct boot *boots;      /* guests that the monitor begins with, until they are entered */
	bool boots_incomplete;   /* there was no memory to begin with the next one */
	struct start *starts;    /* under way, or over and not reported yet */
	struct loop_timer timer; /* the nearest deadline of a start, or one to report */
	struct workers *workers;
	int exit_status; /* of runs that are no more */
	bool ending;     /* the monitor: nothing starts any more */
	char host[HOST_ID_BYTES];
};

/* The definition's state changes, and listeners hear of it. A definition that is not persistent goes with its
 * run. */
void definition_becomes(struct lifecycle *lifecycle, struct definition *definition,
                        enum lifecycle_state state, enum lifecycle_event event, enum lifecycle_reason reason);

/* Its run, if there is one, leaves the registry: now, or when the change that is under way has ended. */
void definition_drop_run(struct lifecycle *lifecycle, struct definition *definition);

/* The built guest is the definition's run from now on: it is let go, or stays before its first instruction.
 */
int definition_launch(struct lifecycle *lifecycle, struct definition *definition, bool paused,
                      char why[static WHY_BYTES]);

/* Gives up the start of the definition, whose caller hears -ECANCELED. */
void start_cancel(struct lifecycle *lifecycle, struct definition *definition);

/* The definition is no more. */
void start_orphan(struct lifecycle *lifecycle, const struct definition *definition);

/* Lets in what has waited for the end of a change. */
void starts_pump(struct lifecycle *lifecycle);

/* Gives up guests that were never entered; their builders have ended. */
void boots_free(struct lifecycle *lifecycle);

/* The monitor ends: callers hear -ECANCELED. In two steps, between which the security server falls
 * silent. */
void starts_give_up(struct lifecycle *lifecycle);
void starts_free(struct lifecycle *lifecycle);

#endif
