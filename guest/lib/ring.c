/*
 * The paths of a ring that are not short: bulk messages, flows without flowctl,
 * and what is to be said when a flow is cut, closed or broken (ring.h).
 */
#include "guest/lib/ring.h"

#define SEQUENCE_MASK (~UINT64_C(0) >> RING_LENGTH_BITS)
#define SEQUENCE_HALF (SEQUENCE_MASK / 2)
#define BULK_ALIGN 64u
#define DIODE_TRIES 4 /* overruns in one call; after that the caller looks at its own deadline */

void ring_open(struct ring *ring, struct outbox_header *out, const struct outbox_header *in,
               const uint64_t *word, uint64_t bulk_bytes)
{
	uint64_t opened = RING_LOAD(word);

	*ring = (struct ring){
		.out = out,
		.in = in,
		.word = word,
		.bulk_bytes = bulk_bytes,
		.opened = opened,
		.word_out = (opened & RING_GENERATION) | RECORD_LIVE | RECORD_OUT,
		.word_in = (opened & RING_GENERATION) | RECORD_LIVE | RECORD_IN,
		.lossless_out = (opened & RECORD_OUT_FLOWCTL) != 0,
		.lossless_in = (opened & RECORD_IN_FLOWCTL) != 0,
	};
}

static bool is_ours(const struct ring *ring, uint64_t word)
{
	return ((word ^ ring->opened) & RING_GENERATION) == 0 && (word & RECORD_LIVE);
}

int ring_out_state(const struct ring *ring, uint64_t word)
{
	if (!is_ours(ring, word))
		return CALL_NOT_OPEN;
	if (word & RECORD_OUT_CUT)
		return CALL_REVOKED;
	if (word & RECORD_PEER_DIED)
		return CALL_PEER_DIED;
	if (word & RECORD_PEER_CLOSED)
		return CALL_PEER_CLOSED;
	if (!(word & RECORD_OUT))
		return CALL_NOT_OPEN;
	return ring->broken ? CALL_BROKEN : CALL_OK;
}

/* A peer that is gone is no error here while RECORD_IN stands: what it sent is read first. */
int ring_in_state(const struct ring *ring, uint64_t word)
{
	if (!is_ours(ring, word))
		return CALL_NOT_OPEN;
	if (word & RECORD_IN_CUT)
		return CALL_REVOKED;
	if (ring->broken)
		return CALL_BROKEN;
	if (word & RECORD_IN)
		return CALL_OK;
	/* A peer that was gone before this end looked for the first time is told as one that left later. */
	if (!(ring->opened & (RECORD_IN | RECORD_PEER_CLOSED | RECORD_PEER_DIED)))
		return CALL_NOT_OPEN;
	return word & RECORD_PEER_DIED ? CALL_PEER_DIED : CALL_PEER_CLOSED;
}

/*
 * Something in the peer's memory cannot be. Zero pages of a cut look like that
 * too, and then the record, patched before, says so.
 */
static void break_unless_cut(struct ring *ring, int state)
{
	if (state != CALL_OK)
		return;
	ring->broken = true;
	ring->word_out = ~UINT64_C(0); /* matches no word: the short paths are closed */
	ring->word_in = ~UINT64_C(0);
}

static int64_t refuse_reading(struct ring *ring)
{
	int state = ring_in_state(ring, RING_LOAD(ring->word));

	break_unless_cut(ring, state);
	return state != CALL_OK ? state : CALL_BROKEN;
}

int64_t ring_refuse(struct ring *ring, uint64_t word, void *buffer, size_t bytes)
{
	int state = ring_in_state(ring, word);

	__builtin_memset(buffer, 0, bytes);
	return state != CALL_OK ? state : CALL_REVOKED;
}

/* ---- writing ---- */

/* Looks how far the peer has read; says whether a cell is free. */
bool ring_find_room(struct ring *ring)
{
	uint64_t read = RING_LOAD(&ring->in->read);

	if (read - ring->peer_read > ring->sent - ring->peer_read) {
		break_unless_cut(ring, ring_out_state(ring, RING_LOAD(ring->word)));
		return false;
	}
	if (read != ring->peer_read) {
		ring->peer_read = read;
		ring->bulk_tail = ring->bulk_end[read % RING_CELLS];
	}
	return ring->sent - ring->peer_read < RING_CELLS;
}

int ring_no_room(struct ring *ring)
{
	int state = ring_out_state(ring, RING_LOAD(ring->word));

	return state != CALL_OK ? state : CALL_AGAIN;
}

static uint64_t bulk_size(size_t bytes)
{
	return (bytes + BULK_ALIGN - 1) & ~(uint64_t)(BULK_ALIGN - 1);
}

