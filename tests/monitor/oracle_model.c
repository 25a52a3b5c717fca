#include "tests/monitor/oracle_model.h"

#include <string.h>

/* ---- decisions ---- */

static bool boolean_is_true(const struct oracle_posture *posture)
{
	return posture->is_set ? posture->value : posture->policy->initially;
}

static bool side_matches(int side, int type)
{
	return side == ORACLE_ANY || side == type;
}

/* The permissions that one type has on another; what is forgotten has none. */
static unsigned allowed(const struct oracle_posture *posture, int source, int target)
{
	const struct oracle_policy *policy = posture->policy;
	unsigned bits;

	if (!policy->known[source] || !policy->known[target])
		return 0;
	bits = policy->always[source][target];
	if (policy->has_boolean && boolean_is_true(posture))
		bits |= policy->if_true[source][target];
	for (size_t i = 0; i < posture->n_rules; i++)
		if (side_matches(posture->rules[i].source, source) &&
		    side_matches(posture->rules[i].target, target))
			bits &= ~(unsigned)posture->rules[i].permissions;
	return bits;
}

static bool may(const struct oracle_posture *posture, int source, int target, unsigned permission)
{
	const struct oracle_policy *policy = posture->policy;
	bool permissive = policy->known[source] && policy->known[target] && policy->permissive[source];

	return allowed(posture, source, target) & permission || permissive || !posture->enforcing;
}

static int label_of(const struct oracle_posture *posture, int service, int server)
{
	if (service == SERVICE_OF_TWO)
		return LABEL_OF_TWO;
	return service == 3 ? LABEL_OF_THREE : posture->type[server];
}

/* Whether the server is the instance that the member decision means. */
static bool is_instance(const struct oracle_posture *posture, int identity, int service, int server)
{
	const struct oracle_policy *policy = posture->policy;
	int label = label_of(posture, service, server);

	if (!policy->known[identity] || !policy->known[label])
		return true;
	/* The only member rules are about this label, whoever has it. */
	if (label == LABEL_OF_TWO && policy->member[identity] >= 0)
		return posture->type[server] == policy->member[identity];
	return service != SERVICE_OF_TWO || posture->type[server] == LABEL_OF_TWO;
}

struct subjects_of {
	int client, server, label, relay; /* types; relay -1: none */
};

/* The table of what a flow needs. */
static void judge(const struct oracle_posture *posture, const struct subjects_of *s, bool open[2],
                  bool flowctl[2])
{
	int end[2] = {s->client, s->server};
	bool both = may(posture, s->client, s->label, MAY_CONNECT) &&
	            may(posture, s->server, s->client, MAY_ACCEPT) &&
	            (s->relay < 0 || may(posture, s->relay, s->client, MAY_SPECIFY_CLIENT));

	for (int flow = 0; flow < 2; flow++) {
		int from = end[flow], to = end[1 - flow];

		open[flow] = both && may(posture, from, to, MAY_SEND) && may(posture, to, from, MAY_RECV);
		flowctl[flow] = may(posture, to, from, MAY_FLOWCTL);
	}
}

/* ---- channels ---- */

bool oracle_is_live(const struct oracle_flow *flow)
{
	return flow->state == ORACLE_PENDING || flow->state == ORACLE_OPEN;
}

static bool was_granted(const struct oracle_flow *flow)
{
	return flow->state != ORACLE_DENIED && flow->state != ORACLE_CUT;
}

bool oracle_hears(const struct oracle_channel *channel, int side)
{
	const struct oracle_flow *out = &channel->flow[side], *in = &channel->flow[1 - side];

	return was_granted(in) || (was_granted(out) && out->flowctl);
}

int oracle_ends(const struct oracle_model *model, int domain)
{
	int n = 0;

	for (size_t i = 0; i < model->n_channels; i++) {
		const struct oracle_channel *channel = &model->channels[i];

		for (int side = 0; side < 2; side++)
			n += channel->domain[side] == domain;
	}
	return n;
}

