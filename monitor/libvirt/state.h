/*
 * A guest's state, reason and events in libvirt's words. Pure functions; any thread.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_STATE_H
#define PORTCULLIS_MONITOR_LIBVIRT_STATE_H

#include "monitor/libvirt/notes.h"
#include "monitor/lifecycle.h"

struct rpc_state {
	int32_t state;  /* VIR_DOMAIN_... */
	int32_t reason; /* VIR_DOMAIN_RUNNING_..., VIR_DOMAIN_PAUSED_..., ... */
};

/* note may be NULL. */
struct rpc_state state_of(const struct definition *definition, const struct note *note);

struct rpc_event {
	int32_t event;  /* VIR_DOMAIN_EVENT_... */
	int32_t detail; /* VIR_DOMAIN_EVENT_STARTED_..., ... */
};

/* One event of a guest's life is one of libvirt's, or two; returns how many. */
int state_events(enum lifecycle_event event, enum lifecycle_reason reason, struct rpc_event events[static 2]);

/* It has a run with an id; one that has crashed has none, so that `virsh start` starts it anew. */
bool state_is_active(const struct definition *definition);

#endif
