#include "monitor/report.h"

#include <stdio.h>

#include "monitor/audit.h"
#include "monitor/posture.h"

static json_t *flow_json(const struct plan_flow *flow)
{
	char from[PATH_NAME_BYTES], to[PATH_NAME_BYTES];
	const struct channel *channel = flow->channel;

	return json_pack("{s:I s:I s:s s:s s:s}", "channel", (json_int_t)channel->number, "generation",
	                 (json_int_t)channel->end[SIDE_CLIENT].generation, "service", channel->service->name,
	                 "from", domain_path(channel->end[flow->side].domain, from), "to",
	                 domain_path(channel->end[1 - flow->side].domain, to));
}

static json_t *cut_json(const struct plan_flow *cut, const struct reasons *reasons)
{
	json_t *json = flow_json(cut);
	bool decision = cut->cause == CAUSE_DECISION;
	const char *permission =
		decision ? class_permission_name(CLASS_CHANNEL, cut->missing.permission) : NULL;
	json_t *permissions = permission ? json_pack("[s]", permission) : json_array();

	if (json)
		json_object_update_new(json, json_pack("{s:o s:s s:I s:I s:i}", "permissions", permissions,
		                                       "reason", reasons_text(reasons, cut->reason),
		                                       "discarded_messages", (json_int_t)cut->loss.messages,
		                                       "discarded_bytes", (json_int_t)cut->loss.bytes,
		                                       "cancelled_calls", (int)cut->loss.calls));
	if (json && cut->loss.to_host && cut->loss.handed_over >= 0)
		json_object_set_new(json, "handed_over_unread", json_integer(cut->loss.handed_over));
	return json;
}

static json_t *cuts_json(const struct change_outcome *outcome)
{
	json_t *cuts = json_array();

	for (size_t i = 0; i < outcome->plan->n_cuts; i++)
		if (outcome->planned || outcome->plan->cuts[i].done)
			json_array_append_new(cuts, cut_json(&outcome->plan->cuts[i], outcome->reasons));
	return cuts;
}

static json_t *allowed_json(const struct change_outcome *outcome)
{
	json_t *allowed = json_array();

	for (size_t i = 0; i < outcome->plan->n_allowed; i++) {
		json_t *json = flow_json(&outcome->plan->allowed[i]);

		json_object_set_new(json, "reason", json_string("allowed now; a new connect gets it"));
		json_array_append_new(allowed, json);
	}
	return allowed;
}

/* Flows that stay although their reverse is cut: their back-pressure still tells something the other way. */
static json_t *marked_json(const struct change_outcome *outcome)
{
	json_t *marked = json_array();

	for (size_t i = 0; i < outcome->plan->n_marked; i++)
		json_array_append_new(marked, flow_json(&outcome->plan->marked[i]));
	return marked;
}

static json_t *killed_json(struct monitor *monitor, uint64_t killed)
{
	json_t *names = json_array();

	for (uint32_t g = 0; g < monitor->registry->n_guests; g++)
		if (killed & 1ull << monitor->registry->guests[g]->index)
			json_array_append_new(names, json_string(monitor->registry->guests[g]->name));
	return names;
}

static double us(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? (double)(to_ns - from_ns) / 1000.0 : 0.0;
}

static json_t *times_json(const struct change_times *t)
{
	return json_pack("{s:f s:f s:f s:f s:f}", "prepare", us(t->begun, t->t0), "stop", us(t->t0, t->t1),
	                 "patch", us(t->t1, t->t2), "resume", us(t->t2, t->t3), "total", us(t->t0, t->t4));
}

static uint64_t n_cut(const struct change_outcome *outcome)
{
	uint64_t n = 0;

	for (size_t i = 0; i < outcome->plan->n_cuts; i++)
		n += outcome->planned || outcome->plan->cuts[i].done;
	return n;
}

json_t *report_json(struct monitor *monitor, const struct change_outcome *outcome)
{
	uint64_t cut = n_cut(outcome);
	json_t *json = json_pack(
		"{s:s s:I s:I s:s s:b s:o s:{s:I s:I s:I s:I} s:o s:o s:o s:o s:{s:i s:i}}", "change",
		outcome->change, "policy_number", (json_int_t)outcome->policy_number, "previous",
		(json_int_t)outcome->previous, "stop", stop_mode_name(outcome->stop), "enforcing",
		outcome->enforcing, "killed", killed_json(monitor, outcome->killed), "flows", "examined",
		(json_int_t)outcome->plan->n_examined, "cut", (json_int_t)cut, "kept",
		(json_int_t)outcome->plan->n_kept, "allowed", (json_int_t)outcome->plan->n_allowed, "cuts",
		cuts_json(outcome), "allowed", allowed_json(outcome), "kept_with_flowctl",
		marked_json(outcome), "times", times_json(&outcome->times), "vcpus", "stopped",
		(int)outcome->stopped.n_stopped, "gone", (int)outcome->stopped.n_gone);

	if (json && outcome->planned)
		json_object_set_new(json, "planned", json_true());
	return json;
}

void report_audit(struct monitor *monitor, const struct change_outcome *outcome)
{
	for (size_t i = 0; i < outcome->plan->n_cuts; i++) {
		const struct plan_flow *cut = &outcome->plan->cuts[i];
		char from[PATH_NAME_BYTES], to[PATH_NAME_BYTES], handed_over[48] = "";

		if (!cut->done)
			continue;
		if (cut->loss.to_host && cut->loss.handed_over >= 0)
			snprintf(handed_over, sizeof(handed_over), " handed_over_unread=%lld",
			         (long long)cut->loss.handed_over);
		audit_notice(monitor->audit, "PORTCULLIS_CUT",
		             "policy=%llu channel=%llu from=\"%s\" to=\"%s\" discarded_messages=%llu "
		             "discarded_bytes=%llu cancelled_calls=%u%s reason=\"%s\"",
		             (unsigned long long)outcome->policy_number,
		             (unsigned long long)cut->channel->number,
		             domain_path(cut->channel->end[cut->side].domain, from),
		             domain_path(cut->channel->end[1 - cut->side].domain, to),
		             (unsigned long long)cut->loss.messages, (unsigned long long)cut->loss.bytes,
		             cut->loss.calls, handed_over, reasons_text(outcome->reasons, cut->reason));
	}
	audit_notice(monitor->audit, "PORTCULLIS_POLICY",
	             "change=%s policy=%llu previous=%llu cut=%llu kept=%llu", outcome->change,
	             (unsigned long long)outcome->policy_number, (unsigned long long)outcome->previous,
	             (unsigned long long)n_cut(outcome), (unsigned long long)outcome->plan->n_kept);
}