/*
 * Where in the bulk area the next message goes. Never across the end: the rest of the area is
 * skipped, and counts as used until the message behind it is read. With nothing
 * in flight it starts at 0, so that one of the greatest length always fits.
 *
 *	used + skip + size <= bulk_bytes, so the message ends at most where the oldest
 *	unread one begins; at + size <= bulk_bytes, so it ends within the area.
 */
static bool place(const struct ring *ring, uint64_t size, uint64_t *at, uint64_t *skip)
{
	uint64_t used = ring->bulk_head - ring->bulk_tail;

	*at = used == 0 ? 0 : ring->bulk_at;
	*skip = 0;
	if (*at + size > ring->bulk_bytes) {
		*skip = ring->bulk_bytes - *at;
		*at = 0;
	}
	return used + *skip + size <= ring->bulk_bytes;
}

static bool has_room(const struct ring *ring, size_t bytes)
{
	uint64_t at, skip;

	if (ring->sent - ring->peer_read >= RING_CELLS)
		return false;
	return bytes <= RING_INLINE_BYTES || place(ring, bulk_size(bytes), &at, &skip);
}

/*
 * While nobody has accepted there is nothing of the peer to look at, and the host would have to take a zero
 *page that was looked at out of the guest's tables again.
 *
 *	client                                host, accepting; then the server
 *	1 commit (exchange)                   1 windows; then the word no longer says CONNECTING
 *	2 does the word say CONNECTING?       2 accept returns: looks at the ring
 *	  no: look whether the reader sleeps  3 wants_message (exchange), looks again, sleeps
 *
 * If it still says so, 1 came before the server's first look.
 */
static void commit(struct ring *ring, uint64_t word, struct ring_cell *cell, size_t bytes, bool *notify)
{
	ring_publish(ring, cell, bytes);
	if (!(word & RECORD_CONNECTING) || !(RING_LOAD(ring->word) & RECORD_CONNECTING))
		ring_look_for_reader(ring, notify);
}

/* A long message, or any on a channel that nobody has accepted. */
static int send_lossless(struct ring *ring, uint64_t word, const void *message, size_t bytes, bool *notify)
{
	uint64_t n = ring->sent + 1, at, skip;
	struct ring_cell *cell = &ring_cells(ring->out)[n % RING_CELLS];

	if (!has_room(ring, bytes)) {
		if (!(word & RECORD_CONNECTING))
			(void)ring_find_room(ring);
		if (ring->broken || !has_room(ring, bytes))
			return ring_no_room(ring);
	}
	if (bytes <= RING_INLINE_BYTES) {
		ring->bulk_end[n % RING_CELLS] = ring->bulk_head;
		ring_copy(cell->bytes, message, bytes);
		commit(ring, word, cell, bytes, notify);
		return CALL_OK;
	}
	(void)place(ring, bulk_size(bytes), &at, &skip);
	ring->bulk_head += skip + bulk_size(bytes);
	ring->bulk_at = at + bulk_size(bytes);
	ring->bulk_end[n % RING_CELLS] = ring->bulk_head;
	ring_copy(ring_bulk(ring->out) + at, message, bytes);
	cell->bulk_offset = at;
	cell->bulk_end = 0;
	commit(ring, word, cell, bytes, notify);
	return CALL_OK;
}

/*
 * Overwrites, after saying so: the exchange keeps the stores behind it in their place.
 *
 *	writer                                reader
 *	1 reserved = n                        1 load commit of n - 64, copy
 *	2 write the cell (and bulk bytes)     2 load reserved: below n? hand on
 *	3 commit n
 *
 * If the copy holds a byte of n, the writer's 1 came before it, and the reader's 2 sees it.
 */
static int send_diode(struct ring *ring, uint64_t word, const void *message, size_t bytes, bool *notify)
{
	uint64_t n = ring->sent + 1, at, skip;
	struct ring_cell *cell = &ring_cells(ring->out)[n % RING_CELLS];

	if (bytes <= RING_INLINE_BYTES) {
		(void)__atomic_exchange_n(&ring->out->reserved, n, __ATOMIC_SEQ_CST);
		ring_copy(cell->bytes, message, bytes);
		commit(ring, word, cell, bytes, notify);
		return CALL_OK;
	}
	at = ring->bulk_at;
	skip = at + bulk_size(bytes) > ring->bulk_bytes ? ring->bulk_bytes - at : 0;
	at = skip != 0 || at == ring->bulk_bytes ? 0 : at;
	ring->bulk_head += skip + bulk_size(bytes);
	ring->bulk_at = at + bulk_size(bytes);
	RING_STORE(&ring->out->bulk_reserved, ring->bulk_head);
	(void)__atomic_exchange_n(&ring->out->reserved, n, __ATOMIC_SEQ_CST);
	ring_copy(ring_bulk(ring->out) + at, message, bytes);
	cell->bulk_offset = at;
	cell->bulk_end = ring->bulk_head - bulk_size(bytes) + bytes;
	commit(ring, word, cell, bytes, notify);
	return CALL_OK;
}

