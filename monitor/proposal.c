#include "monitor/proposal.h"

#include "guest/abi/record.h"
#include "monitor/instance.h"
#include "monitor/posture.h"
#include "vmm/check.h"

const char *change_kind_name(enum change_kind kind)
{
	static const char *const names[N_CHANGE_KINDS] = {
		[CHANGE_POLICY] = "policy",       [CHANGE_BOOLEAN] = "boolean",
		[CHANGE_ENFORCING] = "enforcing", [CHANGE_OVERLAY] = "overlay",
		[CHANGE_RELABEL] = "relabel",     [CHANGE_QUARANTINE] = "quarantine",
		[CHANGE_RELEASE] = "release",     [CHANGE_CUT] = "cut",
	};

	return names[kind];
}

static bool relabels(const struct proposal *proposal, const struct domain *domain)
{
	return proposal->kind == CHANGE_RELABEL && proposal->domain == domain;
}

/* The channel whose client is meant in the end: itself, or up the chain of those it speaks for. */
static const struct channel *origin(const struct channel *channel)
{
	while (channel->parent)
		channel = channel->parent;
	return channel;
}

struct subjects proposal_subjects(const struct proposal *proposal, const struct channel *channel)
{
	struct subjects subjects = channel_subjects(channel);
	const struct domain *client = channel->end[SIDE_CLIENT].domain,
			    *server = channel->end[SIDE_SERVER].domain;
	const struct channel *first = origin(channel);

	if (!first->on_behalf && relabels(proposal, first->end[SIDE_CLIENT].domain))
		subjects.client = proposal->sid;
	if (channel->on_behalf && relabels(proposal, client))
		subjects.relay = proposal->sid;
	if (relabels(proposal, server)) {
		subjects.server = proposal->sid;
		if (channel->service->follows_domain)
			subjects.service = proposal->sid;
	}
	return subjects;
}

static bool is_quarantined(const struct proposal *proposal, const struct domain *domain)
{
	if (proposal->domain == domain && proposal->kind == CHANGE_QUARANTINE)
		return true;
	if (proposal->domain == domain && proposal->kind == CHANGE_RELEASE)
		return false;
	return domain->quarantined;
}

static void lose(struct judgement *judgement, unsigned flow, enum cut_cause cause)
{
	if (!judgement->verdict.open[flow])
		return;
	judgement->verdict.open[flow] = judgement->verdict.flowctl[flow] = false;
	judgement->cause[flow] = cause;
}

/* What takes a flow away although policy grants it. */
static void lose_flow(const struct proposal *proposal, const struct channel *channel,
                      struct judgement *judgement, unsigned flow)
{
	if (proposal->kind == CHANGE_CUT && proposal->channel == channel->number)
		lose(judgement, flow, CAUSE_OPERATOR);
	if (is_quarantined(proposal, channel->end[SIDE_CLIENT].domain) ||
	    is_quarantined(proposal, channel->end[SIDE_SERVER].domain))
		lose(judgement, flow, CAUSE_QUARANTINE);
	if (channel->parent && !channel->parent->will_live[flow])
		lose(judgement, flow, CAUSE_PARENT);
}

static bool is_instance(const struct channel *channel, policy_sid server, const struct member *member)
{
	const struct posture *posture = channel->end[SIDE_CLIENT].domain->guest->monitor->posture;

	return instance_matches(posture->sids, channel->service, server, member);
}

/* What the answers say, whatever the channel's state is. False: one is not there. */
static bool ask_answers(struct decisions *decisions, const struct channel *channel,
                        struct remembered *remembered)
{
	const struct subjects *subjects = &remembered->subjects;
	const struct member *member = decisions_member(decisions, subjects->client, subjects->service);

	if (!member ||
	    !needs_judge(subjects, remembered->enforcing, decisions_find, decisions, &remembered->verdict))
		return false;
	remembered->is_instance = is_instance(channel, subjects->server, member);
	remembered->valid = true;
	return true;
}

bool proposal_judge(const struct proposal *proposal, struct decisions *decisions, struct channel *channel,
                    struct judgement *judgement)
{
	struct subjects subjects = proposal_subjects(proposal, channel);
	const struct verdict *verdict = &judgement->verdict;
	struct remembered alone = {.subjects = subjects, .enforcing = proposal->enforcing};
	struct remembered *answer =
		decisions_remember(decisions, &subjects, channel->service, proposal->enforcing);

	if (!answer)
		answer = &alone;
	if (!answer->valid && !ask_answers(decisions, channel, answer))
		return false;
	judgement->verdict = answer->verdict;
	for (unsigned flow = 0; flow < N_SIDES; flow++) {
		const struct flow *now = &channel->flow[flow];

		judgement->cause[flow] = CAUSE_DECISION;
		if (proposal->enforcing && !answer->is_instance)
			lose(judgement, flow, CAUSE_MEMBER);
		lose_flow(proposal, channel, judgement, flow);
		channel->will_live[flow] =
			flow_live(now) && verdict->open[flow] && (!now->flowctl || verdict->flowctl[flow]);
	}
	return true;
}

static void relabel(struct registry *registry, struct domain *domain, policy_sid sid)
{
	domain->sid = sid;
	for (uint32_t s = 0; s < domain->n_services; s++)
		if (domain->services[s].follows_domain)
			domain->services[s].sid = sid;
	for (struct channel *channel = registry->first; channel; channel = channel->next)
		if (channel->parent)
			channel->client_sid = channel->parent->client_sid;
		else if (!channel->on_behalf && channel->end[SIDE_CLIENT].domain == domain)
			channel->client_sid = sid;
}

void proposal_enact(struct registry *registry, const struct proposal *proposal)
{
	struct domain *domain = proposal->domain;

	CHECK(registry->held);
	switch (proposal->kind) {
	case CHANGE_RELABEL:
		relabel(registry, domain, proposal->sid);
		break;
	case CHANGE_QUARANTINE:
	case CHANGE_RELEASE:
		domain->quarantined = proposal->kind == CHANGE_QUARANTINE;
		__atomic_store_n(&machine_domain_page(domain->guest->machine, domain->index)->quarantined,
		                 domain->quarantined, __ATOMIC_SEQ_CST);
		break;
	default:
		break;
	}
}
