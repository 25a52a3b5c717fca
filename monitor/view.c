#include "monitor/view.h"

#include <stdio.h>

#include "monitor/audit.h"
#include "monitor/channel.h"
#include "monitor/guest.h"
#include "monitor/lifecycle.h"
#include "monitor/loop.h"
#include "monitor/posture.h"
#include "monitor/registry.h"
#include "vmm/stop.h"

static const char *context_of(struct monitor *monitor, policy_sid sid)
{
	return sid_context(monitor->posture->sids, sid);
}

static json_t *domain_json(struct monitor *monitor, const struct domain *domain)
{
	return json_pack("{s:s s:s s:i s:s}", "name", domain->name, "context",
	                 context_of(monitor, domain->sid), "vcpu", (int)domain->vcpu, "state",
	                 domain_state_name(domain));
}

/* What a run adds to its guest. */
static void add_run(struct monitor *monitor, json_t *json, const struct guest *guest)
{
	struct machine_counters counters = machine_counters(guest->machine);
	json_t *domains = json_array();

	for (uint32_t d = 0; d < guest->n_domains; d++)
		json_array_append_new(domains, domain_json(monitor, &guest->domains[d]));
	json_object_update_new(json, json_pack("{s:o s:I s:I s:I s:I s:I s:I}", "domains", domains, "exits",
	                                       (json_int_t)counters.exits, "hypercalls",
	                                       (json_int_t)counters.hypercalls, "refused_hypercalls",
	                                       (json_int_t)counters.refused, "window_writes",
	                                       (json_int_t)counters.window_writes, "stray_rings",
	                                       (json_int_t)counters.stray_rings, "stop_requests",
	                                       (json_int_t)machine_stop_requests(guest->machine)));
	if (guest->crash[0])
		json_object_set_new(json, "crash", json_string(guest->crash));
}

/* The domains that a guest without a run would have. */
static json_t *spec_domains_json(const struct manifest_guest *spec)
{
	json_t *domains = json_array();

	for (uint32_t d = 0; d < spec->n_domains; d++)
		json_array_append_new(domains, json_pack("{s:s s:s s:i s:s}", "name", spec->domains[d].name,
		                                         "context", spec->domains[d].context, "vcpu",
		                                         (int)spec->domains[d].vcpu, "state", "exited"));
	return domains;
}

static json_t *definition_json(struct monitor *monitor, const struct definition *definition)
{
	char uuid[UUID_TEXT_BYTES];
	json_t *json = json_pack("{s:s s:s s:s s:i s:s s:b s:i s:o s:i}", "name", definition->name, "state",
	                         definition_state_name(definition), "reason",
	                         lifecycle_reason_name(definition->reason), "id", (int)definition->id, "uuid",
	                         uuid_format(definition->uuid, uuid), "persistent", definition->persistent,
	                         "vcpus", (int)definition->spec->n_vcpus, "domains",
	                         spec_domains_json(definition->spec), "stop_requests", 0);

	if (json && definition->guest)
		add_run(monitor, json, definition->guest);
	return json;
}

static json_t *guest_json(struct monitor *monitor, const struct guest *guest)
{
	json_t *json = json_pack("{s:s s:s s:i}", "name", guest->name, "state", guest_state_name(guest),
	                         "vcpus", (int)guest->n_vcpus);

	if (json)
		add_run(monitor, json, guest);
	return json;
}

/* What is defined, in that order; then what runs without a definition. */
static json_t *guests_json(struct registry *registry, struct monitor *monitor)
{
	json_t *guests = json_array();

	for (const struct definition *definition = lifecycle_first(monitor); definition;
	     definition = definition->next)
		json_array_append_new(guests, definition_json(monitor, definition));
	for (uint32_t g = 0; g < registry->n_guests; g++) {
		const struct guest *guest = registry->guests[g];

		if (!guest->leaving && !lifecycle_find_guest(monitor, guest))
			json_array_append_new(guests, guest_json(monitor, guest));
	}
	return guests;
}

json_t *view_guests(struct monitor *monitor)
{
	struct registry *registry = registry_lock(monitor);
	json_t *guests = guests_json(registry, monitor);

	registry_unlock(registry);
	return guests;
}

static json_t *counters_json(const struct registry *registry, struct monitor *monitor)
{
	struct avc_counters avc = avc_counters(monitor->posture->avc);
	const struct registry_counters *counters = &registry->counters;

	return json_pack("{s:I s:I s:I s:I s:I s:I s:I}", "connects", (json_int_t)counters->connects,
	                 "denials", (json_int_t)counters->denials, "cuts", (json_int_t)counters->cuts,
	                 "avc_hits", (json_int_t)avc.hits, "avc_misses", (json_int_t)avc.misses, "audit_lost",
	                 (json_int_t)audit_lost(monitor->audit), "channels",
	                 (json_int_t)registry->n_channels);
}

static void fingerprint_text(const struct policy_instance *policy, char text[static 33])
{
	snprintf(text, 33, "%016llx%016llx", (unsigned long long)policy->fingerprint_high,
	         (unsigned long long)policy->fingerprint_low);
}

json_t *view_status(struct monitor *monitor)
{
	struct registry *registry = registry_lock(monitor);
	char fingerprint[33];
	json_t *json;

	fingerprint_text(&monitor->posture->policy, fingerprint);
	json = json_pack(
		"{s:I s:s s:b s:f s:s s:o s:o}", "policy_number", (json_int_t)monitor->posture->policy_number,
		"fingerprint", fingerprint, "enforcing", monitor->posture->enforcing, "uptime",
		(double)(loop_now() - monitor->started_ns) / 1000.0, "stop", stop_mode_name(monitor->stop),
		"guests", guests_json(registry, monitor), "counters", counters_json(registry, monitor));
	registry_unlock(registry);
	return json;
}

