/*
 * The two flows of a channel end, as pure functions over memory (guest/abi/ring.h
 * has the layout and the rules). No system call, no global: the domain library
 * drives it, and so do the host's unit tests.
 *
 * One thread per end. All loads of memory that a peer or the host writes go
 * through RING_LOAD and RING_COPY_IN, each word once per decision; a test build replaces
 * both by a shim that counts and lies. A struct ring is private memory:
 * what is in there can be believed.
 *
 * The two looks at the record (design: 7, I1; the host patches the record, then severs):
 *
 *	reader                                host, cutting
 *	1 word says RECORD_IN                 1 word: RECORD_IN_CUT
 *	2 load commit, copy the bytes         2 zero pages over the inbox slot
 *	3 word still says RECORD_IN?          3 raise host_events, wake
 *	  yes: hand on; no: CALL_REVOKED
 *
 * If any byte copied in 2 came from a zero page, the host's 1 came before, and 3 sees it.
 *
 * Results are CALL_ numbers; CALL_AGAIN: no message, or no room, at this look.
 */
#ifndef PORTCULLIS_LIB_RING_H
#define PORTCULLIS_LIB_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/abi/call.h"
#include "guest/abi/memory.h"
#include "guest/abi/record.h"
#include "guest/abi/ring.h"

#ifndef RING_LOAD
#define RING_LOAD(address) __atomic_load_n((address), __ATOMIC_ACQUIRE)
#define RING_COPY_IN(to, from, bytes) ring_copy((to), (from), (bytes))
#endif
#define RING_STORE(address, value) __atomic_store_n((address), (value), __ATOMIC_RELEASE)

struct ring {
	/* Set by ring_open. */
	struct outbox_header *out;      /* ours; cells and bulk area behind it */
	const struct outbox_header *in; /* the peer's */
	const uint64_t *word;           /* of our slot record */
	uint64_t bulk_bytes;            /* of each side */
	uint64_t opened;                /* the word at that time */
	uint64_t word_out, word_in;     /* what a word must be, under the masks below */
	bool lossless_out, lossless_in;
	bool broken; /* the peer broke the rules: nothing of it is looked at again */

	/* As writer. */
	uint32_t notified_message; /* the last wants_message that was answered */
	uint64_t sent, sent_bytes;
	uint64_t peer_read;            /* the peer's `read`, checked */
	uint64_t bulk_head;            /* position behind the last message; never wraps */
	uint64_t bulk_tail;            /* position up to which the peer has read */
	uint64_t bulk_at;              /* offset in the area that bulk_head stands for */
	uint64_t bulk_end[RING_CELLS]; /* of message n at n % RING_CELLS */

	/* As reader. */
	uint32_t notified_room; /* the last wants_room that was answered */
	uint32_t ticket;        /* for wants_message and wants_room: never the same twice in a row */
	uint64_t taken, taken_bytes;
	uint64_t lost;        /* of a flow without flowctl: overwritten before they were read */
	uint64_t next_length; /* of the message that was CALL_TOO_LONG */
};

#define RING_GENERATION (~UINT64_C(0) << RECORD_GENERATION_SHIFT)
#define RING_OUT_MASK                                                                                        \
	(RING_GENERATION | RECORD_LIVE | RECORD_CONNECTING | RECORD_OUT | RECORD_OUT_CUT |                   \
	 RECORD_PEER_CLOSED | RECORD_PEER_DIED)
#define RING_IN_MASK (RING_GENERATION | RECORD_LIVE | RECORD_CONNECTING | RECORD_IN | RECORD_IN_CUT)

/* Begins with a slot that nobody has used since the host zeroed it. */
void ring_open(struct ring *ring, struct outbox_header *out, const struct outbox_header *in,
               const uint64_t *word, uint64_t bulk_bytes);

/* CALL_OK, or why this direction cannot be used, from a word just read. */
int ring_out_state(const struct ring *ring, uint64_t word);
int ring_in_state(const struct ring *ring, uint64_t word);

/* Would ring_send of that many bytes, ring_receive, give something else than CALL_AGAIN? */
bool ring_can_send(struct ring *ring, size_t bytes);
bool ring_can_receive(const struct ring *ring);

/* Tells the peer that we are about to block; look again afterwards. And takes it back. */
void ring_want_message(struct ring *ring);
void ring_want_room(struct ring *ring);
void ring_unwant(struct ring *ring);

/* The paths that are not short: see ring.c. word and commit are what the caller has loaded. */
int ring_send_other(struct ring *ring, uint64_t word, const void *message, size_t bytes, bool *notify);
int64_t ring_receive_other(struct ring *ring, uint64_t word, uint64_t commit, void *buffer, size_t size,
                           bool *notify);
int64_t ring_receive_diode(struct ring *ring, uint64_t word, void *buffer, size_t size, bool *notify);
int64_t ring_receive_none(const struct ring *ring, uint64_t word);
int64_t ring_refuse(struct ring *ring, uint64_t word, void *buffer, size_t bytes);
bool ring_find_room(struct ring *ring);
int ring_no_room(struct ring *ring);
void ring_copy_long(void *to, const void *from, size_t bytes);

static inline struct ring_cell *ring_cells(const struct outbox_header *header)
{
	return (struct ring_cell *)((uintptr_t)header + SLOT_CELLS_OFFSET);
}

