#include "monitor/channel_memory.h"

#include <string.h>

#include "guest/abi/record.h"
#include "guest/abi/ring.h"
#include "monitor/bells.h"
#include "monitor/guest.h"
#include "monitor/posture.h"

bool channel_hears(const struct channel *channel, enum channel_side side)
{
	const struct flow *out = &channel->flow[side], *in = &channel->flow[OTHER(side)];

	return flow_live(in) || in->state == FLOW_CLOSED ||
	       (out->flowctl && out->state != FLOW_DENIED && out->state != FLOW_CUT);
}

/* What the record says of flows that were cut. */
static uint64_t cut_bits(const struct channel *channel, enum channel_side side)
{
	return (channel->flow[side].state == FLOW_CUT ? RECORD_OUT_CUT : 0) |
	       (channel->flow[OTHER(side)].state == FLOW_CUT ? RECORD_IN_CUT : 0);
}

/* What it says of the peer and of flows that are open. */
static uint64_t open_bits(const struct channel *channel, enum channel_side side)
{
	const struct flow *out = &channel->flow[side], *in = &channel->flow[OTHER(side)];
	enum end_fate peer = channel->end[OTHER(side)].fate;
	uint64_t bits = 0;

	if (channel->refused || (!channel->accepted && (flow_live(out) || flow_live(in))))
		bits |= RECORD_CONNECTING;
	if (flow_live(out))
		bits |= RECORD_OUT | (out->flowctl ? RECORD_OUT_FLOWCTL : 0);
	if (flow_live(in))
		bits |= RECORD_IN | (in->flowctl ? RECORD_IN_FLOWCTL : 0);
	if (out->state == FLOW_OPEN || (in->state == FLOW_OPEN && in->flowctl && peer == END_HELD))
		bits |= RECORD_NOTIFY;
	if (peer == END_CLOSED)
		bits |= RECORD_PEER_CLOSED;
	if (peer == END_DIED)
		bits |= RECORD_PEER_DIED;
	return bits;
}

/* The state bits of an end's record; see guest/abi/record.h. */
static uint64_t word_bits(const struct channel *channel, enum channel_side side)
{
	uint64_t bits = RECORD_LIVE | (side == SIDE_SERVER ? RECORD_SERVER : 0) | cut_bits(channel, side);

	if (channel_hears(channel, side))
		return bits | open_bits(channel, side);
	return bits | (flow_live(&channel->flow[side]) ? RECORD_OUT | RECORD_NOTIFY : 0);
}

void channel_publish(struct channel *channel, enum channel_side side)
{
	const struct endpoint *end = &channel->end[side];
	struct slot_record *record;
	uint64_t bits = end->fate == END_HELD ? word_bits(channel, side) : RECORD_FREE;

	if (bits & RECORD_NOTIFY)
		bells_bind(channel, side);
	if (end->owns_slot && !end->domain->guest->gone) {
		record = machine_record(end->domain->guest->machine, end->slot);
		__atomic_store_n(&record->word, end->generation << RECORD_GENERATION_SHIFT | bits,
		                 __ATOMIC_SEQ_CST);
	}
	bells_unbind(channel, side, bits & RECORD_NOTIFY);
}

/*
 * Guests may have areas of different sizes. The window of an end shows as much of the peer's slot as a slot
 * of its own holds (window_set), and no message is longer than the smaller area: so no offset that either
 * side accepts leads out of what it can see, and each side checks against the number that the host gave it.
 */
static uint64_t channel_bulk_bytes(const struct channel *channel)
{
	uint64_t client = machine_bulk_bytes(channel->end[SIDE_CLIENT].domain->guest->machine);
	uint64_t server = machine_bulk_bytes(channel->end[SIDE_SERVER].domain->guest->machine);

	return client < server ? client : server;
}

