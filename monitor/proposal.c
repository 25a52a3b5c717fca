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

/* Whose contexts a proposed relabel may reach. */
struct party {
	const struct domain *origin; /* whose own context is the client's; NULL: nobody's */
	const struct domain *relay;  /* NULL: none */
	const struct service *service;
};

static struct subjects propose(const struct proposal *proposal, struct subjects subjects, struct party party)
{
	if (party.origin && relabels(proposal, party.origin))
		subjects.client = proposal->sid;
	if (party.relay && relabels(proposal, party.relay))
		subjects.relay = proposal->sid;
	if (relabels(proposal, party.service->domain)) {
		subjects.server = proposal->sid;
		if (party.service->follows_domain)
			subjects.service = proposal->sid;
	}
	return subjects;
}

struct subjects proposal_group_subjects(const struct proposal *proposal, const struct group *group)
{
	struct subjects now = {group->client->sid, group->service->domain->sid, group->service->sid,
	                       SID_NONE};

	return propose(proposal, now, (struct party){.origin = group->client, .service = group->service});
}

static struct subjects subjects_now(const struct channel *channel)
{
	return (struct subjects){
		.client = channel->client_sid,
		.server = channel->end[SIDE_SERVER].domain->sid,
		.service = channel->service->sid,
		.relay = channel->on_behalf ? channel->end[SIDE_CLIENT].domain->sid : SID_NONE,
	};
}

struct subjects proposal_subjects(const struct proposal *proposal, const struct channel *channel)
{
	struct party party = {
		.origin = channel_origin(channel),
		.relay = channel->on_behalf ? channel->end[SIDE_CLIENT].domain : NULL,
		.service = channel->service,
	};

	return propose(proposal, subjects_now(channel), party);
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
	if (!judgement->open[flow])
		return;
	judgement->open[flow] = judgement->flowctl[flow] = false;
	judgement->cause[flow] = cause;
}

static void lose_both(struct judgement *judgement, enum cut_cause cause)
{
	for (unsigned flow = 0; flow < N_SIDES; flow++)
		lose(judgement, flow, cause);
}

static void take_verdict(struct judgement *judgement, const struct verdict *verdict)
{
	*judgement = (struct judgement){0};
	for (unsigned flow = 0; flow < N_SIDES; flow++) {
		const struct need *missing = verdict_missing(verdict, flow);

		judgement->open[flow] = verdict->open[flow];
		judgement->flowctl[flow] = verdict->flowctl[flow];
		judgement->cause[flow] = CAUSE_DECISION;
		if (missing)
			judgement->missing[flow] = *missing;
	}
}

/* What the answers say of these subjects. False: one is not there. */
static bool ask_answers(const struct judging *judging, const struct subjects *subjects,
                        const struct service *service, struct judgement *judgement)
{
	const struct posture *posture = service->domain->guest->monitor->posture;
	const struct member *member =
		decisions_member(judging->decisions, subjects->client, subjects->service);
	bool enforcing = judging->proposal->enforcing;
	struct verdict verdict;

	if (!member || !needs_judge(subjects, enforcing, decisions_find, judging->decisions, &verdict))
		return false;
	take_verdict(judgement, &verdict);
	if (enforcing && !instance_matches(posture->sids, service, subjects->server, member))
		lose_both(judgement, CAUSE_MEMBER);
	return true;
}

struct judging judging_begin(struct registry *registry, const struct proposal *proposal,
                             struct decisions *decisions)
{
	CHECK(registry->held);
	return (struct judging){proposal, decisions, ++registry->last_judging};
}

/* All that is the same for every channel of the group. */
static const struct judgement *judge_group(const struct judging *judging, struct group *group)
{
	const struct proposal *proposal = judging->proposal;
	struct subjects subjects;

	if (group->judging == judging->number)
		return &group->judgement;
	subjects = proposal_group_subjects(proposal, group);
	if (!ask_answers(judging, &subjects, group->service, &group->judgement))
		return NULL;
	if (is_quarantined(proposal, group->client) || is_quarantined(proposal, group->service->domain))
		lose_both(&group->judgement, CAUSE_QUARANTINE);
	group->judging = judging->number;
	return &group->judgement;
}

/* What the answers say of a channel by itself. Those that are looked at lately are not looked up again. */
static bool recall_answers(const struct judging *judging, const struct channel *channel,
                           struct judgement *judgement)
{
	struct subjects subjects = proposal_subjects(judging->proposal, channel);
	struct remembered *place = decisions_remember(judging->decisions, &subjects, channel->service,
	                                              judging->proposal->enforcing);

	if (!place)
		return ask_answers(judging, &subjects, channel->service, judgement);
	if (!place->valid)
		place->valid = ask_answers(judging, &subjects, channel->service, &place->judgement);
	*judgement = place->judgement;
	return place->valid;
}

/* One that is in no group, or that is meant by its number. */
static const struct judgement *judge_alone(const struct judging *judging, const struct channel *channel,
                                           struct judgement *judgement)
{
	const struct proposal *proposal = judging->proposal;

	if (!recall_answers(judging, channel, judgement))
		return NULL;
	if (proposal->kind == CHANGE_CUT && proposal->channel == channel->number)
		lose_both(judgement, CAUSE_OPERATOR);
	if (is_quarantined(proposal, channel->end[SIDE_CLIENT].domain) ||
	    is_quarantined(proposal, channel->end[SIDE_SERVER].domain))
		lose_both(judgement, CAUSE_QUARANTINE);
	for (unsigned flow = 0; flow < N_SIDES; flow++)
		if (channel->parent && !channel->parent->will_live[flow])
			lose(judgement, flow, CAUSE_PARENT);
	return judgement;
}

static void note_lives(struct channel *channel, const struct judgement *judgement)
{
	for (unsigned flow = 0; flow < N_SIDES; flow++) {
		const struct flow *now = &channel->flow[flow];

		channel->will_live[flow] = flow_live(now) && judgement->open[flow] &&
		                           (!now->flowctl || judgement->flowctl[flow]);
	}
}

const struct judgement *proposal_judge(const struct judging *judging, struct channel *channel,
                                       struct judgement *own)
{
	bool is_meant =
		judging->proposal->kind == CHANGE_CUT && judging->proposal->channel == channel->number;
	const struct judgement *judgement = channel->group && !is_meant ? judge_group(judging, channel->group)
	                                                                : judge_alone(judging, channel, own);

	if (judgement && channel->n_children)
		note_lives(channel, judgement);
	return judgement;
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
		else if (channel_origin(channel) == domain)
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