static int choose_server(const struct oracle_posture *posture, int identity, int service)
{
	if (service != SERVICE_OF_TWO)
		return is_instance(posture, identity, service, service) ? service : -1;
	for (int server = 3; server <= 4; server++)
		if (is_instance(posture, identity, service, server))
			return server;
	return -1;
}

struct oracle_grant oracle_connect(const struct oracle_model *model, int client, int service, int parent)
{
	const struct oracle_posture *posture = &model->posture;
	struct oracle_grant grant = {.answer = ORACLE_REFUSED};
	struct subjects_of s = {.client = posture->type[client], .relay = -1};

	if (parent >= 0) {
		s.client = model->channels[parent].identity;
		s.relay = posture->type[client];
	}
	grant.server = choose_server(posture, s.client, service);
	if (posture->quarantined[client])
		grant.answer = ORACLE_QUARANTINED;
	else if (grant.server < 0)
		grant.answer = ORACLE_NO_SERVICE;
	if (grant.answer != ORACLE_REFUSED)
		return grant;
	s.server = posture->type[grant.server];
	s.label = label_of(posture, service, grant.server);
	judge(posture, &s, grant.open, grant.flowctl);
	for (int flow = 0; flow < 2; flow++)
		grant.open[flow] = grant.open[flow] && !posture->quarantined[grant.server] &&
		                   (parent < 0 || oracle_is_live(&model->channels[parent].flow[flow]));
	if (grant.open[0] || grant.open[1])
		grant.answer = ORACLE_GRANTED;
	grant.blind = !grant.open[1] && !grant.flowctl[0];
	return grant;
}

static void remove_channel(struct oracle_model *model, int index)
{
	model->n_channels--;
	for (size_t i = (size_t)index; i < model->n_channels; i++)
		model->channels[i] = model->channels[i + 1];
	for (size_t i = 0; i < model->n_channels; i++)
		model->channels[i].parent -= model->channels[i].parent > index;
}

int oracle_open(struct oracle_model *model, int client, int service, int parent,
                const struct oracle_grant *grant, uint64_t number)
{
	int index = (int)model->n_channels++;
	struct oracle_channel *channel = &model->channels[index];

	*channel = (struct oracle_channel){
		.number = number,
		.domain = {client, grant->server},
		.service = service,
		.held = {true, false},
		.waits = true,
		.identity = parent < 0 ? model->posture.type[client] : model->channels[parent].identity,
		.on_behalf = parent >= 0,
		.parent = parent,
		.blocked = !grant->quick,
	};
	for (int flow = 0; flow < 2; flow++)
		channel->flow[flow] =
			(struct oracle_flow){.state = grant->open[flow] ? ORACLE_PENDING : ORACLE_DENIED,
		                             .flowctl = grant->flowctl[flow]};
	return index;
}

int oracle_waiting(const struct oracle_model *model, int server)
{
	for (size_t i = 0; i < model->n_channels; i++)
		if (model->channels[i].waits && model->channels[i].domain[1] == server)
			return (int)i;
	return -1;
}

void oracle_accept(struct oracle_model *model, int index)
{
	struct oracle_channel *channel = &model->channels[index];

	channel->waits = false;
	channel->held[1] = true;
	for (int flow = 0; flow < 2; flow++)
		if (channel->flow[flow].state == ORACLE_PENDING)
			channel->flow[flow].state = ORACLE_OPEN;
}

