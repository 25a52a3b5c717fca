/*
 * What clients ask of one guest.
 */
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/guest.h"
#include "monitor/libvirt/domain_xml.h"
#include "monitor/libvirt/server.h"
#include "monitor/libvirt/state.h"
#include "monitor/posture.h"
#include "vmm/machine.h"

static const struct note *note_of(struct rpc_call *call, const struct definition *definition)
{
	return notes_find(call->server->notes, definition->uuid);
}

static uint64_t cpu_ns(const struct definition *definition)
{
	uint64_t ns = 0;

	for (uint32_t v = 0; definition->guest && v < definition->guest->n_vcpus; v++)
		ns += machine_cpu_ns(definition->guest->machine, v);
	return ns;
}

void run_info(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);
	struct xdr_writer *out;

	if (!definition)
		return;
	out = call_reply(call);
	xdr_put_i32(out, state_of(definition, NULL).state);
	xdr_put_u64(out, definition_memory_kib(definition));
	xdr_put_u64(out, definition_memory_kib(definition));
	xdr_put_u32(out, definition_vcpus(definition));
	xdr_put_u64(out, state_is_active(definition) ? cpu_ns(definition) : 0);
	call_end(call);
}

void run_state(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);
	struct rpc_state state;
	struct xdr_writer *out;

	if (!definition)
		return;
	state = state_of(definition, note_of(call, definition));
	out = call_reply(call);
	xdr_put_i32(out, state.state);
	xdr_put_i32(out, state.reason);
	call_end(call);
}

void run_control_info(struct rpc_call *call)
{
	struct xdr_writer *out;

	if (!call_definition(call))
		return;
	out = call_reply(call);
	xdr_put_u32(out, VIR_DOMAIN_CONTROL_OK);
	xdr_put_u32(out, 0);
	xdr_put_u64(out, 0);
	call_end(call);
}

void run_xml(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);
	struct text xml = {0};

	if (!definition)
		return;
	domain_xml_put(&xml, call->monitor, definition, note_of(call, definition),
	               call->arguments.number[0] & VIR_DOMAIN_XML_INACTIVE);
	if (xml.bad) {
		call_fail(call, VIR_ERR_NO_MEMORY, "out of memory");
	} else {
		xdr_put_text(call_reply(call), xml.string);
		call_end(call);
	}
	free(xml.string);
}

static void reply_i32(struct rpc_call *call, int32_t value)
{
	xdr_put_i32(call_reply(call), value);
	call_end(call);
}

void run_os_type(struct rpc_call *call)
{
	if (!call_definition(call))
		return;
	xdr_put_text(call_reply(call), "portcullis");
	call_end(call);
}

void run_max_memory(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);

	if (!definition)
		return;
	xdr_put_u64(call_reply(call), definition_memory_kib(definition));
	call_end(call);
}

void run_max_vcpus(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);

	if (definition)
		reply_i32(call, (int32_t)definition_vcpus(definition));
}

/* False: it has failed. */
static bool must_run(struct rpc_call *call, const struct definition *definition)
{
	if (state_is_active(definition) && definition->guest)
		return true;
	call_fail(call, VIR_ERR_OPERATION_INVALID, "guest %s does not run", definition->name);
	return false;
}

void run_vcpus_flags(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);
	uint32_t flags = call->arguments.number[0];

	if (!definition)
		return;
	if (flags & VIR_DOMAIN_VCPU_GUEST)
		call_fail(call, VIR_ERR_NO_SUPPORT, "there is no agent in a Portcullis guest");
	else if (!(flags & VIR_DOMAIN_AFFECT_LIVE) || must_run(call, definition))
		reply_i32(call, (int32_t)definition_vcpus(definition));
}

#define MAX_MAP_BYTES 64u

/* Where it may run: anywhere that this process may. One map behind the other. */
static void put_cpu_maps(struct xdr_writer *out, uint32_t n_maps, uint32_t map_bytes)
{
	uint8_t maps[MAX_VCPUS * MAX_MAP_BYTES] = {0};
	uint32_t n_cpus = (uint32_t)domain_xml_n_cpus();

	for (uint32_t i = 0; i < n_maps; i++)
		for (uint32_t cpu = 0; cpu < n_cpus && cpu / 8 < map_bytes; cpu++)
			maps[i * map_bytes + cpu / 8] |= (uint8_t)(1u << cpu % 8);
	xdr_put_bytes(out, maps, (size_t)n_maps * map_bytes);
}

