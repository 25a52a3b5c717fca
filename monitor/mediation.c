#include "monitor/mediation.h"

#include <errno.h>
#include <string.h>

#include "guest/abi/call.h"
#include "monitor/audit.h"
#include "monitor/channel.h"
#include "monitor/decisions.h"
#include "monitor/denials.h"
#include "monitor/guest.h"
#include "monitor/instance.h"
#include "monitor/loop.h"
#include "monitor/needs.h"
#include "monitor/posture.h"
#include "vmm/check.h"

/* ---- decide and grant: registry lock ---- */

static bool lookup_cached(void *opaque, struct avc_key key, struct decision *out)
{
	struct posture *posture = opaque;

	return avc_lookup(posture->avc, key, out);
}

/* One audit line for each (source, target) that lacks something. */
static void audit_missing(struct registry *registry, struct domain *client, const struct verdict *verdict,
                          uint64_t channel)
{
	struct monitor *monitor = client->guest->monitor;
	struct posture *posture = monitor->posture;
	uint32_t done = 0;

	for (size_t i = 0; i < verdict->n_missing; i++) {
		const struct need *first = &verdict->missing[i];
		struct decision decision = {.auditdeny = UINT32_MAX};
		uint32_t permissions = 0;

		if (done & 1u << i)
			continue;
		for (size_t j = i; j < verdict->n_missing; j++) {
			const struct need *need = &verdict->missing[j];

			if (need->source != first->source || need->target != first->target)
				continue;
			permissions |= need->permission;
			done |= 1u << j;
		}
		avc_lookup(posture->avc, (struct avc_key){first->source, first->target, CLASS_CHANNEL},
		           &decision);
		permissions &= decision.auditdeny;
		if (permissions)
			denials_note(registry, monitor,
			             &(struct denial){
					     .tclass = CLASS_CHANNEL,
					     .permissions = permissions,
					     .source = first->source,
					     .target = first->target,
					     .channel = channel,
					     .permissive = first->masked,
					     .domain = client,
				     });
	}
}

/* Writes the outcome of the domain's connect where its library looks for it, and wakes it if it may sleep. */
static void conclude(struct registry *registry, struct domain *client, int result, uint32_t slot)
{
	struct domain_page *page = machine_domain_page(client->guest->machine, client->index);

	page->connect_result = result;
	page->connect_slot = slot;
	__atomic_store_n(&page->connect_ticket, client->pending.ticket, __ATOMIC_SEQ_CST);
	client->pending.active = false;
	client->pending.asked = false;
	if (!client->pending.awake)
		domain_wake(registry, client);
}

static void deny(struct registry *registry, struct domain *client, int result)
{
	registry->counters.denials++;
	conclude(registry, client, result, 0);
}

/* A denial that no rule of the policy explains (I9). */
static void audit_refusal(const struct domain *client, const char *service, const char *why)
{
	audit_denied(client->guest->monitor->audit, &(struct audit_refusal){.guest = client->guest->name,
	                                                                    .domain = client->name,
	                                                                    .service = service,
	                                                                    .reason = why});
}

static void grant(struct registry *registry, struct domain *client, struct service *service,
                  const struct verdict *verdict)
{
	uint64_t policy_number = client->guest->monitor->posture->policy_number;
	struct channel *channel = NULL;
	int result =
		channel_create(registry, client, service, &client->pending, verdict, policy_number, &channel);

	if (result == CALL_OK)
		registry->counters.connects++;
	if (verdict->n_missing)
		audit_missing(registry, client, verdict, channel ? channel->number : 0);
	conclude(registry, client, result, channel ? channel->end[SIDE_CLIENT].slot : 0);
}

/* Whose identity the connect has: its own, or that of the client on whose behalf it is made. */
static policy_sid pending_client(const struct domain *client)
{
	const struct pending_connect *pending = &client->pending;

	if (!pending->on_behalf)
		return client->sid;
	return pending->parent ? pending->parent->client_sid : pending->identity;
}

static struct subjects pending_subjects(const struct domain *client, const struct service *service)
{
	return (struct subjects){
		.client = pending_client(client),
		.server = service->domain->sid,
		.service = service->sid,
		.relay = client->pending.on_behalf ? client->sid : SID_NONE,
	};
}

/* What was granted to the client it speaks for bounds what it gets. */
static void bound_by_parent(const struct pending_connect *pending, struct verdict *verdict)
{
	for (unsigned flow = 0; pending->parent && flow < N_SIDES; flow++)
		verdict->open[flow] = verdict->open[flow] && flow_live(&pending->parent->flow[flow]);
}

static bool opens_nothing(const struct verdict *verdict)
{
	return !verdict->open[SIDE_CLIENT] && !verdict->open[SIDE_SERVER];
}

/* The instance, as far as the cache says which. */
static enum instance_choice pending_instance(struct registry *registry, const struct domain *client,
                                             struct service **service)
{
	const struct posture *posture = client->guest->monitor->posture;
	const struct instance_question question = {.guest = client->guest,
	                                           .name = &client->pending.name,
	                                           .client = pending_client(client),
	                                           .members = posture->members,
	                                           .sids = posture->sids};

