#include "monitor/proposal.h"

#include "guest/abi/record.h"
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

struct subjects proposal_subjects(const struct proposal *proposal, const struct channel *channel)
{
	struct subjects subjects = channel_subjects(channel);
	const struct domain *client = channel->end[SIDE_CLIENT].domain,
			    *server = channel->end[SIDE_SERVER].domain;

	if (relabels(proposal, client))
		subjects.client = proposal->sid;
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

static void close_verdict(struct verdict *verdict)
{
	for (unsigned flow = 0; flow < N_SIDES; flow++)
		verdict->open[flow] = verdict->flowctl[flow] = false;
}

bool proposal_judge(const struct proposal *proposal, struct decisions *decisions,
                    const struct channel *channel, struct judgement *judgement)
{
	struct subjects subjects = proposal_subjects(proposal, channel);

	judgement->cause = CAUSE_DECISION;
	if (!needs_judge(&subjects, proposal->enforcing, decisions_find, decisions, &judgement->verdict))
		return false;
	if (proposal->kind == CHANGE_CUT && proposal->channel == channel->number) {
		judgement->cause = CAUSE_OPERATOR;
		close_verdict(&judgement->verdict);
	} else if (is_quarantined(proposal, channel->end[SIDE_CLIENT].domain) ||
	           is_quarantined(proposal, channel->end[SIDE_SERVER].domain)) {
		judgement->cause = CAUSE_QUARANTINE;
		close_verdict(&judgement->verdict);
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
		if (channel->end[SIDE_CLIENT].domain == domain)
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
