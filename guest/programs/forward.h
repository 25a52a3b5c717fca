/*
 * Passing messages on, from one channel to another or back into the same one,
 * without ever waiting: what echo and relay have in common. A message that was taken
 * and finds no room waits in a buffer of its own; while it does, no further one is taken.
 */
#ifndef PORTCULLIS_PROGRAMS_FORWARD_H
#define PORTCULLIS_PROGRAMS_FORWARD_H

#include <portcullis.h>

struct forward {
	struct channel *from, *to;
	uint8_t *kept; /* the message that waits for room; NULL: none */
	size_t kept_bytes;
	uint64_t messages, bytes; /* passed on */
	bool lost;                /* a message was taken that could not be passed on */
};

struct buffer {
	struct buffer *next;
};

/* Buffers of one longest message each; given back ones are used again. */
static struct buffer *free_buffers;

static inline uint8_t *buffer_get(void)
{
	struct buffer *buffer = free_buffers;

	if (buffer == NULL)
		return heap_alloc(channel_max_bytes());
	free_buffers = buffer->next;
	return (uint8_t *)buffer;
}

static inline void buffer_put(uint8_t *bytes)
{
	struct buffer *buffer = (struct buffer *)bytes;

	buffer->next = free_buffers;
	free_buffers = buffer;
}

static inline void forward_begin(struct forward *forward, struct channel *from, struct channel *to)
{
	*forward = (struct forward){.from = from, .to = to};
}

static inline void forward_end(struct forward *forward)
{
	if (forward->kept != NULL)
		buffer_put(forward->kept);
	forward->kept = NULL;
}

/* What to poll for so that forward_step can go on. */
static inline struct channel_poll forward_wants(const struct forward *forward)
{
	if (forward->kept != NULL)
		return (struct channel_poll){
			.channel = forward->to, .bytes = forward->kept_bytes, .want = POLL_ROOM | POLL_END};
	return (struct channel_poll){.channel = forward->from, .want = POLL_MESSAGE | POLL_END};
}

/* Sends, or keeps for later in a buffer. CALL_NO_SLOT: the heap is too small for one more buffer. */
static inline int forward_send(struct forward *forward, const uint8_t *message, size_t bytes)
{
	int result = channel_try_send(forward->to, message, bytes);

	if (result == CALL_OK) {
		forward->messages++;
		forward->bytes += bytes;
		return CALL_OK;
	}
	if (result == CALL_AGAIN && forward->kept != NULL)
		return result;
	if (result == CALL_AGAIN)
		forward->kept = buffer_get();
	if (forward->kept == NULL || result != CALL_AGAIN) {
		forward->lost = true;
		return result == CALL_AGAIN ? CALL_NO_SLOT : result;
	}
	memcpy(forward->kept, message, bytes);
	forward->kept_bytes = bytes;
	return CALL_AGAIN;
}

/*
 * Passes on up to `most` messages. CALL_OK: more may be there. CALL_AGAIN: poll for
 * forward_wants. Anything else ends it: CALL_PEER_CLOSED comes from the reading end only when all that
 * it sent has been passed on.
 */
static inline int forward_step(struct forward *forward, int most)
{
	static uint8_t *scratch;
	int64_t bytes;
	int result = CALL_OK;

	if (scratch == NULL)
		scratch = buffer_get();
	if (scratch == NULL)
		return CALL_NO_SLOT;
	if (forward->kept != NULL) {
		result = forward_send(forward, forward->kept, forward->kept_bytes);
		if (result == CALL_OK)
			forward_end(forward);
	}
	for (; most > 0 && result == CALL_OK; most--) {
		bytes = channel_try_receive(forward->from, scratch, channel_max_bytes());
		result = bytes < 0 ? (int)bytes : forward_send(forward, scratch, (size_t)bytes);
	}
	return result;
}

/*
 * After POLL_END at a step that found nothing: why no message will pass any more. CALL_AGAIN while
 * one still waits for room.
 */
static inline int forward_ended(const struct forward *forward, struct channel *channel)
{
	struct channel_info info;

	if (forward->kept != NULL)
		return CALL_AGAIN;
	if (channel_info(channel, &info) != CALL_OK)
		return CALL_NOT_OPEN;
	if (info.send_state == CALL_REVOKED || info.receive_state == CALL_REVOKED)
		return CALL_REVOKED;
	return info.peer_died ? CALL_PEER_DIED : CALL_PEER_CLOSED;
}

#endif