static json_t *overlay_json(const struct overlay *overlay)
{
	json_t *rules = json_array();

	for (size_t i = 0; i < overlay->n_rules; i++) {
		const struct overlay_rule *rule = &overlay->rules[i];
		char permissions[WHY_BYTES];

		class_format(rule->tclass, rule->permissions, permissions, sizeof(permissions));
		json_array_append_new(rules, json_pack("{s:s s:s s:s s:s}", "source", rule->source, "target",
		                                       rule->target, "class", class_name(rule->tclass),
		                                       "permissions", permissions));
	}
	return rules;
}

static json_t *settings_json(const struct settings *settings)
{
	json_t *booleans = json_object();

	for (size_t i = 0; i < settings->n_booleans; i++)
		json_object_set_new(booleans, settings->booleans[i].name,
		                    json_boolean(settings->booleans[i].value));
	return booleans;
}

json_t *view_policy(struct monitor *monitor)
{
	const struct policy_instance *policy = &monitor->posture->policy;
	char fingerprint[33];

	fingerprint_text(policy, fingerprint);
	return json_pack("{s:I s:s s:b s:I s:I s:I s:b s:I s:s s:o s:o}", "policy_number",
	                 (json_int_t)monitor->posture->policy_number, "fingerprint", fingerprint, "enforcing",
	                 monitor->posture->enforcing, "types", (json_int_t)policy->n_types, "rules",
	                 (json_int_t)policy->n_rules, "booleans", (json_int_t)policy->n_booleans, "mls",
	                 policy->mls, "bytes", (json_int_t)policy->image_bytes, "operator_context",
	                 policy->operator_context, "revoked", overlay_json(&monitor->posture->overlay), "set",
	                 settings_json(&monitor->posture->settings));
}

static json_t *end_json(struct monitor *monitor, const struct endpoint *end)
{
	return json_pack("{s:s s:s s:i s:s}", "guest", end->domain->guest->name, "domain", end->domain->name,
	                 "slot", (int)(end->slot - end->domain->first_slot), "context",
	                 context_of(monitor, end->domain->sid));
}

static json_t *flow_json(struct channel *channel, enum channel_side side)
{
	const struct flow *flow = &channel->flow[side];
	const struct flow_count *count = &channel->count[side];

	channel_count(channel, side);
	return json_pack("{s:s s:s s:s s:b s:b s:I s:I s:I}", "from", channel->end[side].domain->name, "to",
	                 channel->end[1 - side].domain->name, "state", flow_state_name(flow->state),
	                 "flowctl", flow->flowctl, "accepted", channel->accepted, "messages",
	                 (json_int_t)count->messages, "bytes", (json_int_t)count->bytes, "unread_bytes",
	                 (json_int_t)count->unread_bytes);
}

static json_t *channel_json(struct monitor *monitor, struct channel *channel)
{
	json_t *json =
		json_pack("{s:I s:I s:s s:I s:o s:o s:[o o]}", "channel", (json_int_t)channel->number,
	                  "generation", (json_int_t)channel->end[SIDE_CLIENT].generation, "service",
	                  channel->service->name, "opened_at_policy", (json_int_t)channel->opened_at_policy,
	                  "client", end_json(monitor, &channel->end[SIDE_CLIENT]), "server",
	                  end_json(monitor, &channel->end[SIDE_SERVER]), "flows",
	                  flow_json(channel, SIDE_CLIENT), flow_json(channel, SIDE_SERVER));

	if (channel->on_behalf)
		json_object_set_new(json, "on_behalf_of",
		                    json_string(context_of(monitor, channel->client_sid)));
	return json;
}

json_t *view_channels(struct monitor *monitor)
{
	struct registry *registry = registry_lock(monitor);
	json_t *channels = json_array();

	for (struct channel *channel = registry->first; channel; channel = channel->next)
		json_array_append_new(channels, channel_json(monitor, channel));
	registry_unlock(registry);
	return channels;
}

static json_t *detailed_domain_json(struct monitor *monitor, const struct domain *domain)
{
	json_t *json = domain_json(monitor, domain), *services = json_array();

	for (uint32_t s = 0; s < domain->n_services; s++)
		json_array_append_new(services,
		                      json_pack("{s:s s:s s:i}", "name", domain->services[s].name, "context",
		                                context_of(monitor, domain->services[s].sid), "waiting",
		                                (int)domain->services[s].n_backlog));
	json_object_update_new(json, json_pack("{s:s s:s s:o s:i s:i}", "guest", domain->guest->name,
	                                       "domain", domain->name, "services", services, "slots",
	                                       (int)domain->n_slots, "slots_used", (int)domain->n_used));
	if (domain->life == LIFE_EXITED)
		json_object_set_new(json, "exit_status", json_integer(domain->exit_status));
	return json;
}

json_t *view_domains(struct monitor *monitor)
{
	struct registry *registry = registry_lock(monitor);
	json_t *domains = json_array();

	for (uint32_t g = 0; g < registry->n_guests; g++)
		for (uint32_t d = 0; !registry->guests[g]->leaving && d < registry->guests[g]->n_domains; d++)
			json_array_append_new(
				domains, detailed_domain_json(monitor, &registry->guests[g]->domains[d]));
	registry_unlock(registry);
	return domains;
}
