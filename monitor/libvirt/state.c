#include "monitor/libvirt/state.h"

#include <libvirt/libvirt.h>

bool state_is_active(const struct definition *definition)
{
	return definition_is_active(definition) && definition->id >= 0;
}

static int32_t shutoff_reason(const struct definition *definition, const struct note *note)
{
	switch (definition->reason) {
	case REASON_OPERATOR:
		return note && note->destroyed ? VIR_DOMAIN_SHUTOFF_DESTROYED : VIR_DOMAIN_SHUTOFF_SHUTDOWN;
	case REASON_FINISHED:
		return VIR_DOMAIN_SHUTOFF_SHUTDOWN;
	case REASON_CRASHED:
	case REASON_KILLED:
		return VIR_DOMAIN_SHUTOFF_CRASHED;
	case REASON_FAILED:
		return VIR_DOMAIN_SHUTOFF_FAILED;
	case REASON_NONE:
	case REASON_BOOTED:
		break;
	}
	return VIR_DOMAIN_SHUTOFF_UNKNOWN;
}

struct rpc_state state_of(const struct definition *definition, const struct note *note)
{
	bool asked = definition->reason == REASON_OPERATOR;

	switch (definition->state) {
	case LIFECYCLE_RUNNING:
		return (struct rpc_state){VIR_DOMAIN_RUNNING,
		                          asked ? VIR_DOMAIN_RUNNING_UNPAUSED : VIR_DOMAIN_RUNNING_BOOTED};
	case LIFECYCLE_SUSPENDED:
		return (struct rpc_state){VIR_DOMAIN_PAUSED,
		                          asked ? VIR_DOMAIN_PAUSED_USER : VIR_DOMAIN_PAUSED_STARTING_UP};
	case LIFECYCLE_CRASHED:
		return (struct rpc_state){VIR_DOMAIN_CRASHED, definition->reason == REASON_CRASHED
		                                                      ? VIR_DOMAIN_CRASHED_PANICKED
		                                                      : VIR_DOMAIN_CRASHED_UNKNOWN};
	case LIFECYCLE_STARTING:
	case LIFECYCLE_OFF:
		break;
	}
	return (struct rpc_state){VIR_DOMAIN_SHUTOFF, shutoff_reason(definition, note)};
}

int state_events(enum lifecycle_event event, enum lifecycle_reason reason, struct rpc_event events[static 2])
{
	static const struct rpc_event simple[] = {
		[EVENT_DEFINED] = {VIR_DOMAIN_EVENT_DEFINED, VIR_DOMAIN_EVENT_DEFINED_ADDED},
		[EVENT_UNDEFINED] = {VIR_DOMAIN_EVENT_UNDEFINED, VIR_DOMAIN_EVENT_UNDEFINED_REMOVED},
		[EVENT_STARTED] = {VIR_DOMAIN_EVENT_STARTED, VIR_DOMAIN_EVENT_STARTED_BOOTED},
		[EVENT_SUSPENDED] = {VIR_DOMAIN_EVENT_SUSPENDED, VIR_DOMAIN_EVENT_SUSPENDED_PAUSED},
		[EVENT_RESUMED] = {VIR_DOMAIN_EVENT_RESUMED, VIR_DOMAIN_EVENT_RESUMED_UNPAUSED},
		[EVENT_SHUTDOWN] = {VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN},
		[EVENT_DESTROYED] = {VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_DESTROYED},
		[EVENT_CRASHED] = {VIR_DOMAIN_EVENT_CRASHED, VIR_DOMAIN_EVENT_CRASHED_PANICKED},
		[EVENT_KILLED] = {VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_CRASHED},
		[EVENT_FAILED] = {VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_FAILED},
	};
	int n = 0;

	/* As with other drivers a shutdown is first told, then done. */
	if (event == EVENT_SHUTDOWN)
		events[n++] = (struct rpc_event){VIR_DOMAIN_EVENT_SHUTDOWN,
		                                 reason == REASON_FINISHED ? VIR_DOMAIN_EVENT_SHUTDOWN_GUEST
		                                                           : VIR_DOMAIN_EVENT_SHUTDOWN_HOST};
	events[n++] = simple[event];
	return n;
}
