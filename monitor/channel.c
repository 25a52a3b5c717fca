#include "monitor/channel.h"

#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "guest/abi/record.h"
#include "guest/abi/ring.h"
#include "monitor/guest.h"
#include "monitor/posture.h"
#include "vmm/check.h"

#define OTHER(side) ((enum channel_side)(1 - (side)))

const char *flow_state_name(enum flow_state state)
{
	static const char *const names[] = {
		[FLOW_DENIED] = "denied", [FLOW_PENDING] = "open",  [FLOW_OPEN] = "open",
		[FLOW_CUT] = "cut",       [FLOW_CLOSED] = "closed",
	};

	return names[state];
}

bool flow_live(const struct flow *flow)
{
	return flow->state == FLOW_PENDING || flow->state == FLOW_OPEN;
}

struct subjects channel_subjects(const struct channel *channel)
{
	return (struct subjects){
		.client = channel->client_sid,
		.server = channel->end[SIDE_SERVER].domain->sid,
		.service = channel->service->sid,
	};
}

/* ---- memory follows from state ---- */

/* The state bits of an end's record; see guest/abi/record.h. */
static uint64_t word_bits(const struct channel *channel, enum channel_side side)
{
	const struct flow *out = &channel->flow[side];
	const struct flow *in = &channel->flow[OTHER(side)];
	enum end_fate peer = channel->end[OTHER(side)].fate;
	uint64_t bits = RECORD_LIVE;

	if (side == SIDE_SERVER)
		bits |= RECORD_SERVER;
	if (!channel->accepted && (flow_live(out) || flow_live(in)))
		bits |= RECORD_CONNECTING;
	if (out->state == FLOW_OPEN)
		bits |= RECORD_OUT | RECORD_NOTIFY | (out->flowctl ? RECORD_OUT_FLOWCTL : 0);
	if (in->state == FLOW_OPEN) {
		bits |= RECORD_IN;
		if (in->flowctl)
			bits |= RECORD_IN_FLOWCTL | (peer == END_HELD ? RECORD_NOTIFY : 0);
	}
	if (out->state == FLOW_CUT)
		bits |= RECORD_OUT_CUT;
	if (in->state == FLOW_CUT)
		bits |= RECORD_IN_CUT;
	if (peer == END_CLOSED)
		bits |= RECORD_PEER_CLOSED;
	if (peer == END_DIED)
		bits |= RECORD_PEER_DIED;
	return bits;
}

/* Publishes what the end's domain may know: one atomic word. */
static void publish(const struct channel *channel, enum channel_side side)
{
	const struct endpoint *end = &channel->end[side];
	struct slot_record *record;
	uint64_t bits = end->fate == END_HELD ? word_bits(channel, side) : RECORD_FREE;

	if (!end->owns_slot)
		return;
	record = machine_record(end->domain->guest->machine, end->slot);
	__atomic_store_n(&record->word, end->generation << RECORD_GENERATION_SHIFT | bits, __ATOMIC_SEQ_CST);
}

/* The words of a record that stand while it is not free. */
static void describe(const struct channel *channel, enum channel_side side)
{
	const struct endpoint *end = &channel->end[side], *peer = &channel->end[OTHER(side)];
	struct slot_record *record = machine_record(end->domain->guest->machine, end->slot);
	bool near = end->domain->guest == peer->domain->guest;
	policy_sid sid = side == SIDE_SERVER ? channel->client_sid : peer->domain->sid;
	const char *context = sid_context(end->domain->guest->monitor->posture->sids, sid);

	record->channel = channel->number;
	record->opened_at_policy = channel->opened_at_policy;
	record->peer_domain = near ? (uint16_t)peer->domain->index : RECORD_PEER_ELSEWHERE;
	record->peer_vcpu = (uint16_t)peer->domain->vcpu;
	memset(record->service, 0, sizeof(record->service));
	memset(record->peer_context, 0, sizeof(record->peer_context));
	memcpy(record->service, channel->service->name, strlen(channel->service->name));
	memcpy(record->peer_context, context, strlen(context));
}

enum window_part channel_part(const struct channel *channel, enum channel_side side)
{
	const struct flow *out = &channel->flow[side], *in = &channel->flow[OTHER(side)];

