#include "monitor/channel.h"

#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "guest/abi/record.h"
#include "monitor/bells.h"
#include "monitor/channel_memory.h"
#include "monitor/group.h"
#include "monitor/guest.h"
#include "vmm/check.h"

const char *flow_state_name(enum flow_state state)
{
	static const char *const names[] = {
		[FLOW_DENIED] = "denied", [FLOW_PENDING] = "open",  [FLOW_OPEN] = "open",
		[FLOW_CUT] = "cut",       [FLOW_CLOSED] = "closed",
	};

	return names[state];
}

/* ---- lists ---- */

static struct channel **recent(struct registry *registry, const struct channel *channel)
{
	return &registry->recent[channel->number % CHANNELS_AHEAD];
}

/* The one that came CHANNELS_AHEAD before it learns of it. */
static void look_ahead(struct registry *registry, struct channel *channel)
{
	struct channel **at = recent(registry, channel);

	if (*at)
		(*at)->ahead = channel;
	*at = channel;
}

static void list_add(struct registry *registry, struct channel *channel)
{
	channel->previous = registry->last;
	if (registry->last)
		registry->last->next = channel;
	else
		registry->first = channel;
	registry->last = channel;
	registry->n_channels++;
	registry->n_derived += !channel->group;
	look_ahead(registry, channel);
}

static void list_remove(struct registry *registry, struct channel *channel)
{
	if (channel->previous)
		channel->previous->next = channel->next;
	else
		registry->first = channel->next;
	if (channel->next)
		channel->next->previous = channel->previous;
	else
		registry->last = channel->previous;
	registry->n_channels--;
	registry->n_derived -= !channel->group;
	if (*recent(registry, channel) == channel)
		*recent(registry, channel) = NULL;
}

static void backlog_add(struct service *service, struct channel *channel)
{
	if (service->backlog_last)
		service->backlog_last->backlog_next = channel;
	else
		service->backlog_first = channel;
	service->backlog_last = channel;
	service->n_backlog++;
}

static void backlog_remove(struct service *service, struct channel *channel)
{
	struct channel **link = &service->backlog_first, *before = NULL;

	while (*link && *link != channel) {
		before = *link;
		link = &before->backlog_next;
	}
	CHECK(*link == channel);
	*link = channel->backlog_next;
	if (service->backlog_last == channel)
		service->backlog_last = before;
	channel->backlog_next = NULL;
	service->n_backlog--;
}

/* Tells the server how many connects wait for its accept. */
static void publish_backlog(struct domain *server)
{
	struct domain_page *page = machine_domain_page(server->guest->machine, server->index);
	uint32_t n = 0;

	for (uint32_t s = 0; s < server->n_services; s++)
		n += server->services[s].n_backlog;
	__atomic_store_n(&page->accepts_waiting, n, __ATOMIC_SEQ_CST);
}

static void leave_backlog(struct channel *channel)
{
	backlog_remove(channel->service, channel);
	publish_backlog(channel->end[SIDE_SERVER].domain);
	channel->accepted = true;
}

/* ---- the life of a channel ---- */

static void end_init(struct endpoint *end, struct domain *domain, int slot, enum end_fate fate)
{
	*end = (struct endpoint){
		.domain = domain,
		.slot = (uint32_t)slot,
		.generation = domain->slots[(uint32_t)slot - domain->first_slot].generation,
		.fate = fate,
		.owns_slot = true,
		.part = WINDOW_NONE,
	};
}

/* Whether the client has as many channels at the service as one may; the new one is not counted yet. */
static bool is_at_limit(const struct domain *client, const struct service *service)
{
	uint32_t n = 0;

	for (uint32_t i = 0; service->per_client && i < client->n_slots; i++) {
		const struct channel *channel = client->slots[i].channel;

		n += channel && channel->service == service && client->slots[i].side == SIDE_CLIENT;
	}
	return service->per_client && n >= service->per_client;
}

static bool is_open_for_connect(const struct service *service)
{
	return service->domain->life == LIFE_RUNNING && service->n_backlog < MAX_BACKLOG;
}

/* What a change will most likely take away together. */
static struct placement_key key_of(const struct channel *channel, const struct domain *client,
                                   const struct service *service)
{
	return (struct placement_key){client, service, channel->on_behalf ? channel->client_sid : SID_NONE};
}