int ring_send_other(struct ring *ring, uint64_t word, const void *message, size_t bytes, bool *notify)
{
	int state = ring_out_state(ring, word);

	if (state != CALL_OK)
		return state;
	if (bytes > RING_INLINE_BYTES && bytes > ring->bulk_bytes)
		return CALL_TOO_LONG;
	if (!ring->lossless_out)
		return send_diode(ring, word, message, bytes, notify);
	return send_lossless(ring, word, message, bytes, notify);
}

bool ring_can_send(struct ring *ring, size_t bytes)
{
	uint64_t word = RING_LOAD(ring->word);

	if (ring_out_state(ring, word) != CALL_OK)
		return true;
	if (!ring->lossless_out || has_room(ring, bytes))
		return true;
	if (word & RECORD_CONNECTING)
		return false;
	(void)ring_find_room(ring);
	return ring->broken || has_room(ring, bytes);
}

/* ---- reading ---- */

/* The word is not that of a flow that can be read: not yet, or no more. */
int64_t ring_receive_none(const struct ring *ring, uint64_t word)
{
	int state = ring_in_state(ring, word);

	return state != CALL_OK ? state : CALL_AGAIN;
}

static uint64_t next_number(const struct ring *ring)
{
	return ring->taken + ring->lost + 1;
}

/* Does the cell of message n still hold what it held before: the message a lap ago, or zeros? */
static bool is_empty(uint64_t n, uint64_t commit)
{
	if (n <= RING_CELLS)
		return commit == 0;
	return commit >> RING_LENGTH_BITS == ((n - RING_CELLS) & SEQUENCE_MASK);
}

/* As is_empty; a writer that overwrites may also be behind after a reader followed a wrong `written`. */
static bool is_behind(uint64_t n, uint64_t commit)
{
	return commit == 0 || ((n - (commit >> RING_LENGTH_BITS)) & SEQUENCE_MASK) < SEQUENCE_HALF;
}

/* word was loaded before the cell: if the peer was gone then, it has committed nothing since. */
static int64_t nothing_there(uint64_t word)
{
	if (word & RECORD_PEER_DIED)
		return CALL_PEER_DIED;
	return word & RECORD_PEER_CLOSED ? CALL_PEER_CLOSED : CALL_AGAIN;
}

bool ring_can_receive(const struct ring *ring)
{
	uint64_t word = RING_LOAD(ring->word), n = next_number(ring), commit;

	if (ring_in_state(ring, word) != CALL_OK)
		return true;
	if (word & RECORD_CONNECTING)
		return false;
	commit = RING_LOAD(&ring_cells(ring->in)[n % RING_CELLS].commit);
	if (commit - (n << RING_LENGTH_BITS) <= RING_LENGTH_MASK)
		return true;
	if (ring->lossless_in ? is_empty(n, commit) : is_behind(n, commit))
		return nothing_there(word) != CALL_AGAIN;
	return true;
}

/* Where length bytes of the bulk area begin, or NULL if they do not lie within it. */
static const uint8_t *bulk_bytes_at(const struct ring *ring, uint64_t guest_offset, uint64_t length)
{
	if (length > ring->bulk_bytes || guest_offset > ring->bulk_bytes - length)
		return NULL;
	return ring_bulk(ring->in) + guest_offset;
}

/* The short path found no short message that fits the buffer. */
int64_t ring_receive_other(struct ring *ring, uint64_t word, uint64_t commit, void *buffer, size_t size,
                           bool *notify)
{
	uint64_t n = ring->taken + 1, length = commit - (n << RING_LENGTH_BITS);
	const struct ring_cell *cell = &ring_cells(ring->in)[n % RING_CELLS];
	const uint8_t *bytes = cell->bytes;

	if (length > RING_LENGTH_MASK)
		return is_empty(n, commit) ? nothing_there(word) : refuse_reading(ring);
	if (length > RING_INLINE_BYTES && length > ring->bulk_bytes)
		return refuse_reading(ring);
	if (length > size) {
		int state = ring_in_state(ring, RING_LOAD(ring->word));

		ring->next_length = length;
		return state != CALL_OK ? state : CALL_TOO_LONG;
	}
	if (length > RING_INLINE_BYTES)
		bytes = bulk_bytes_at(ring, RING_LOAD(&cell->bulk_offset), length);
	if (bytes == NULL)
		return refuse_reading(ring);
	RING_COPY_IN(buffer, bytes, length);
	word = RING_LOAD(ring->word);
	if ((word & RING_IN_MASK) != ring->word_in)
		return ring_refuse(ring, word, buffer, length);
	ring_advance(ring, length, notify);
	return (int64_t)length;
}

