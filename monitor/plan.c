#include "monitor/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/check.h"

#define N_SEEN 1024u

static bool is_same(const struct subjects *a, const struct subjects *b)
{
	return a->client == b->client && a->server == b->server && a->service == b->service &&
	       a->relay == b->relay;
}

/* Many channels can have few different subjects: those that were looked at lately are not again. */
static int add_questions(struct decisions *decisions, const struct subjects *subjects,
                         struct subjects seen[static N_SEEN])
{
	uint32_t mix = subjects->client * 0x9e3779b1u + subjects->server * 0x85ebca77u +
	               subjects->service * 0xc2b2ae3du;
	struct subjects *at = &seen[(mix * 0x27d4eb2fu >> 16) % N_SEEN];

	if (is_same(at, subjects))
		return 0;
	*at = *subjects;
	return decisions_add_channel(decisions, subjects);
}

/* Of channels that were opened on behalf of others. */
static int derived_questions(const struct registry *registry, const struct proposal *proposal,
                             struct decisions *decisions)
{
	struct subjects seen[N_SEEN] = {0}; /* SID_NONE is no client */
	int error = 0;

	for (struct channel *channel = registry->first; channel && error == 0; channel = channel->next) {
		struct subjects subjects;

		if (channel->group)
			continue;
		subjects = proposal_subjects(proposal, channel);
		error = add_questions(decisions, &subjects, seen);
		/* Its parent may close before the commit; then a relabel does not reach its identity. */
		subjects.client = channel->client_sid;
		if (error == 0 && channel->parent)
			error = add_questions(decisions, &subjects, seen);
	}
	return error;
}

int plan_questions(struct registry *registry, const struct proposal *proposal, struct decisions *decisions)
{
	int error = 0;

	CHECK(registry->held);
	for (struct group *group = registry->groups; group && error == 0; group = group->next) {
		struct subjects subjects = proposal_group_subjects(proposal, group);

		error = decisions_add_channel(decisions, &subjects);
	}
	return error < 0 || registry->n_derived == 0 ? error
	                                             : derived_questions(registry, proposal, decisions);
}

static int reserve(struct registry *registry, struct plan *plan)
{
	size_t n_flows = 2 * (size_t)registry->n_channels + 1, n_domains = 1;

	for (uint32_t g = 0; g < registry->n_guests; g++)
		n_domains += registry->guests[g]->n_domains;
	/* Room for the worst, megabytes of it, is not written to beforehand. */
	plan->cuts = reallocarray(NULL, n_flows, sizeof(*plan->cuts));
	plan->allowed = reallocarray(NULL, n_flows, sizeof(*plan->allowed));
	plan->marked = reallocarray(NULL, n_flows, sizeof(*plan->marked));
	plan->ends = reallocarray(NULL, n_flows, sizeof(*plan->ends));
	plan->wakes = reallocarray(NULL, n_domains, sizeof(struct domain *));
	return plan->cuts && plan->allowed && plan->marked && plan->ends && plan->wakes ? 0 : -ENOMEM;
}

static void note_end(struct plan *plan, struct channel *channel, enum channel_side side)
{
	struct endpoint *end = &channel->end[side];
	struct domain *domain = end->domain;

	if (domain->guest->gone)
		return;
	/* An end that has given its slot back shows nothing that could be taken away. */
	if (end->owns_slot)
		domain->slots[end->slot - domain->first_slot].to_sever = true;
	if (domain->to_wake)
		return;
	domain->to_wake = true;
	plan->guests |= 1ull << domain->guest->index;
	plan->wakes[plan->n_wakes++] = domain;
}

/* What judgement says of one flow as it is. */
static bool is_cut(const struct flow *flow, const struct judgement *judgement, unsigned side)
{
	return flow_live(flow) && (!judgement->open[side] || (flow->flowctl && !judgement->flowctl[side]));
}

static bool is_allowed(const struct flow *flow, const struct judgement *judgement, unsigned side)
{
	return (flow->state == FLOW_DENIED || flow->state == FLOW_CUT) && judgement->open[side];
}

static struct plan_flow flow_of(struct channel *channel, unsigned side)
{
	return (struct plan_flow){.channel = channel, .side = (enum channel_side)side};
}

static void add_cut(struct plan *plan, struct channel *channel, const struct judgement *judgement,
                    unsigned side)
{
	struct plan_flow *cut = &plan->cuts[plan->n_cuts++];

	*cut = flow_of(channel, side);
	cut->cause = judgement->cause[side];
	if (cut->cause == CAUSE_DECISION)
		cut->missing = judgement->missing[side];
}

static void add_channel(struct plan *plan, struct channel *channel, const struct judgement *judgement)
{
	const struct flow *flow = channel->flow;
	bool cut[N_SIDES] = {is_cut(&flow[0], judgement, 0), is_cut(&flow[1], judgement, 1)};

	for (unsigned side = 0; side < N_SIDES; side++) {
		plan->n_examined += flow_live(&flow[side]);
		if (cut[side])
			add_cut(plan, channel, judgement, side);
		else if (cut[1 - side] && flow_live(&flow[side]) && flow[side].flowctl)
			plan->marked[plan->n_marked++] = flow_of(channel, side);
		else if (is_allowed(&flow[side], judgement, side))
			plan->allowed[plan->n_allowed++] = flow_of(channel, side);
	}
	if (!cut[0] && !cut[1])
		return;
	note_end(plan, channel, SIDE_CLIENT);
	note_end(plan, channel, SIDE_SERVER);
}

static int judge_all(struct registry *registry, const struct proposal *proposal, struct decisions *decisions,
                     struct plan *plan)
{
	struct judging judging = judging_begin(registry, proposal, decisions);

	for (struct channel *channel = registry->first; channel; channel = channel_next(channel)) {
		struct judgement own;
		const struct judgement *judgement = proposal_judge(&judging, channel, &own);

		if (!judgement)
			return -EAGAIN;
		add_channel(plan, channel, judgement);
	}
	return 0;
}

/* The ends that lose something, in the order of their slots; and the scratch of the plan is clean again. */
static void list_ends(struct plan *plan, struct domain *domain)
{
	domain->to_wake = false;
	for (uint32_t i = 0; i < domain->n_slots; i++) {
		struct slot *slot = &domain->slots[i];

		if (!slot->to_sever)
			continue;
		slot->to_sever = false;
		plan->ends[plan->n_ends++] = (struct plan_end){slot->channel, (enum channel_side)slot->side};
	}
}

static void list_all_ends(struct registry *registry, struct plan *plan)
{
	for (uint32_t g = 0; g < registry->n_guests; g++)
		for (uint32_t d = 0; d < registry->guests[g]->n_domains; d++)
			if (registry->guests[g]->domains[d].to_wake)
				list_ends(plan, &registry->guests[g]->domains[d]);
}

int plan_build(struct registry *registry, const struct proposal *proposal, struct decisions *decisions,
               struct plan *plan)
{
	int error;

	CHECK(registry->held);
	*plan = (struct plan){0};
	error = reserve(registry, plan);
	if (error == 0)
		error = judge_all(registry, proposal, decisions, plan);
	list_all_ends(registry, plan);
	if (error < 0)
		plan_free(plan);
	plan->n_kept = plan->n_examined - plan->n_cuts;
	return error;
}

void plan_free(struct plan *plan)
{
	free(plan->cuts);
	free(plan->allowed);
	free(plan->marked);
	free(plan->ends);
	free(plan->wakes);
	*plan = (struct plan){0};
}
