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

/* Thousands of channels have few different subjects: those that were looked at lately are not again. */
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

int plan_questions(struct registry *registry, const struct proposal *proposal, struct decisions *decisions)
{
	struct subjects seen[N_SEEN] = {0}; /* SID_NONE is no client */

	CHECK(registry->held);
	for (struct channel *channel = registry->first; channel; channel = channel->next) {
		struct subjects subjects = proposal_subjects(proposal, channel);

		if (add_questions(decisions, &subjects, seen) < 0)
			return -ENOMEM;
		/* Its parent may close before the commit; then a relabel does not reach its identity. */
		subjects.client = channel->client_sid;
		if (channel->parent && add_questions(decisions, &subjects, seen) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int reserve(struct registry *registry, struct plan *plan)
{
	size_t n_flows = 2 * (size_t)registry->n_channels + 1, n_domains = 1;

	for (uint32_t g = 0; g < registry->n_guests; g++)
		n_domains += registry->guests[g]->n_domains;
	plan->cuts = calloc(n_flows, sizeof(*plan->cuts));
	plan->allowed = calloc(n_flows, sizeof(*plan->allowed));
	plan->marked = calloc(n_flows, sizeof(*plan->marked));
	plan->ends = calloc(n_flows, sizeof(*plan->ends));
	plan->wakes = calloc(n_domains, sizeof(struct domain *));
	return plan->cuts && plan->allowed && plan->marked && plan->ends && plan->wakes ? 0 : -ENOMEM;
}

static void note_end(struct plan *plan, struct channel *channel, enum channel_side side)
{
	struct domain *domain = channel->end[side].domain;

	if (domain->guest->gone)
		return;
	plan->guests |= 1ull << domain->guest->index;
	if (!domain->to_wake) {
		domain->to_wake = true;
		plan->wakes[plan->n_wakes++] = domain;
	}
}

/* What judgement says of one flow as it is. */
static bool is_cut(const struct channel *channel, const struct verdict *verdict, unsigned side)
{
	const struct flow *flow = &channel->flow[side];

	return flow_live(flow) && (!verdict->open[side] || (flow->flowctl && !verdict->flowctl[side]));
}

static bool is_allowed(const struct channel *channel, const struct verdict *verdict, unsigned side)
{
	enum flow_state state = channel->flow[side].state;

	return (state == FLOW_DENIED || state == FLOW_CUT) && verdict->open[side];
}

/* Why flow `side` is lost. */
static struct plan_flow cut_flow(struct channel *channel, const struct judgement *judgement, unsigned side)
{
	struct plan_flow cut = {
		.channel = channel, .side = (enum channel_side)side, .cause = judgement->cause[side]};

	if (cut.cause == CAUSE_DECISION)
		cut.missing = *verdict_missing(&judgement->verdict, side);
	return cut;
}

static void judge(struct plan *plan, struct channel *channel, const struct judgement *judgement)
{
	const struct verdict *verdict = &judgement->verdict;
	bool cut[N_SIDES] = {is_cut(channel, verdict, 0), is_cut(channel, verdict, 1)};

	for (unsigned side = 0; side < N_SIDES; side++) {
		plan->n_examined += flow_live(&channel->flow[side]);
		if (cut[side]) {
			plan->cuts[plan->n_cuts++] = cut_flow(channel, judgement, side);
		} else if (cut[1 - side] && flow_live(&channel->flow[side]) && channel->flow[side].flowctl) {
			plan->marked[plan->n_marked++] =
				(struct plan_flow){.channel = channel, .side = (enum channel_side)side};
		} else if (is_allowed(channel, verdict, side)) {
			plan->allowed[plan->n_allowed++] =
				(struct plan_flow){.channel = channel, .side = (enum channel_side)side};
		}
	}
	if (!cut[0] && !cut[1])
		return;
	for (unsigned side = 0; side < N_SIDES; side++) {
		plan->ends[plan->n_ends++] = (struct plan_end){channel, (enum channel_side)side};
		note_end(plan, channel, (enum channel_side)side);
	}
}

static int by_slot(const void *left, const void *right)
{
	const struct plan_end *a = left, *b = right;
	const struct endpoint *x = &a->channel->end[a->side], *y = &b->channel->end[b->side];

	if (x->domain->guest != y->domain->guest)
		return x->domain->guest < y->domain->guest ? -1 : 1;
	return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static void clear_marks(struct registry *registry)
{
	for (uint32_t g = 0; g < registry->n_guests; g++)
		for (uint32_t d = 0; d < registry->guests[g]->n_domains; d++)
			registry->guests[g]->domains[d].to_wake = false;
}

int plan_build(struct registry *registry, const struct proposal *proposal, struct decisions *decisions,
               struct plan *plan)
{
	int error;

	CHECK(registry->held);
	*plan = (struct plan){0};
	error = reserve(registry, plan);
	if (error < 0)
		goto fail;
	for (struct channel *channel = registry->first; channel && error == 0; channel = channel->next) {
		struct judgement judgement;

		if (proposal_judge(proposal, decisions, channel, &judgement))
			judge(plan, channel, &judgement);
		else
			error = -EAGAIN;
	}
	clear_marks(registry);
	if (error < 0)
		goto fail;
	plan->n_kept = plan->n_examined - plan->n_cuts;
	qsort(plan->ends, plan->n_ends, sizeof(*plan->ends), by_slot);
	return 0;
fail:
	plan_free(plan);
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