void channel_describe(const struct channel *channel, enum channel_side side)
{
	const struct endpoint *end = &channel->end[side], *peer = &channel->end[OTHER(side)];
	struct slot_record *record = machine_record(end->domain->guest->machine, end->slot);
	bool near = end->domain->guest == peer->domain->guest;
	policy_sid sid = side == SIDE_SERVER ? channel->client_sid : peer->domain->sid;
	const char *context = sid_context(end->domain->guest->monitor->posture->sids, sid);

	record->channel = channel->number;
	record->bulk_bytes = (uint32_t)channel_bulk_bytes(channel);
	record->opened_at_policy = channel->opened_at_policy;
	record->peer_domain = near ? (uint16_t)peer->domain->index : RECORD_PEER_ELSEWHERE;
	record->doorbell = near ? 0 : peer->domain->guest->number;
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
void channel_shows(struct endpoint *end, enum window_part part)
{
	end->part = part;
	end->domain->guest->shown[end->slot] = (uint8_t)part;
}

void channel_follow(struct registry *registry, struct channel *channel, enum channel_side side)
{
	struct endpoint *end = &channel->end[side], *peer = &channel->end[OTHER(side)];
	enum window_part part = channel_part(channel, side);

	if (end->part == part)
		return;
	if (!end->domain->guest->lost && window_set(end->domain->guest->machine, end->slot,
	                                            peer->domain->guest->machine, peer->slot, part) < 0)
		guest_lose(registry, end->domain->guest, "the host refused a mapping");
	/* Of a lost guest the whole inbox window is closed. */
	channel_shows(end, end->domain->guest->lost ? WINDOW_NONE : part);
}

void channel_fetch_records(const struct channel *channel)
{
	for (unsigned side = 0; side < N_SIDES; side++)
		if (channel->end[side].owns_slot)
			__builtin_prefetch(machine_record(channel->end[side].domain->guest->machine,
			                                  channel->end[side].slot),
			                   1);
}

void channel_fetch_headers(const struct channel *channel)
{
	for (unsigned side = 0; side < N_SIDES; side++) {
		const struct endpoint *end = &channel->end[side];
		const struct outbox_header *header;

		if (!end->owns_slot)
			continue;
		header = window_outbox(end->domain->guest->machine, end->slot);
		__builtin_prefetch(&header->written);
		__builtin_prefetch(&header->wants_room);
		__builtin_prefetch(&header->read);
		__builtin_prefetch(&header->wants_message);
	}
}

static uint64_t clamp(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

bool channel_has_unread(const struct channel *channel, enum channel_side side)
{
	const struct endpoint *from = &channel->end[side], *to = &channel->end[OTHER(side)];
	uint64_t read = 0;

	if (channel->accepted) /* before, whatever stands there is not true */
		read = window_outbox_counters(to->domain->guest->machine, to->slot).read;
	return window_outbox_counters(from->domain->guest->machine, from->slot).written != read;
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
	struct flow_count *seen = &channel->count[side];
	struct outbox_counters own = {0}, peer = {0};
	uint64_t most_bytes = RING_CELLS * (uint64_t)MAX_BULK_BYTES;

	if (from->owns_slot)
		own = window_outbox_counters(from->domain->guest->machine, from->slot);
	if (to->owns_slot)
		peer = window_outbox_counters(to->domain->guest->machine, to->slot);
	seen->messages = clamp(own.written, INT64_MAX); /* JSON's integers are signed */
	seen->bytes = clamp(own.written_bytes, INT64_MAX);
	unread->messages = own.written > peer.read ? clamp(own.written - peer.read, RING_CELLS) : 0;
	unread->bytes = unread->messages && own.written_bytes > peer.read_bytes
	                        ? clamp(own.written_bytes - peer.read_bytes, most_bytes)
	                        : 0;
	seen->unread_bytes = unread->bytes;
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

	/* A channel that leads nowhere is not told of; one that a server could have come to is. */
	if (!channel->end[SIDE_SERVER].owns_slot && !channel->cut_waiting)
		return loss;
	count(channel, side, &loss);
	channel->count[side].unread_bytes = 0;
	loss.calls += waits(&channel->end[side], true) + waits(&channel->end[OTHER(side)], false);
	return loss;
}