void oracle_close(struct oracle_model *model, int index, int side)
{
	struct oracle_channel *channel = &model->channels[index];
	struct oracle_flow *out = &channel->flow[side], *in = &channel->flow[1 - side];
	bool peer = channel->held[1 - side], peer_hears = oracle_hears(channel, 1 - side);
	/* What was sent can be read to its end, unless the writer could learn from its slot when that was. */
	bool waits = channel->waits && side == 0 && oracle_is_live(out) && oracle_hears(channel, 0) &&
	             out->sent > 0;
	bool stays = peer && out->state == ORACLE_OPEN && oracle_hears(channel, side) &&
	             (!out->flowctl || out->sent > out->taken);

	for (size_t i = 0; i < model->n_channels; i++)
		if (model->channels[i].parent == index)
			model->channels[i].parent = -1;
	if (oracle_is_live(out) && !stays && !waits)
		out->state = ORACLE_CLOSED;
	if (oracle_is_live(in))
		in->state = peer && !peer_hears ? ORACLE_OPEN : ORACLE_CLOSED;
	channel->held[side] = false;
	channel->waits = waits;
	if (!peer && !waits)
		remove_channel(model, index);
}

void oracle_sweep(struct oracle_model *model)
{
	for (size_t i = model->n_channels; i-- > 0;) {
		const struct oracle_channel *channel = &model->channels[i];

		if (!channel->held[0] && !channel->held[1] && !channel->waits)
			remove_channel(model, (int)i);
	}
}

/* ---- changes ---- */

static bool survives(const struct oracle_flow *flow, bool open, bool flowctl)
{
	return oracle_is_live(flow) && open && (!flow->flowctl || flowctl);
}

/* Who decides about the channel in a posture in which domains may have other types. */
static int identity_in(const struct oracle_model *model, const struct oracle_posture *next, int index)
{
	const struct oracle_channel *channel = &model->channels[index];

	if (channel->parent >= 0)
		return identity_in(model, next, channel->parent);
	return channel->on_behalf ? channel->identity : next->type[channel->domain[0]];
}

struct oracle_effect oracle_plan(const struct oracle_model *model, const struct oracle_posture *next,
                                 int cut_channel)
{
	bool lives[MOST_ORACLE_CHANNELS][2] = {0};
	struct oracle_effect effect = {0};

	for (size_t i = 0; i < model->n_channels; i++) {
		const struct oracle_channel *channel = &model->channels[i];
		int client = channel->domain[0], server = channel->domain[1];
		struct subjects_of s;
		bool open[2], flowctl[2];

		s.client = identity_in(model, next, (int)i);
		s.server = next->type[server];
		s.label = label_of(next, channel->service, server);
		s.relay = channel->on_behalf ? next->type[client] : -1;
		judge(next, &s, open, flowctl);
		for (int flow = 0; flow < 2; flow++) {
			if ((int)i == cut_channel || next->quarantined[client] || next->quarantined[server])
				open[flow] = false;
			if (channel->parent >= 0 && !lives[channel->parent][flow])
				open[flow] = false;
			if (next->enforcing && !is_instance(next, s.client, channel->service, server))
				open[flow] = false;
			lives[i][flow] = survives(&channel->flow[flow], open[flow], flowctl[flow]);
			effect.cut[i][flow] = oracle_is_live(&channel->flow[flow]) && !lives[i][flow];
			effect.n_examined += oracle_is_live(&channel->flow[flow]);
			effect.n_cut += effect.cut[i][flow];
			effect.n_allowed += !was_granted(&channel->flow[flow]) && open[flow];
		}
		for (int flow = 0; flow < 2; flow++)
			effect.n_marked +=
				lives[i][flow] && channel->flow[flow].flowctl && effect.cut[i][1 - flow];
	}
	return effect;
}

void oracle_change(struct oracle_model *model, const struct oracle_posture *next,
                   const struct oracle_effect *effect)
{
	for (size_t i = 0; i < model->n_channels; i++) {
		struct oracle_channel *channel = &model->channels[i];

		channel->identity = identity_in(model, next, (int)i);
		for (int flow = 0; flow < 2; flow++)
			if (effect->cut[i][flow])
				channel->flow[flow].state = ORACLE_CUT;
		if (!oracle_is_live(&channel->flow[0]) && !oracle_is_live(&channel->flow[1]))
			channel->waits = false;
	}
	model->posture = *next;
	model->policy_number++;
}