	if (channel->end[side].fate != END_HELD)
		return WINDOW_NONE;
	if (in->state == FLOW_OPEN)
		return WINDOW_ALL;
	if (out->state == FLOW_OPEN && out->flowctl)
		return WINDOW_HEADER;
	return WINDOW_NONE;
}

/* Makes the inbox slot of the end show what it has to. A window that cannot be changed is lost with its
 * guest. */
static void follow(struct registry *registry, struct channel *channel, enum channel_side side)
{
	struct endpoint *end = &channel->end[side], *peer = &channel->end[OTHER(side)];
	enum window_part part = channel_part(channel, side);

	if (end->part == part)
		return;
	if (end->domain->guest->lost) /* its whole inbox window is closed */
		end->part = WINDOW_NONE;
	else if (window_set(end->domain->guest->machine, end->slot, peer->domain->guest->machine, peer->slot,
	                    part) < 0)
		guest_lose(registry, end->domain->guest, "the host refused a mapping");
	else
		end->part = part;
}

/* ---- lists ---- */

static void list_add(struct registry *registry, struct channel *channel)
{
	channel->previous = registry->last;
	if (registry->last)
		registry->last->next = channel;
	else
		registry->first = channel;
	registry->last = channel;
	registry->n_channels++;
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

static bool take_slots(struct channel *channel, struct domain *client, struct domain *server)
{
	int mine = domain_take_slot(client, channel, SIDE_CLIENT);
	int theirs = mine < 0 ? -1 : domain_take_slot(server, channel, SIDE_SERVER);

	if (theirs < 0) {
		if (mine >= 0)
			domain_give_slot(client, (uint32_t)mine);
		return false;
	}
	end_init(&channel->end[SIDE_CLIENT], client, mine, END_HELD);
	end_init(&channel->end[SIDE_SERVER], server, theirs, END_NEW);
	return true;
}

int channel_create(struct registry *registry, struct domain *client, struct service *service,
                   const struct verdict *verdict, uint64_t policy_number, struct channel **out)
{
	struct channel *channel;

	CHECK(registry->held && !registry->gate_closed);
	if (service->n_backlog >= MAX_BACKLOG)
		return CALL_BUSY;
	channel = calloc(1, sizeof(*channel));
	if (!channel || !take_slots(channel, client, service->domain)) {
		free(channel);
		return CALL_NO_SLOT;
	}
	channel->number = ++registry->last_channel;
	channel->service = service;
	channel->client_sid = client->sid;
	channel->opened_at_policy = policy_number;
	for (unsigned side = 0; side < N_SIDES; side++) {
		channel->flow[side].state = verdict->open[side] ? FLOW_PENDING : FLOW_DENIED;
		channel->flow[side].flowctl = verdict->flowctl[side];
		describe(channel, (enum channel_side)side);
	}
	list_add(registry, channel);
	backlog_add(service, channel);
	publish(channel, SIDE_CLIENT);
	publish_backlog(service->domain);
	domain_wake(registry, service->domain);
	*out = channel;
	return CALL_OK;
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
	follow(registry, channel, SIDE_CLIENT);
	follow(registry, channel, SIDE_SERVER);
	publish(channel, SIDE_SERVER);
	publish(channel, SIDE_CLIENT);
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
	list_remove(registry, channel);
	channel->dead = true;
	if (!registry->pinned) {
		free(channel);
		return;
	}
	channel->next = registry->graveyard;
	registry->graveyard = channel;
}

/* Gives an end's slot back once the peer can no longer see its outbox. */
static void release_slot(struct channel *channel, enum channel_side side)
{
	struct endpoint *end = &channel->end[side];

	if (!end->owns_slot || end->fate == END_HELD || channel->end[OTHER(side)].part != WINDOW_NONE)
		return;
	end->owns_slot = false;
	domain_give_slot(end->domain, end->slot);
}

static uint64_t clamp(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

/* What the end sent in order and the peer has not taken stays readable until the peer closes. */
static bool leaves_unread(const struct channel *channel, enum channel_side side, enum end_fate fate)
{
	struct outbox_counters own, peer;

	if (fate != END_CLOSED || channel->flow[side].state != FLOW_OPEN ||
	    channel->end[OTHER(side)].fate != END_HELD)
		return false;
	if (!channel->flow[side].flowctl)
		return true;
	own = window_outbox_counters(channel->end[side].domain->guest->machine, channel->end[side].slot);
	peer = window_outbox_counters(channel->end[OTHER(side)].domain->guest->machine,
	                              channel->end[OTHER(side)].slot);
	return own.written != peer.read;
}

void channel_end(struct registry *registry, struct channel *channel, enum channel_side side,
                 enum end_fate fate)
{
	enum channel_side other = OTHER(side);
	bool stays = leaves_unread(channel, side, fate);

	CHECK(registry->held && channel->end[side].fate != END_CLOSED && channel->end[side].fate != END_DIED);
	if (!channel->accepted)
		leave_backlog(channel);
	for (unsigned s = 0; s < N_SIDES; s++)
		if (channel->flow[s].state == FLOW_OPEN)
			channel_count(channel, (enum channel_side)s);
	channel->end[side].fate = fate;
	if (channel->end[other].fate == END_NEW)
		channel->end[other].fate = END_CLOSED;
	if (flow_live(&channel->flow[side]) && !stays)
		channel->flow[side].state = FLOW_CLOSED;
	if (flow_live(&channel->flow[other]))
		channel->flow[other].state = FLOW_CLOSED;
	publish(channel, side);
	publish(channel, other);
	follow(registry, channel, side);
	follow(registry, channel, other);
	release_slot(channel, side);
	release_slot(channel, other);
	if (channel->end[other].fate == END_HELD)
		domain_wake(registry, channel->end[other].domain);
	else
		bury(registry, channel);
}

/* ---- the steps of a cut ---- */

void channel_publish_cut(struct registry *registry, struct channel *channel)
{
	CHECK(registry->held);
	if (!channel->accepted && !flow_live(&channel->flow[SIDE_CLIENT]) &&
	    !flow_live(&channel->flow[SIDE_SERVER])) {
		leave_backlog(channel);
		channel->end[SIDE_SERVER].fate = END_CLOSED;
		publish(channel, SIDE_SERVER);
		release_slot(channel, SIDE_SERVER);
	}
	publish(channel, SIDE_SERVER);
	publish(channel, SIDE_CLIENT);
}

/* Whether an end waits in its ring: one word of its header, read once. */
static uint32_t waits(const struct endpoint *end, bool for_room)
{
	const struct outbox_header *header;

	if (!end->owns_slot || end->fate != END_HELD)
		return 0;
	header = window_outbox(end->domain->guest->machine, end->slot);
	return __atomic_load_n(for_room ? &header->wants_room : &header->wants_message, __ATOMIC_RELAXED) !=
	       0;
}

static void count(struct channel *channel, enum channel_side side, struct flow_loss *unread)
{
	const struct endpoint *from = &channel->end[side], *to = &channel->end[OTHER(side)];
	struct flow *flow = &channel->flow[side];
	struct outbox_counters own = {0}, peer = {0};
	uint64_t most_bytes = RING_CELLS * (uint64_t)MAX_BULK_BYTES;

	if (from->owns_slot)
		own = window_outbox_counters(from->domain->guest->machine, from->slot);
	if (to->owns_slot)
		peer = window_outbox_counters(to->domain->guest->machine, to->slot);
	flow->messages = own.written;
	flow->bytes = own.written_bytes;
	unread->messages = own.written > peer.read ? clamp(own.written - peer.read, RING_CELLS) : 0;
	unread->bytes = unread->messages && own.written_bytes > peer.read_bytes
	                        ? clamp(own.written_bytes - peer.read_bytes, most_bytes)
	                        : 0;
	flow->unread_bytes = unread->bytes;
}

void channel_count(struct channel *channel, enum channel_side side)
{
	struct flow_loss unread = {0};

	if (channel->flow[side].state == FLOW_OPEN)
		count(channel, side, &unread);
}

struct flow_loss channel_inspect(struct channel *channel, enum channel_side side)
{
	struct flow_loss loss = {0};

	if (channel->end[SIDE_SERVER].fate == END_NEW || !channel->end[SIDE_SERVER].owns_slot) {
		loss.calls = side == SIDE_CLIENT; /* the connect itself */
		return loss;
	}
	count(channel, side, &loss);
	channel->flow[side].unread_bytes = 0;
	loss.calls = waits(&channel->end[side], true) + waits(&channel->end[OTHER(side)], false);
	return loss;
}
