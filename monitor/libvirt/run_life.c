/*
 * Suspend, resume, shut down, destroy, start, reboot, undefine.
 */
#include <errno.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/libvirt/server.h"
#include "monitor/libvirt/state.h"

/* What lifecycle.h does at once, and gives 0 or -errno for. */
typedef int life_fn(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES]);

static void run_life(struct rpc_call *call, life_fn *life, int ignored)
{
	struct definition *definition = call_definition(call);
	char why[WHY_BYTES] = "";
	int error;

	if (!definition)
		return;
	error = life(call->monitor, definition, why);
	if (error < 0 && error != ignored)
		call_fail_lifecycle(call, error, why);
	else
		call_done(call);
}

/* Suspending what is suspended is no error, as with libvirt's other drivers; resuming what runs is one. */
void run_suspend(struct rpc_call *call)
{
	run_life(call, lifecycle_suspend, -EALREADY);
}

void run_resume(struct rpc_call *call)
{
	run_life(call, lifecycle_resume, 0);
}

void run_shutdown(struct rpc_call *call)
{
	run_life(call, lifecycle_shutdown, 0);
}

void run_destroy(struct rpc_call *call)
{
	run_life(call, lifecycle_destroy, 0);
}

/* As a client of libvirt's would put it: our own verbs mean nothing to virsh. */
static int undefine(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES])
{
	if (!definition_is_active(definition))
		return lifecycle_undefine(monitor, definition, why);
	snprintf(why, WHY_BYTES,
	         "cannot undefine domain '%s' while it is active (%s): shut it down or destroy it first",
	         definition->name, definition_state_name(definition));
	return -EBUSY;
}

void run_undefine(struct rpc_call *call)
{
	run_life(call, undefine, 0);
}

/* ---- start ---- */

static void put_definition(struct xdr_writer *out, const struct definition *definition)
{
	struct rpc_domain domain = domain_of(definition);

	frame_put_domain(out, &domain);
}

static void on_started(void *opaque, struct definition *definition, int error, const char *why)
{
	struct rpc_call *call = opaque;

	call->starting = false;
	if (error == 0 && !definition)
		call_fail(call, VIR_ERR_NO_DOMAIN, "it was undefined meanwhile");
	else if (error < 0)
		call_fail_lifecycle(call, error, why);
	else if (call->entry->number == PROC_DOMAIN_CREATE) /* the oldest form answers nothing */
		call_done(call);
	else {
		put_definition(call_reply(call), definition);
		call_end(call);
	}
}

static void start(struct rpc_call *call, struct definition *definition, bool paused, lifecycle_done_fn *done)
{
	char why[WHY_BYTES] = "";
	int error = lifecycle_start(call->monitor, definition, paused, done, call, why);

	if (error == 0) {
		call->starting = true;
		return;
	}
	if (!definition->persistent && !definition_is_active(definition)) {
		char ignored[WHY_BYTES];

		lifecycle_undefine(call->monitor, definition, ignored); /* it was made for this run */
	}
	call_fail_lifecycle(call, error, why);
}

void call_start(struct rpc_call *call, struct definition *definition, uint32_t flags)
{
	start(call, definition, flags & VIR_DOMAIN_START_PAUSED, on_started);
}

void run_create(struct rpc_call *call)
{
	struct definition *definition = call_definition(call);

	if (definition)
		call_start(call, definition, 0);
}

void run_create_flags(struct rpc_call *call)
{
	struct definition *definition = call_definition(call);
	uint32_t flags = call->arguments.number[0];

	if (!definition)
		return;
	if (flags & VIR_DOMAIN_START_AUTODESTROY)
		call_fail(call, VIR_ERR_ARGUMENT_UNSUPPORTED,
		          "a guest does not end with the client that started it");
	else
		call_start(call, definition, flags);
}

/* ---- reboot ---- */

static void on_rebooted(void *opaque, struct definition *definition, int error, const char *why)
{
	struct rpc_call *call = opaque;

	call->starting = false;
	if (error < 0) {
		call_fail_lifecycle(call, error, why);
		return;
	}
	if (definition)
		events_rebooted(call->server, definition);
	call_done(call);
}

/* A run that ends, and another. A definition that would go with its run has to be defined again by whoever
 * made it. */
void run_reboot(struct rpc_call *call)
{
	struct definition *definition = call_definition(call);
	char why[WHY_BYTES] = "";
	int error;

	if (!definition)
		return;
	if (!definition->persistent) {
		call_fail(call, VIR_ERR_OPERATION_INVALID,
		          "guest %s is transient: it would be gone with its run; define it first",
		          definition->name);
		return;
	}
	error = lifecycle_shutdown(call->monitor, definition, why);
	if (error < 0)
		call_fail_lifecycle(call, error, why);
	else
		start(call, definition, false, on_rebooted);
}