void run_vcpus(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);
	uint32_t most = call->arguments.number[0], map_bytes = call->arguments.number[1];
	struct xdr_writer *out;
	uint32_t n;

	if (!definition || !must_run(call, definition))
		return;
	if (map_bytes > MAX_MAP_BYTES) {
		call_fail(call, VIR_ERR_INVALID_ARG, "a map of processors has at most %u bytes",
		          MAX_MAP_BYTES);
		return;
	}
	n = definition->guest->n_vcpus < most ? definition->guest->n_vcpus : most;
	out = call_reply(call);
	xdr_put_u32(out, n);
	for (uint32_t v = 0; v < n; v++) {
		xdr_put_u32(out, v);
		xdr_put_i32(out,
		            definition->state == LIFECYCLE_RUNNING ? VIR_VCPU_RUNNING : VIR_VCPU_BLOCKED);
		xdr_put_u64(out, machine_cpu_ns(definition->guest->machine, v));
		xdr_put_i32(out, -1); /* which processor it was on last is not known */
	}
	put_cpu_maps(out, n, map_bytes);
	call_end(call);
}

void run_zero(struct rpc_call *call)
{
	if (call_definition(call))
		reply_i32(call, 0);
}

void run_is_active(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);

	if (definition)
		reply_i32(call, state_is_active(definition));
}

void run_is_persistent(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);

	if (definition)
		reply_i32(call, definition->persistent);
}

/* ---- labels ---- */

/* One text for all domains of the guest, each context once, as many as fit. */
static void all_labels(struct rpc_call *call, const struct definition *definition,
                       char label[static VIR_SECURITY_LABEL_BUFLEN])
{
	size_t n = 0;

	*label = '\0';
	for (uint32_t d = 0; d < definition_domains(definition); d++) {
		const char *context = definition_context(call->monitor, definition, d);
		size_t length = strlen(context);
		bool known = false;

		for (uint32_t before = 0; before < d && !known; before++)
			known = strcmp(context, definition_context(call->monitor, definition, before)) == 0;
		if (known || n + length + 2 > VIR_SECURITY_LABEL_BUFLEN)
			continue;
		n += (size_t)snprintf(label + n, VIR_SECURITY_LABEL_BUFLEN - n, "%s%s", n ? " " : "",
		                      context);
	}
}

static void put_label(struct xdr_writer *out, struct rpc_call *call, const char *label)
{
	xdr_put_char_list(out, label);
	xdr_put_i32(out, call->monitor->posture->enforcing);
}

void run_security_label(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);
	char label[VIR_SECURITY_LABEL_BUFLEN];

	if (!definition)
		return;
	all_labels(call, definition, label);
	put_label(call_reply(call), call, label);
	call_end(call);
}

void run_security_label_list(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);
	struct xdr_writer *out;
	uint32_t n;

	if (!definition)
		return;
	n = definition_domains(definition);
	out = call_reply(call);
	xdr_put_u32(out, n);
	for (uint32_t d = 0; d < n; d++)
		put_label(out, call, definition_context(call->monitor, definition, d));
	xdr_put_i32(out, (int32_t)n);
	call_end(call);
}

/* Warnings about a guest's configuration: there are none. */
void run_messages(struct rpc_call *call)
{
	if (!call_definition(call))
		return;
	xdr_put_u32(call_reply(call), 0);
	call_end(call);
}

void run_memory_stats(struct rpc_call *call)
{
	static const int32_t tags[] = {VIR_DOMAIN_MEMORY_STAT_ACTUAL_BALLOON,
	                               VIR_DOMAIN_MEMORY_STAT_AVAILABLE};
	const struct definition *definition = call_definition(call);
	uint32_t most = call->arguments.number[0];
	struct xdr_writer *out;
	uint32_t n = most < 2 ? most : 2;

	if (!definition || !must_run(call, definition))
		return;
	out = call_reply(call);
	xdr_put_u32(out, n);
	for (uint32_t i = 0; i < n; i++) {
		xdr_put_i32(out, tags[i]);
		xdr_put_u64(out, definition_memory_kib(definition));
	}
	call_end(call);
}