/*
 * Message n was overwritten: go on with the latest one, or wait for the next if
 * n is the latest and its bulk bytes are being overwritten now. False: `written` cannot be.
 */
static bool skip_lost(struct ring *ring, uint64_t n)
{
	uint64_t written = RING_LOAD(&ring->in->written);

	if (written - n > SEQUENCE_HALF)
		return false;
	ring->lost += written == n ? 1 : written - n;
	return true;
}

/*
 * Copies message n, whose commit word was seen. CALL_AGAIN: it was overwritten
 * meanwhile. x86 does not reorder loads, so `reserved` is loaded after the last byte.
 */
static int64_t take_diode(struct ring *ring, uint64_t n, uint64_t length, void *buffer, bool *notify)
{
	const struct ring_cell *cell = &ring_cells(ring->in)[n % RING_CELLS];
	const uint8_t *bytes = cell->bytes;
	uint64_t word, begin = 0;

	if (length > RING_INLINE_BYTES) {
		bytes = bulk_bytes_at(ring, RING_LOAD(&cell->bulk_offset), length);
		begin = RING_LOAD(&cell->bulk_end) - length;
	}
	if (bytes != NULL)
		RING_COPY_IN(buffer, bytes, length);
	word = RING_LOAD(ring->word);
	if ((word & RING_IN_MASK) != ring->word_in)
		return ring_refuse(ring, word, buffer, length);
	if (RING_LOAD(&ring->in->reserved) - n >= RING_CELLS)
		return CALL_AGAIN;
	if (bytes == NULL)
		return refuse_reading(ring);
	if (length > RING_INLINE_BYTES && RING_LOAD(&ring->in->bulk_reserved) - begin > ring->bulk_bytes)
		return CALL_AGAIN;
	ring_advance(ring, length, notify);
	return (int64_t)length;
}

int64_t ring_receive_diode(struct ring *ring, uint64_t word, void *buffer, size_t size, bool *notify)
{
	for (int i = 0; i < DIODE_TRIES; i++) {
		uint64_t n = next_number(ring);
		uint64_t commit = RING_LOAD(&ring_cells(ring->in)[n % RING_CELLS].commit);
		uint64_t length = commit - (n << RING_LENGTH_BITS);
		int64_t taken;

		if (length <= RING_LENGTH_MASK) {
			if (length > RING_INLINE_BYTES && length > ring->bulk_bytes)
				return refuse_reading(ring);
			if (length > size) {
				ring->next_length = length;
				return CALL_TOO_LONG;
			}
			taken = take_diode(ring, n, length, buffer, notify);
			if (taken != CALL_AGAIN)
				return taken;
			__builtin_memset(buffer, 0, length);
		} else if (is_behind(n, commit)) {
			return nothing_there(word);
		}
		if (!skip_lost(ring, n))
			return refuse_reading(ring);
	}
	return CALL_AGAIN;
}

/* ---- blocking ---- */

static uint32_t next_ticket(struct ring *ring)
{
	if (++ring->ticket == 0)
		ring->ticket = 1;
	return ring->ticket;
}

/*
 *	reader                                writer
 *	1 wants_message = ticket (exchange)   1 commit (exchange)
 *	2 look at the cell again              2 load wants_message: notify unless done
 *	3 nothing: SYS_WAIT(events before 1)
 *
 * Both exchanges are full barriers: one of the two looks sees the other's store. A
 * fresh ticket for each wait lets the writer notify once for each, not once for each message.
 */
void ring_want_message(struct ring *ring)
{
	(void)__atomic_exchange_n(&ring->out->wants_message, next_ticket(ring), __ATOMIC_SEQ_CST);
}

/* The same with `read` for the commit word (ring_advance). */
void ring_want_room(struct ring *ring)
{
	(void)__atomic_exchange_n(&ring->out->wants_room, next_ticket(ring), __ATOMIC_SEQ_CST);
}

void ring_unwant(struct ring *ring)
{
	RING_STORE(&ring->out->wants_message, 0);
	RING_STORE(&ring->out->wants_room, 0);
}

/* Up to a kibibyte by 16-byte moves, beyond by the processor's own string move. */
void ring_copy_long(void *to, const void *from, size_t bytes)
{
	typedef long long vector __attribute__((vector_size(16), aligned(1), may_alias));
	uint8_t *t = to;
	const uint8_t *f = from;

	if (bytes <= 1024) {
		for (; bytes >= 16; bytes -= 16, t += 16, f += 16)
			*(vector *)t = *(const vector *)f;
	}
	asm volatile("rep movsb" : "+D"(t), "+S"(f), "+c"(bytes) : : "memory");
}