/* The server's end. false: it has none to give. */
static bool take_server_end(struct channel *channel, const struct domain *client,
                            const struct service *service)
{
	struct domain *server = service->domain;
	struct placement_key key = key_of(channel, client, service);
	bool fits = is_open_for_connect(service) && !is_at_limit(client, service);
	int slot = fits ? domain_take_slot(server, channel, SIDE_SERVER, &key) : -1;

	if (slot < 0)
		return false;
	end_init(&channel->end[SIDE_SERVER], server, slot, END_NEW);
	return true;
}

/* A channel that leads nowhere, for a client that must not hear why. */
static void lead_nowhere(struct channel *channel, struct domain *server)
{
	channel->accepted = true;
	channel->end[SIDE_SERVER] =
		(struct endpoint){.domain = server, .slot = server->first_slot, .fate = END_CLOSED};
}

static int why_no_server_end(const struct service *service)
{
	if (service->domain->life != LIFE_RUNNING)
		return CALL_PEER_DIED;
	return service->n_backlog >= MAX_BACKLOG ? CALL_BUSY : CALL_NO_SLOT;
}

static int try_ends(struct channel *channel, struct domain *client, struct service *service,
                    const struct verdict *verdict)
{
	bool blind = !verdict->open[SIDE_SERVER] && !verdict->flowctl[SIDE_CLIENT];
	struct placement_key key = key_of(channel, client, service);
	int slot = domain_take_slot(client, channel, SIDE_CLIENT, &key);

	if (slot < 0)
		return CALL_NO_SLOT;
	end_init(&channel->end[SIDE_CLIENT], client, slot, END_HELD);
	if (take_server_end(channel, client, service))
		return CALL_OK;
	if (blind) {
		lead_nowhere(channel, service->domain);
		return CALL_OK;
	}
	domain_give_slot(client, (uint32_t)slot);
	return why_no_server_end(service);
}

/* CALL_OK, or nothing was taken. */
static int take_ends(struct channel *channel, struct domain *client, struct service *service,
                     const struct verdict *verdict)
{
	int result = try_ends(channel, client, service, verdict);

	if (result != CALL_OK || bells_join(channel) == 0)
		return result;
	for (unsigned side = 0; side < N_SIDES; side++)
		if (channel->end[side].owns_slot)
			domain_give_slot(channel->end[side].domain, channel->end[side].slot);
	return CALL_NO_SLOT;
}

/* Whose channel it is: before its ends are taken, for their place. */
static void identify(struct channel *channel, const struct domain *client,
                     const struct pending_connect *asked)
{
	channel->client_sid = client->sid;
	channel->on_behalf = asked && asked->on_behalf;
	if (!channel->on_behalf)
		return;
	channel->parent = asked->parent;
	channel->client_sid = asked->parent ? asked->parent->client_sid : asked->identity;
}

/* What was opened on this channel's behalf stays when it ends in order, with the identity that it has; or
 * that a relabel gives it which is planned already: else the plan would not say what becomes of it. */
static void orphan_children(const struct registry *registry, struct channel *parent)
{
	const struct domain *origin = registry->pinned ? channel_origin(parent) : NULL;
	struct pending_connect *pending = &parent->end[SIDE_SERVER].domain->pending;

	if (pending->active && pending->parent == parent)
		pending->parent = NULL;
	for (struct channel *channel = parent->next; channel && parent->n_children; channel = channel->next) {
		if (channel->parent != parent)
			continue;
		channel->parent = NULL;
		channel->left_by = origin;
		parent->n_children--;
	}
}

static void leave_parent(struct channel *channel)
{
	if (channel->parent)
		channel->parent->n_children--;
	channel->parent = NULL;
}

static void leave_group(struct registry *registry, struct channel *channel)
{
	if (channel->group)
		group_leave(registry, channel->group);
	channel->group = NULL;
}

/* Its ends and its group. CALL_OK and the channel, or nothing was taken. */
static int make(struct registry *registry, struct domain *client, struct service *service,
                const struct pending_connect *asked, const struct verdict *verdict, struct channel **out)
{
	struct channel *channel = malloc(sizeof(*channel));
	int result = CALL_NO_SLOT;

	if (!channel)
		return CALL_NO_SLOT;
	*channel = (struct channel){0};
	identify(channel, client, asked);
	if (!channel->on_behalf)
		channel->group = group_join(registry, client, service);
	if (channel->on_behalf || channel->group)
		result = take_ends(channel, client, service, verdict);
	*out = channel;
	if (result == CALL_OK)
		return CALL_OK;
	leave_group(registry, channel);
	free(channel);
	return result;
}