	return instance_choose(registry, &question, service);
}

/* Concludes the pending connect from what is cached; false if a decision is not there. */
static bool try_connect(struct registry *registry, struct domain *client)
{
	struct posture *posture = client->guest->monitor->posture;
	struct service *service;
	struct subjects subjects;
	struct verdict verdict;
	enum instance_choice choice;

	if (registry->gate_closed)
		return false;
	/* It was not when it asked; a change came between. */
	if (client->quarantined) {
		audit_refusal(client, client->pending.name.service, "the domain is quarantined");
		deny(registry, client, CALL_QUARANTINED);
		return true;
	}
	if (client->pending.on_behalf && pending_client(client) == SID_NONE) {
		conclude(registry, client, CALL_NOT_OPEN, 0);
		return true;
	}
	choice = pending_instance(registry, client, &service);
	if (choice == INSTANCE_UNDECIDED)
		return false;
	if (choice == INSTANCE_NONE) {
		conclude(registry, client, CALL_NO_SERVICE, 0);
		return true;
	}
	subjects = pending_subjects(client, service);
	if (!needs_judge(&subjects, posture->enforcing, lookup_cached, posture, &verdict))
		return false;
	if (opens_nothing(&verdict)) {
		audit_missing(registry, client, &verdict, 0);
		deny(registry, client, CALL_DENIED);
		return true;
	}
	bound_by_parent(&client->pending, &verdict);
	if (service->domain->quarantined || opens_nothing(&verdict)) {
		audit_refusal(client, service->name,
		              service->domain->quarantined
		                      ? "the server is quarantined"
		                      : "the channel on whose behalf it connects is cut");
		deny(registry, client, CALL_DENIED);
		return true;
	}
	grant(registry, client, service, &verdict);
	return true;
}

/* ---- requests: vCPU threads ---- */

/* The accepted channel on whose behalf a connect is asked; false: it is not this domain's, or not accepted by
 * it. */
static bool find_parent(struct domain *client, uint64_t guest_slot, struct channel **parent)
{
	enum channel_side side;

	*parent = NULL;
	if (guest_slot == UINT64_MAX)
		return true;
	*parent = channel_at(client, guest_slot, &side);
	return *parent && side == SIDE_SERVER;
}

static int64_t do_connect(struct registry *registry, struct domain *client,
                          const struct guest_request *request, policy_sid identity)
{
	struct service_name name = service_name_read(request->text);
	const struct service *service = instance_any(registry, client->guest, &name);
	struct channel *parent;

	if (client->pending.active)
		return CALL_BUSY;
	if (client->quarantined) {
		registry->counters.denials++;
		audit_refusal(client, service ? service->name : "", "the domain is quarantined");
		return CALL_QUARANTINED;
	}
	if (!service)
		return CALL_NO_SERVICE;
	if (!find_parent(client, request->argument[1], &parent))
		return CALL_NOT_OPEN;
	client->pending = (struct pending_connect){
		.active = true,
		.awake = true,
		.ticket = ++client->last_ticket,
		.name = name,
		.on_behalf = parent || identity != SID_NONE,
		.parent = parent,
		.identity = identity,
		.deadline_ns = loop_now() + client->guest->monitor->deadline_ns,
	};
	if (!try_connect(registry, client)) {
		client->pending.awake = false;
		registry_kick(registry);
	}
	return (int64_t)client->last_ticket;
}

static int64_t do_accept(struct registry *registry, struct domain *server)
{
	struct channel *channel = channel_accept(registry, server);

	return channel ? (int64_t)channel->end[SIDE_SERVER].slot : CALL_AGAIN;
}

static int64_t do_close(struct registry *registry, struct domain *domain, uint64_t guest_slot)
{
	enum channel_side side;
	struct channel *channel = channel_at(domain, guest_slot, &side);

	if (!channel)
		return CALL_NOT_OPEN;
	channel_end(registry, channel, side, END_CLOSED);
	return CALL_OK;
}

static int64_t do_exit(struct registry *registry, struct domain *domain, uint64_t guest_status)
{
	domain_end(registry, domain, false, (int)(guest_status & 0xff));
	registry_kick(registry);
	return CALL_OK;
}

static int64_t dispatch(struct registry *registry, struct guest *guest, const struct guest_request *request)
{
	struct domain *domain;
	enum channel_side side;

	if (request->call == HYPERCALL_READY || request->domain >= guest->n_domains)
		return CALL_OK;
	domain = &guest->domains[request->domain];
	if (domain->life != LIFE_RUNNING)
		return CALL_BAD_ARGUMENT;
	switch (request->call) {
	case HYPERCALL_CONNECT:
		return do_connect(registry, domain, request, SID_NONE);
	case HYPERCALL_ACCEPT:
		return do_accept(registry, domain);
	case HYPERCALL_CLOSE:
		return do_close(registry, domain, request->argument[0]);
	case HYPERCALL_INFO:
		return channel_at(domain, request->argument[0], &side) ? CALL_OK : CALL_NOT_OPEN;
	case HYPERCALL_EXIT:
		return do_exit(registry, domain, request->argument[0]);
	default:
		return CALL_NO_CALL;
	}
}

