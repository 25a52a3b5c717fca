/*
 * Statistics of guests: what libvirt has names for, and ours as "portcullis.*".
 */
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdio.h>
#include <string.h>

#include "monitor/channel.h"
#include "monitor/guest.h"
#include "monitor/libvirt/domain_xml.h"
#include "monitor/libvirt/filter.h"
#include "monitor/libvirt/server.h"
#include "monitor/libvirt/state.h"
#include "monitor/posture.h"
#include "vmm/machine.h"
#include "vmm/stop.h"

struct channel_totals {
	uint64_t open, flows_open, flows_cut, sent, sent_bytes, received, received_bytes;
};

/* The parameters of one guest: counted as they are put, and the number is patched in. */
struct put {
	struct xdr_writer *out;
	struct monitor *monitor;
	const struct definition *definition;
	const struct guest *guest; /* NULL: it does not run */
	const struct note *note;
	const struct channel_totals *totals; /* by the guest's index */
	size_t count_at;
	uint32_t n;
};

static void put_number(struct put *put, const char *field, uint64_t value)
{
	frame_put_ullong(put->out, field, value);
	put->n++;
}

static void put_int(struct put *put, const char *field, int32_t value)
{
	frame_put_int(put->out, field, value);
	put->n++;
}

static void put_uint(struct put *put, const char *field, uint32_t value)
{
	frame_put_uint(put->out, field, value);
	put->n++;
}

static void put_state(struct put *put)
{
	struct rpc_state state = state_of(put->definition, put->note);

	put_int(put, "state.state", state.state);
	put_int(put, "state.reason", state.reason);
}

static void put_cpu(struct put *put)
{
	uint64_t ns = 0;

	for (uint32_t v = 0; put->guest && v < put->guest->n_vcpus; v++)
		ns += machine_cpu_ns(put->guest->machine, v);
	if (put->guest)
		put_number(put, "cpu.time", ns);
}

static void put_balloon(struct put *put)
{
	put_number(put, "balloon.current", definition_memory_kib(put->definition));
	put_number(put, "balloon.maximum", definition_memory_kib(put->definition));
}

static void put_vcpus(struct put *put)
{
	int32_t state = put->definition->state == LIFECYCLE_RUNNING ? VIR_VCPU_RUNNING : VIR_VCPU_BLOCKED;
	char field[64];

	put_uint(put, "vcpu.current", definition_vcpus(put->definition));
	put_uint(put, "vcpu.maximum", definition_vcpus(put->definition));
	for (uint32_t v = 0; put->guest && v < put->guest->n_vcpus; v++) {
		snprintf(field, sizeof(field), "vcpu.%u.state", v);
		put_int(put, field, state);
		snprintf(field, sizeof(field), "vcpu.%u.time", v);
		put_number(put, field, machine_cpu_ns(put->guest->machine, v));
	}
}

/* ---- ours ---- */

/* A guest that has gone has no index any more: what its peers still hold counts for them alone. */
static struct channel_totals *totals_of(struct channel_totals *totals, const struct channel *channel,
                                        enum channel_side side)
{
	const struct guest *guest = channel->end[side].domain->guest;

	return &totals[guest->gone ? MAX_GUESTS : guest->index];
}

static void count_flow(struct channel_totals *totals, struct channel *channel, enum channel_side from)
{
	enum channel_side to = from == SIDE_CLIENT ? SIDE_SERVER : SIDE_CLIENT;
	struct channel_totals *sender = totals_of(totals, channel, from);
	struct channel_totals *receiver = totals_of(totals, channel, to);
	const struct flow *flow = &channel->flow[from];
	const struct flow_count *count = &channel->count[from];

	channel_count(channel, from);
	sender->sent += count->messages;
	sender->sent_bytes += count->bytes;
	sender->flows_open += flow->state == FLOW_OPEN;
	sender->flows_cut += flow->state == FLOW_CUT;
	receiver->received += count->messages;
	receiver->received_bytes += count->bytes;
	if (receiver == sender)
		return;
	receiver->flows_open += flow->state == FLOW_OPEN;
	receiver->flows_cut += flow->state == FLOW_CUT;
}

/* All guests' in one pass: there may be thousands of channels, and exits wait for this lock. */
static void count_channels(struct monitor *monitor, struct channel_totals totals[static MAX_GUESTS + 1])
{
	struct registry *registry = registry_lock(monitor);

	for (struct channel *channel = registry->first; channel; channel = channel->next) {
		struct channel_totals *client = totals_of(totals, channel, SIDE_CLIENT);
		struct channel_totals *server = totals_of(totals, channel, SIDE_SERVER);

		client->open++;
		if (server != client)
			server->open++;
		count_flow(totals, channel, SIDE_CLIENT);
		count_flow(totals, channel, SIDE_SERVER);
	}
	registry_unlock(registry);
}