int channel_create(struct registry *registry, struct domain *client, struct service *service,
                   const struct pending_connect *asked, const struct verdict *verdict, uint64_t policy_number,
                   struct channel **out)
{
	struct channel *channel;
	int result;

	CHECK(registry->held && !registry->gate_closed);
	result = make(registry, client, service, asked, verdict, &channel);
	if (result != CALL_OK)
		return result;
	for (unsigned side = 0; side < N_SIDES; side++)
		channel->end[side].domain->guest->n_refs++;
	channel->number = ++registry->last_channel;
	channel->service = service;
	channel->opened_at_policy = policy_number;
	if (channel->parent)
		channel->parent->n_children++;
	for (unsigned side = 0; side < N_SIDES; side++) {
		enum flow_state allowed = channel->accepted ? FLOW_OPEN : FLOW_PENDING;

		channel->flow[side].state = verdict->open[side] ? allowed : FLOW_DENIED;
		channel->flow[side].flowctl = verdict->flowctl[side];
	}
	list_add(registry, channel);
	channel_describe(channel, SIDE_CLIENT);
	channel_publish(channel, SIDE_CLIENT);
	*out = channel;
	if (channel->accepted)
		return CALL_OK;
	channel_describe(channel, SIDE_SERVER);
	backlog_add(service, channel);
	publish_backlog(service->domain);
	domain_wake(registry, service->domain);
	return CALL_OK;
}

void channel_free(struct channel *channel)
{
	for (unsigned side = 0; side < N_SIDES; side++)
		guest_release(channel->end[side].domain->guest);
	free(channel);
}

static struct channel *oldest_waiting(struct domain *server)
{
	struct channel *oldest = NULL;

	for (uint32_t s = 0; s < server->n_services; s++) {
		struct channel *first = server->services[s].backlog_first;

		if (first && (!oldest || first->number < oldest->number))
			oldest = first;
	}
	return oldest;
}

struct channel *channel_accept(struct registry *registry, struct domain *server)
{
	struct channel *channel = oldest_waiting(server);

	CHECK(registry->held);
	if (!channel)
		return NULL;
	leave_backlog(channel);
	channel->end[SIDE_SERVER].fate = END_HELD;
	for (unsigned side = 0; side < N_SIDES; side++)
		if (channel->flow[side].state == FLOW_PENDING)
			channel->flow[side].state = FLOW_OPEN;
	channel_follow(registry, channel, SIDE_CLIENT);
	channel_follow(registry, channel, SIDE_SERVER);
	channel_publish(channel, SIDE_SERVER);
	channel_publish(channel, SIDE_CLIENT);
	if (channel->end[SIDE_CLIENT].fate == END_HELD && channel_hears(channel, SIDE_CLIENT))
		domain_wake(registry, channel->end[SIDE_CLIENT].domain);
	return channel;
}

struct channel *channel_at(struct domain *domain, uint64_t slot, enum channel_side *side)
{
	uint64_t i = slot - domain->first_slot;
	struct channel *channel;

	if (slot < domain->first_slot || i >= domain->n_slots)
		return NULL;
	channel = domain->slots[i].channel;
	*side = (enum channel_side)domain->slots[i].side;
	if (!channel || channel->end[*side].fate != END_HELD)
		return NULL;
	return channel;
}

/* Both ends are gone. A plan that is being made may still point here. */
static void bury(struct registry *registry, struct channel *channel)
{
	leave_parent(channel);
	bells_leave(channel);
	list_remove(registry, channel);
	leave_group(registry, channel);
	channel->dead = true;
	if (!registry->pinned) {
		channel_free(channel);
		return;
	}
	channel->next = registry->graveyard;
	registry->graveyard = channel;
}

static bool is_gone(const struct endpoint *end)
{
	return end->fate == END_CLOSED || end->fate == END_DIED;
}

