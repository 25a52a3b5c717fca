/*
 * Sending, receiving, and waiting for either.
 *
 * To block: take the event count, say at the ring that we are about to block, look
 * again, and only then sleep until the count changes (ring.c and the kernel's schedule.c
 * say why nothing is lost between). A cut, a close and a death change the count too.
 */
#include "guest/lib/domain.h"

static int64_t receive(struct channel *channel, void *buffer, size_t size)
{
	bool notify = false;
	int64_t result = ring_receive(&channel->ring, buffer, size, &notify);

	if (notify)
		channel_notify(channel);
	return result;
}

/* One look of a receive, or of a call that waits for its reply: a cut of the flow that took the request ends
 * it too. */
static int64_t receive_look(struct channel *channel, void *buffer, size_t size, bool is_call)
{
	int64_t result = receive(channel, buffer, size);

	if (result == CALL_AGAIN && is_call &&
	    ring_out_state(&channel->ring, RING_LOAD(channel->ring.word)) == CALL_REVOKED)
		return CALL_REVOKED;
	return result;
}

static int64_t receive_blocking(struct channel *channel, void *buffer, size_t size, uint64_t timeout_ns,
                                bool is_call)
{
	uint64_t deadline, seen;
	bool awake = true;
	int64_t result;

	for (struct spin spin = spin_begin(); spin_more(&spin);) {
		result = receive_look(channel, buffer, size, is_call);
		if (result != CALL_AGAIN)
			return result;
	}
	deadline = deadline_after(timeout_ns);
	for (;;) {
		seen = events_seen();
		ring_want_message(&channel->ring);
		result = receive_look(channel, buffer, size, is_call);
		if (result != CALL_AGAIN || !awake)
			break;
		awake = wait_events(seen, deadline);
	}
	ring_unwant(&channel->ring);
	return result == CALL_AGAIN ? CALL_TIMED_OUT : result;
}

int64_t channel_receive(struct channel *channel, void *buffer, size_t size, uint64_t timeout_ns)
{
	int64_t result = receive(channel, buffer, size);

	if (result != CALL_AGAIN || timeout_ns == 0)
		return result;
	return receive_blocking(channel, buffer, size, timeout_ns, false);
}

static int send(struct channel *channel, const void *message, size_t bytes)
{
	bool notify = false;
	int result = ring_send(&channel->ring, message, bytes, &notify);

	if (notify)
		channel_notify(channel);
	return result;
}

static int send_blocking(struct channel *channel, const void *message, size_t bytes, uint64_t timeout_ns)
{
	uint64_t deadline, seen;
	bool awake = true;
	int result;

	for (struct spin spin = spin_begin(); spin_more(&spin);) {
		result = send(channel, message, bytes);
		if (result != CALL_AGAIN)
			return result;
	}
	deadline = deadline_after(timeout_ns);
	for (;;) {
		seen = events_seen();
		ring_want_room(&channel->ring);
		result = send(channel, message, bytes);
		if (result != CALL_AGAIN || !awake)
			break;
		awake = wait_events(seen, deadline);
	}
	ring_unwant(&channel->ring);
	return result == CALL_AGAIN ? CALL_TIMED_OUT : result;
}

int channel_send(struct channel *channel, const void *message, size_t bytes, uint64_t timeout_ns)
{
	int result = send(channel, message, bytes);

	if (result != CALL_AGAIN || timeout_ns == 0)
		return result;
	return send_blocking(channel, message, bytes, timeout_ns);
}

int64_t channel_call(struct channel *channel, const void *request, size_t request_bytes, void *reply,
                     size_t reply_size, uint64_t timeout_ns, bool *sent)
{
	uint64_t deadline = deadline_after(timeout_ns);
	int result = channel_send(channel, request, request_bytes, timeout_ns);

	if (sent != NULL)
		*sent = result == CALL_OK;
	if (result != CALL_OK)
		return result;
	if (deadline != FOREVER) {
		uint64_t now = time_now();

		timeout_ns = now < deadline ? deadline - now : 0;
	}
	return receive_blocking(channel, reply, reply_size, timeout_ns, true);
}

int channel_stream(struct channel *channel, const void *data, size_t bytes, uint64_t timeout_ns,
                   size_t *accepted)
{
	size_t most = channel->ring.bulk_bytes / 2, done = 0;
	int result = CALL_OK;

	if (most < RING_INLINE_BYTES)
		most = RING_INLINE_BYTES;
	while (done < bytes && result == CALL_OK) {
		size_t n = bytes - done < most ? bytes - done : most;

		result = channel_send(channel, (const uint8_t *)data + done, n, timeout_ns);
		done += result == CALL_OK ? n : 0;
	}
	if (accepted != NULL)
		*accepted = done;
	return result;
}

/* ---- several channels ---- */

static bool has_ended(const struct ring *ring)
{
	uint64_t word = RING_LOAD(ring->word);

	if (word & (RECORD_PEER_CLOSED | RECORD_PEER_DIED))
		return true;
	return ((ring->opened & RECORD_OUT) && ring_out_state(ring, word) != CALL_OK) ||
	       ((ring->opened & RECORD_IN) && ring_in_state(ring, word) != CALL_OK);
}

static int look(struct channel_poll *items, size_t n_items)
{
	int n = 0;

	for (size_t i = 0; i < n_items; i++) {
		struct channel_poll *item = &items[i];

		item->ready = 0;
		if ((item->want & POLL_ACCEPT) &&
		    __atomic_load_n(&DOMAIN_PAGE->accepts_waiting, __ATOMIC_ACQUIRE) != 0)
			item->ready |= POLL_ACCEPT;
		if ((item->want & POLL_MESSAGE) && ring_can_receive(&item->channel->ring))
			item->ready |= POLL_MESSAGE;
		if ((item->want & POLL_ROOM) && ring_can_send(&item->channel->ring, item->bytes))
			item->ready |= POLL_ROOM;
		if ((item->want & POLL_END) && has_ended(&item->channel->ring))
			item->ready |= POLL_END;
		n += item->ready != 0;
	}
	return n;
}

static void want_all(const struct channel_poll *items, size_t n_items, bool want)
{
	for (size_t i = 0; i < n_items; i++) {
		struct channel *channel = items[i].channel;

		if (!(items[i].want & (POLL_MESSAGE | POLL_ROOM)) || !channel->open)
			continue;
		if (!want) {
			ring_unwant(&channel->ring);
			continue;
		}
		if (items[i].want & POLL_MESSAGE)
			ring_want_message(&channel->ring);
		if (items[i].want & POLL_ROOM)
			ring_want_room(&channel->ring);
	}
}

int channel_poll(struct channel_poll *items, size_t n_items, uint64_t timeout_ns)
{
	uint64_t deadline, seen;
	bool awake = true;
	int n = look(items, n_items);

	if (n != 0 || timeout_ns == 0)
		return n;
	for (struct spin spin = spin_begin(); n == 0 && spin_more(&spin);)
		n = look(items, n_items);
	if (n != 0)
		return n;
	deadline = deadline_after(timeout_ns);
	for (;;) {
		seen = events_seen();
		want_all(items, n_items, true);
		n = look(items, n_items);
		if (n != 0 || !awake)
			break;
		awake = wait_events(seen, deadline);
	}
	want_all(items, n_items, false);
	return n == 0 ? CALL_TIMED_OUT : n;
}
