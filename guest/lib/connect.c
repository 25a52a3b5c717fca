/*
 * Channels from connect and accept to close; what is known of one.
 *
 * The private state of slot i of this domain stands at channels[i], or where there are fewer of them than
 * slots, at the next that is free. It stands there for good: a handle that was closed is recognised, not
 * followed into freed memory.
 */
#include "guest/lib/domain.h"

static struct channel *channels;
static uint32_t n_channels;

/* A connect that timed out before the host had decided: its outcome must still be taken. 0: none. */
static uint64_t abandoned_ticket;

void channels_start(void)
{
	uint64_t fit = heap_left() / 2 / sizeof *channels;

	n_channels = DOMAIN_BOOT->n_slots < fit ? DOMAIN_BOOT->n_slots : (uint32_t)fit;
	channels = heap_alloc(n_channels * sizeof *channels);
}

size_t channel_max_bytes(void)
{
	return DOMAIN_BOOT->bulk_bytes > RING_INLINE_BYTES ? DOMAIN_BOOT->bulk_bytes : RING_INLINE_BYTES;
}

static const struct slot_record *record_of(uint32_t slot)
{
	return (const struct slot_record *)(VA_RECORD + RECORD_OFFSET(slot - DOMAIN_BOOT->first_slot));
}

/* The host chooses slots; however few states there are, each may be any slot's. NULL: all are in use. */
static struct channel *state_of(uint32_t i)
{
	for (uint32_t n = 0; n < n_channels; n++) {
		struct channel *channel = &channels[(i + n) % n_channels];

		if (!channel->open)
			return channel;
	}
	return NULL;
}

/* The slot is this domain's now: begin with it. Beyond what the heap has state for, it goes back. */
static int begin(uint32_t slot, struct channel **result)
{
	const struct boot_record *boot = DOMAIN_BOOT;
	struct channel *channel = state_of(slot - boot->first_slot);
	uint64_t bulk_bytes;

	if (!channel) {
		(void)system_call(SYS_CLOSE, slot, 0);
		return CALL_NO_SLOT;
	}
	channel->slot = slot;
	channel->open = true;
	channel->record = record_of(slot);
	bulk_bytes = channel->record->bulk_bytes;
	if (bulk_bytes > boot->bulk_bytes)
		bulk_bytes = boot->bulk_bytes;
	ring_open(&channel->ring, (struct outbox_header *)(VA_OUTBOX + slot * boot->slot_stride),
	          (const struct outbox_header *)(VA_INBOX + slot * boot->slot_stride), &channel->record->word,
	          bulk_bytes);
	*result = channel;
	return CALL_OK;
}

/* Waits until connect `ticket` has an outcome. */
static bool wait_outcome(uint64_t ticket, uint64_t deadline)
{
	uint64_t seen;

	do {
		seen = events_seen();
		if (__atomic_load_n(&DOMAIN_PAGE->connect_ticket, __ATOMIC_ACQUIRE) >= ticket)
			return true;
	} while (wait_events(seen, deadline));
	return __atomic_load_n(&DOMAIN_PAGE->connect_ticket, __ATOMIC_ACQUIRE) >= ticket;
}

/* What the word of a slot that is being connected says: CALL_PENDING while nobody has accepted. */
static int connect_state(uint64_t word)
{
	if (!(word & RECORD_CONNECTING))
		return (word & (RECORD_OUT_CUT | RECORD_IN_CUT)) && !(word & (RECORD_OUT | RECORD_IN))
		               ? CALL_REVOKED
		               : CALL_OK;
	if (word & (RECORD_OUT_CUT | RECORD_IN_CUT))
		return CALL_REVOKED;
	if (word & RECORD_PEER_DIED)
		return CALL_PEER_DIED;
	return word & RECORD_PEER_CLOSED ? CALL_PEER_CLOSED : CALL_PENDING;
}

/* A cut that finds us here is told as one of a blocked call: the ring says that we wait. */
int channel_await(struct channel *channel, uint64_t timeout_ns)
{
	struct ring *ring = &channel->ring;
	uint64_t deadline, seen;
	bool awake = timeout_ns != 0;
	int state;

	if (!channel->open)
		return CALL_NOT_OPEN;
	state = connect_state(RING_LOAD(ring->word));
	if (state != CALL_PENDING || !awake)
		return state == CALL_PENDING ? CALL_AGAIN : state;
	deadline = deadline_after(timeout_ns);
	for (;;) {
		seen = events_seen();
		if (ring->opened & RECORD_OUT)
			ring_want_room(ring);
		else
			ring_want_message(ring);
		state = connect_state(RING_LOAD(ring->word));
		if (state != CALL_PENDING || !awake)
			break;
		awake = wait_events(seen, deadline);
	}
	ring_unwant(ring);
	return state == CALL_PENDING ? CALL_TIMED_OUT : state;
}