static void put_channels(struct put *put)
{
	const struct channel_totals *totals = &put->totals[put->guest->index];

	put_number(put, "portcullis.channel.count", totals->open);
	put_number(put, "portcullis.channel.flows_open", totals->flows_open);
	put_number(put, "portcullis.channel.flows_cut", totals->flows_cut);
	put_number(put, "portcullis.channel.messages_sent", totals->sent);
	put_number(put, "portcullis.channel.bytes_sent", totals->sent_bytes);
	put_number(put, "portcullis.channel.messages_received", totals->received);
	put_number(put, "portcullis.channel.bytes_received", totals->received_bytes);
}

static void put_machine(struct put *put)
{
	struct machine_counters counters = machine_counters(put->guest->machine);

	put_number(put, "portcullis.exits", counters.exits);
	put_number(put, "portcullis.hypercalls", counters.hypercalls);
	put_number(put, "portcullis.refused_hypercalls", counters.refused);
	put_number(put, "portcullis.window_writes", counters.window_writes);
	put_number(put, "portcullis.stop_requests", machine_stop_requests(put->guest->machine));
}

/* Of the whole monitor: decisions know no guest. */
static void put_avc(struct put *put)
{
	struct registry *registry = registry_lock(put->monitor);
	struct avc_counters avc = avc_counters(put->monitor->posture->avc);
	struct registry_counters counters = registry->counters;
	uint64_t number = put->monitor->posture->policy_number;

	registry_unlock(registry);
	put_number(put, "portcullis.policy_number", number);
	put_number(put, "portcullis.avc.hits", avc.hits);
	put_number(put, "portcullis.avc.misses", avc.misses);
	put_number(put, "portcullis.avc.connects", counters.connects);
	put_number(put, "portcullis.avc.denials", counters.denials);
	put_number(put, "portcullis.avc.cuts", counters.cuts);
}

static void put_ours(struct put *put)
{
	if (put->guest) {
		put_channels(put);
		put_machine(put);
	}
	put_avc(put);
}

/* ---- the call ---- */

static const struct {
	uint32_t flag;
	void (*put)(struct put *put);
} groups[] = {
	{VIR_DOMAIN_STATS_STATE, put_state},     {VIR_DOMAIN_STATS_CPU_TOTAL, put_cpu},
	{VIR_DOMAIN_STATS_BALLOON, put_balloon}, {VIR_DOMAIN_STATS_VCPU, put_vcpus},
	{VIR_DOMAIN_STATS_VM, put_ours},
};
#define N_GROUPS (sizeof(groups) / sizeof(groups[0]))

static void put_record(struct rpc_call *call, struct xdr_writer *out, const struct definition *definition,
                       const struct channel_totals *totals)
{
	uint32_t wanted = call->arguments.number[0];
	struct rpc_domain domain = domain_of(definition);
	struct put put = {
		.out = out,
		.monitor = call->monitor,
		.definition = definition,
		.guest = state_is_active(definition) ? definition->guest : NULL,
		.note = notes_find(call->server->notes, definition->uuid),
		.totals = totals,
	};

	frame_put_domain(out, &domain);
	put.count_at = out->n;
	xdr_put_u32(out, 0);
	for (size_t i = 0; i < N_GROUPS; i++)
		if (!wanted || wanted & groups[i].flag)
			groups[i].put(&put);
	xdr_patch_u32(out, put.count_at, put.n);
}

static bool is_listed(const struct rpc_call *call, const struct definition *definition)
{
	for (uint32_t i = 0; i < call->arguments.n_list; i++)
		if (memcmp(call->arguments.list[i], definition->uuid, RPC_UUID_BYTES) == 0)
			return true;
	return call->arguments.n_list == 0;
}

void run_stats(struct rpc_call *call)
{
	struct channel_totals totals[MAX_GUESTS + 1] = {{0}};
	uint32_t flags = call->arguments.number[1], known = 0, n = 0;
	struct xdr_writer *out;
	size_t count_at;

	for (size_t i = 0; i < N_GROUPS; i++)
		known |= groups[i].flag;
	if (flags & VIR_CONNECT_GET_ALL_DOMAINS_STATS_ENFORCE_STATS && call->arguments.number[0] & ~known) {
		call_fail(call, VIR_ERR_ARGUMENT_UNSUPPORTED, "statistics 0x%x: Portcullis guests have none",
		          call->arguments.number[0] & ~known);
		return;
	}
	count_channels(call->monitor, totals);
	out = call_reply(call);
	count_at = out->n;
	xdr_put_u32(out, 0);
	for (struct definition *at = lifecycle_first(call->monitor); at; at = at->next) {
		if (!is_listed(call, at) || !filter_wants(at, flags & FILTER_ALL_FLAGS))
			continue;
		put_record(call, out, at, totals);
		n++;
	}
	xdr_patch_u32(out, count_at, n);
	call_end(call);
}