/* Gives an end's slot back once the peer can no longer see its outbox, or come to see it. */
static void release_slot(struct channel *channel, enum channel_side side)
{
	struct endpoint *end = &channel->end[side];
	const struct endpoint *peer = &channel->end[OTHER(side)];

	if (!end->owns_slot || !is_gone(end) || peer->part != WINDOW_NONE || peer->fate == END_NEW)
		return;
	end->owns_slot = false;
	domain_give_slot(end->domain, end->slot);
}

/*
 * What the end sent and the peer has not taken stays readable until the peer closes, also when the domain
 * died. Before the accept a client takes its connect back if it has sent nothing (it may try again, and slots
 * are few); if its domain has ended, the server that waits for it sees that it has come and gone. What a lost
 * guest had sent goes with it.
 */
static bool leaves_unread(const struct channel *channel, enum channel_side side)
{
	if (channel->end[side].domain->guest->lost || !flow_live(&channel->flow[side]) ||
	    is_gone(&channel->end[OTHER(side)]) || !channel_hears(channel, side))
		return false;
	if (!channel->accepted)
		return side == SIDE_CLIENT &&
		       (channel->end[side].domain->life != LIFE_RUNNING || channel_has_unread(channel, side));
	if (!channel->flow[side].flowctl)
		return true;
	return channel_has_unread(channel, side);
}

/* The flows of a channel one of whose ends has gone. One whose writer must not hear of it stays open, to
 * nowhere. */
static void close_flows(struct channel *channel, enum channel_side side, bool stays)
{
	struct flow *out = &channel->flow[side], *in = &channel->flow[OTHER(side)];
	bool blind = !channel_hears(channel, OTHER(side)) && channel->end[OTHER(side)].fate == END_HELD;

	if (flow_live(out) && !stays)
		out->state = FLOW_CLOSED;
	if (!flow_live(in))
		return;
	in->state = blind ? FLOW_OPEN : FLOW_CLOSED;
}

void channel_end(struct registry *registry, struct channel *channel, enum channel_side side,
                 enum end_fate fate)
{
	enum channel_side other = OTHER(side);
	bool stays = leaves_unread(channel, side);
	bool hears = channel_hears(channel, other);
	bool waits = stays && !channel->accepted; /* for a server that is still to read it */

	CHECK(registry->held && (!is_gone(&channel->end[side]) || channel->end[side].domain->guest->lost));
	if (!channel->accepted && !waits) {
		channel->refused = side == SIDE_SERVER;
		leave_backlog(channel);
	}
	channel_count(channel, SIDE_CLIENT);
	channel_count(channel, SIDE_SERVER);
	orphan_children(registry, channel);
	close_flows(channel, side, stays);
	channel->end[side].fate = fate;
	if (channel->end[other].fate == END_NEW && !waits)
		channel->end[other].fate = END_CLOSED;
	channel_publish(channel, side);
	channel_publish(channel, other);
	channel_follow(registry, channel, side);
	channel_follow(registry, channel, other);
	release_slot(channel, side);
	release_slot(channel, other);
	if (is_gone(&channel->end[other]))
		bury(registry, channel);
	else if (hears && !waits)
		domain_wake(registry, channel->end[other].domain);
}

/* ---- the steps of a cut ---- */

void channel_publish_cut(struct registry *registry, struct channel *channel)
{
	CHECK(registry->held);
	if (!channel->accepted && !flow_live(&channel->flow[SIDE_CLIENT]) &&
	    !flow_live(&channel->flow[SIDE_SERVER])) {
		leave_backlog(channel);
		channel->cut_waiting =
			channel->flow[SIDE_SERVER].state != FLOW_DENIED || channel->flow[SIDE_CLIENT].flowctl;
		channel->end[SIDE_SERVER].fate = END_CLOSED;
		channel_publish(channel, SIDE_SERVER);
		release_slot(channel, SIDE_SERVER);
	}
	channel_publish(channel, SIDE_SERVER);
	channel_publish(channel, SIDE_CLIENT);
}

void channel_sweep(struct registry *registry, struct channel *channel)
{
	CHECK(registry->held);
	if (channel->dead || !is_gone(&channel->end[SIDE_CLIENT]) || !is_gone(&channel->end[SIDE_SERVER]))
		return;
	release_slot(channel, SIDE_CLIENT);
	release_slot(channel, SIDE_SERVER);
	bury(registry, channel);
}