int64_t mediation_request(void *owner, const struct guest_request *request)
{
	struct guest *guest = owner;
	struct registry *registry = registry_lock(guest->monitor);
	int64_t result = guest->lost ? CALL_BAD_ARGUMENT : dispatch(registry, guest, request);

	registry_unlock(registry);
	return result;
}

int64_t mediation_connect_for(struct domain *relay, const struct guest_request *request, policy_sid identity)
{
	struct registry *registry = registry_lock(relay->guest->monitor);
	int64_t result = relay->life == LIFE_RUNNING ? do_connect(registry, relay, request, identity)
	                                             : CALL_BAD_ARGUMENT;

	registry_unlock(registry);
	return result;
}

/* ---- the loop's half ---- */

typedef void pending_fn(struct registry *registry, struct domain *client, void *opaque);

static void for_each_pending(struct registry *registry, pending_fn *fn, void *opaque)
{
	for (uint32_t g = 0; g < registry->n_guests; g++)
		for (uint32_t d = 0; d < registry->guests[g]->n_domains; d++)
			if (registry->guests[g]->domains[d].pending.active)
				fn(registry, &registry->guests[g]->domains[d], opaque);
}

/* What has to be asked next: which instance, then what the channel to it needs. */
static int add_questions(struct registry *registry, struct domain *client, struct decisions *questions)
{
	struct service *service;
	enum instance_choice choice = pending_instance(registry, client, &service);
	struct subjects subjects;

	if (choice == INSTANCE_NONE) /* try_connect has concluded it */
		return 0;
	if (choice == INSTANCE_UNDECIDED)
		return decisions_add_member(questions, pending_client(client), service->sid);
	subjects = pending_subjects(client, service);
	return decisions_add_channel(questions, &subjects);
}

/* Concludes it, denies it when it is late, or notes what has to be asked. */
static void advance(struct registry *registry, struct domain *client, void *opaque)
{
	if (try_connect(registry, client))
		return;
	if (loop_now() >= client->pending.deadline_ns) {
		audit_notice(
			client->guest->monitor->audit, "PORTCULLIS_UNDECIDED",
			"guest=\"%s\" domain=\"%s\" service=\"%s\": no answer of the security server in time",
			client->guest->name, client->name, client->pending.name.service);
		deny(registry, client, CALL_DENIED);
		return;
	}
	if (!client->pending.asked && !registry->gate_closed && add_questions(registry, client, opaque) == 0)
		client->pending.asked = true;
}

static void forget(struct registry *registry, struct domain *client, void *opaque)
{
	(void)registry;
	(void)opaque;
	client->pending.asked = false;
}

void mediation_forget_questions(struct monitor *monitor)
{
	struct registry *registry = registry_lock(monitor);

	for_each_pending(registry, forget, NULL);
	registry_unlock(registry);
}

/* The answers go into the AVC unless a change came between; then everybody is looked at again. */
static void answered(void *opaque, int status, struct decisions *questions)
{
	struct monitor *monitor = opaque;
	struct registry *registry = registry_lock(monitor);

	if (status == 0) {
		decisions_mask(questions, &monitor->posture->overlay, monitor->posture->sids);
		decisions_cache(questions, monitor->posture->avc, monitor->posture->members);
	}
	for_each_pending(registry, forget, NULL);
	registry_unlock(registry);
	decisions_destroy(questions);
	if (status == 0)
		mediation_pump(monitor);
}

void mediation_pump(struct monitor *monitor)
{
	struct decisions *questions = decisions_create();
	struct registry *registry;
	uint64_t number;

	if (!questions)
		return;
	registry = registry_lock(monitor);
	number = monitor->posture->policy_number;
	for_each_pending(registry, advance, questions);
	registry_unlock(registry);
	if (decisions_count(questions) == 0 ||
	    decisions_ask(questions, monitor->posture->policy.server, monitor->posture->sids, number,
	                  loop_now() + monitor->deadline_ns, answered, monitor) < 0) {
		if (decisions_count(questions) > 0)
			mediation_forget_questions(monitor);
		decisions_destroy(questions);
	}
	posture_rearm(monitor);
}

static void earliest(struct registry *registry, struct domain *client, void *opaque)
{
	uint64_t *deadline = opaque;

	(void)registry;
	if (client->pending.deadline_ns < *deadline)
		*deadline = client->pending.deadline_ns;
}

uint64_t mediation_next_deadline(struct monitor *monitor)
{
	uint64_t deadline = UINT64_MAX;
	struct registry *registry = registry_lock(monitor);

	for_each_pending(registry, earliest, &deadline);
	registry_unlock(registry);
	return deadline;
}