static inline uint8_t *ring_bulk(const struct outbox_header *header)
{
	return (uint8_t *)((uintptr_t)header + SLOT_BULK_OFFSET);
}

/*
 * Copies between private and shared memory, each byte once. The barrier keeps the
 * compiler from reading the source again for a later use of the copy.
 */
static inline void ring_copy(void *to, const void *from, size_t bytes)
{
	uint8_t *t = to;
	const uint8_t *f = from;

#ifdef __SANITIZE_THREAD__
	for (size_t i = 0; i < bytes; i++)
		__atomic_store_n(&t[i], __atomic_load_n(&f[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
#else
	if (bytes > RING_INLINE_BYTES) {
		ring_copy_long(to, from, bytes);
		return;
	}
	for (; bytes >= 8; bytes -= 8, t += 8, f += 8)
		__builtin_memcpy(t, f, 8);
	if (bytes & 4) {
		__builtin_memcpy(t, f, 4);
		t += 4;
		f += 4;
	}
	if (bytes & 2) {
		__builtin_memcpy(t, f, 2);
		t += 2;
		f += 2;
	}
	if (bytes & 1)
		*t = *f;
#endif
	asm volatile("" : : : "memory");
}

/* Publishes message sent + 1, whose bytes are in place. The counters come first: the host never sees them
 * lag. */
static inline void ring_publish(struct ring *ring, struct ring_cell *cell, size_t bytes)
{
	ring->sent++;
	ring->sent_bytes += bytes;
	RING_STORE(&ring->out->written, ring->sent);
	RING_STORE(&ring->out->written_bytes, ring->sent_bytes);
	(void)__atomic_exchange_n(&cell->commit, ring->sent << RING_LENGTH_BITS | bytes, __ATOMIC_SEQ_CST);
}

/* Then finds out whether the reader sleeps until it comes. */
static inline void ring_look_for_reader(struct ring *ring, bool *notify)
{
	uint32_t wants;

	if (!ring->lossless_out) { /* the peer's header is not ours to see */
		*notify = true;
		return;
	}
	wants = RING_LOAD(&ring->in->wants_message);
	if (wants != 0 && wants != ring->notified_message) {
		ring->notified_message = wants;
		*notify = true;
	}
}

/* Counts a message as read, and finds out whether the writer sleeps until it is. */
static inline void ring_advance(struct ring *ring, size_t bytes, bool *notify)
{
	uint32_t wants;

	ring->taken++;
	ring->taken_bytes += bytes;
	RING_STORE(&ring->out->read_bytes, ring->taken_bytes);
	if (!ring->lossless_in) {
		RING_STORE(&ring->out->read, ring->taken);
		return;
	}
	(void)__atomic_exchange_n(&ring->out->read, ring->taken, __ATOMIC_SEQ_CST);
	wants = RING_LOAD(&ring->in->wants_room);
	if (wants != 0 && wants != ring->notified_room) {
		ring->notified_room = wants;
		*notify = true;
	}
}

/*
 * Sends one message or nothing. *notify is set (never cleared) if the peer is to be
 * notified. CALL_AGAIN, CALL_TOO_LONG, CALL_REVOKED, CALL_PEER_CLOSED, CALL_PEER_DIED, CALL_NOT_OPEN,
 * CALL_BROKEN.
 */
static inline int ring_send(struct ring *ring, const void *message, size_t bytes, bool *notify)
{
	uint64_t word = RING_LOAD(ring->word);
	struct ring_cell *cell;

	if ((word & RING_OUT_MASK) != ring->word_out || bytes > RING_INLINE_BYTES || !ring->lossless_out)
		return ring_send_other(ring, word, message, bytes, notify);
	if (ring->sent - ring->peer_read >= RING_CELLS && !ring_find_room(ring))
		return ring_no_room(ring);
	cell = &ring_cells(ring->out)[(ring->sent + 1) % RING_CELLS];
	ring->bulk_end[(ring->sent + 1) % RING_CELLS] = ring->bulk_head;
	ring_copy(cell->bytes, message, bytes);
	ring_publish(ring, cell, bytes);
	ring_look_for_reader(ring, notify);
	return CALL_OK;
}

/*
 * Takes one message: its length, or a CALL_ error. CALL_TOO_LONG leaves the message
 * where it is, and its length in ring->next_length. Of a message that is not
 * handed on nothing stays in buffer.
 */
static inline int64_t ring_receive(struct ring *ring, void *buffer, size_t size, bool *notify)
{
	uint64_t word = RING_LOAD(ring->word), commit, length;
	const struct ring_cell *cell;

	if ((word & RING_IN_MASK) != ring->word_in)
		return ring_receive_none(ring, word);
	if (!ring->lossless_in)
		return ring_receive_diode(ring, word, buffer, size, notify);
	cell = &ring_cells(ring->in)[(ring->taken + 1) % RING_CELLS];
	commit = RING_LOAD(&cell->commit);
	length = commit - ((ring->taken + 1) << RING_LENGTH_BITS);
	if (length > RING_INLINE_BYTES || length > size)
		return ring_receive_other(ring, word, commit, buffer, size, notify);
	RING_COPY_IN(buffer, cell->bytes, length);
	word = RING_LOAD(ring->word);
	if ((word & RING_IN_MASK) != ring->word_in)
		return ring_refuse(ring, word, buffer, length);
	ring_advance(ring, length, notify);
	return (int64_t)length;
}

#endif