/* False while the host still has to decide the connect that was given up. */
static bool settle_abandoned(uint64_t deadline)
{
	if (abandoned_ticket == 0)
		return true;
	if (!wait_outcome(abandoned_ticket, deadline))
		return false;
	abandoned_ticket = 0;
	if (DOMAIN_PAGE->connect_result == CALL_OK)
		(void)system_call(SYS_CLOSE, DOMAIN_PAGE->connect_slot, 0);
	return true;
}

static int connect(uint64_t number, uint64_t parent, const char *service, uint64_t timeout_ns,
                   struct channel **channel)
{
	uint64_t deadline = deadline_after(timeout_ns);
	size_t bytes = strlen(service);
	int64_t ticket;
	int result;

	if (bytes == 0 || bytes >= MAX_PATH_BYTES)
		return CALL_BAD_ARGUMENT;
	if (!settle_abandoned(deadline))
		return CALL_TIMED_OUT;
	memcpy(DOMAIN_CALL->text, service, bytes);
	ticket = system_call(number, bytes, parent);
	if (ticket < 0)
		return (int)ticket;
	if (!wait_outcome((uint64_t)ticket, deadline)) {
		abandoned_ticket = (uint64_t)ticket;
		return CALL_TIMED_OUT;
	}
	result = DOMAIN_PAGE->connect_result;
	return result == CALL_OK ? begin(DOMAIN_PAGE->connect_slot, channel) : result;
}

int channel_connect(const char *service, uint64_t timeout_ns, struct channel **channel)
{
	return connect(SYS_CONNECT, 0, service, timeout_ns, channel);
}

int channel_connect_for(const char *service, const struct channel *client, uint64_t timeout_ns,
                        struct channel **channel)
{
	if (!client->open)
		return CALL_NOT_OPEN;
	return connect(SYS_CONNECT_FOR, client->slot, service, timeout_ns, channel);
}

int channel_accept(uint64_t timeout_ns, struct channel **channel)
{
	uint64_t deadline = deadline_after(timeout_ns), seen;
	int64_t slot;

	do {
		seen = events_seen();
		if (__atomic_load_n(&DOMAIN_PAGE->accepts_waiting, __ATOMIC_ACQUIRE) == 0)
			continue;
		slot = system_call(SYS_ACCEPT, 0, 0);
		if (slot >= 0)
			return begin((uint32_t)slot, channel);
		if (slot != CALL_AGAIN)
			return (int)slot;
	} while (wait_events(seen, deadline));
	return timeout_ns == 0 ? CALL_AGAIN : CALL_TIMED_OUT;
}

int channel_close(struct channel *channel)
{
	if (!channel->open)
		return CALL_NOT_OPEN;
	channel->open = false;
	channel->ring.word_out = channel->ring.word_in = ~UINT64_C(0);
	channel->ring.opened = ~UINT64_C(0); /* no word is of that generation: CALL_NOT_OPEN */
	return (int)system_call(SYS_CLOSE, channel->slot, 0);
}

int channel_info(const struct channel *channel, struct channel_info *info)
{
	const struct ring *ring = &channel->ring;
	const struct slot_record *record = channel->record;
	uint64_t word;

	if (!channel->open)
		return CALL_NOT_OPEN;
	word = __atomic_load_n(&record->word, __ATOMIC_ACQUIRE);
	*info = (struct channel_info){
		.service = record->service,
		.peer_context = record->peer_context,
		.channel = record->channel,
		.opened_at_policy = record->opened_at_policy,
		.accepted = (word & RECORD_SERVER) != 0,
		.waiting = connect_state(word) == CALL_PENDING,
		.send_state = ring_out_state(ring, word),
		.receive_state = ring_in_state(ring, word),
		.lossless_send = ring->lossless_out,
		.lossless_receive = ring->lossless_in,
		.peer_closed = (word & RECORD_PEER_CLOSED) != 0,
		.peer_died = (word & RECORD_PEER_DIED) != 0,
		.sent = ring->sent,
		.sent_bytes = ring->sent_bytes,
		.taken_by_peer = ring->peer_read,
		.received = ring->taken,
		.received_bytes = ring->taken_bytes,
		.lost = ring->lost,
		.next_bytes = ring->next_length,
		.max_bytes = ring->bulk_bytes > RING_INLINE_BYTES ? ring->bulk_bytes : RING_INLINE_BYTES,
	};
	return CALL_OK;
}
