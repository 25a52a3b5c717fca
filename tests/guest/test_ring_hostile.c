/* The rings against a peer that lies, and the record that changes between looks. H1, H2, I1. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/guest/ring_pair.h"
#include "tests/support/rounds.h"

static uint8_t sent[PAIR_BULK], got[PAIR_BULK + 64];
static const uint64_t extremes[] = {0,
                                    1,
                                    63,
                                    64,
                                    65,
                                    4096,
                                    1ull << 24,
                                    1u << 31,
                                    UINT32_MAX,
                                    1ull << 40,
                                    (uint64_t)1 << 63,
                                    UINT64_MAX,
                                    PAIR_BULK,
                                    PAIR_BULK + 1,
                                    UINT64_MAX - 56};
#define N_EXTREMES (sizeof(extremes) / sizeof(*extremes))
#define GUARD 0xa5

static int64_t receive(struct ring *ring, size_t size)
{
	bool notify = false;
	int64_t result;

	memset(got, GUARD, sizeof(got));
	result = ring_receive(ring, got, size, &notify);
	for (size_t i = size; i < sizeof(got); i++)
		cr_assert_eq(got[i], GUARD, "wrote %zu bytes behind the buffer", i - size + 1);
	return result;
}

static void send_many(struct ring_pair *pair, size_t bytes, unsigned n)
{
	bool notify = false;

	for (unsigned i = 0; i < n; i++) {
		message_fill(sent, bytes, i);
		cr_assert_eq(ring_send(&pair->end[0], sent, bytes, &notify), CALL_OK);
	}
}

static bool is_outcome(int64_t result)
{
	return result >= 0 || result == CALL_AGAIN || result == CALL_BROKEN || result == CALL_TOO_LONG;
}

/* H1: each word of the peer's header, cells and announcements takes each extreme value. */
Test(hostile, extreme_words_break_the_channel_and_nothing_else)
{
	for (int diode = 0; diode < 2; diode++) {
		for (size_t word = 0; word < (SLOT_CELLS_OFFSET + 4 * RING_CELL_BYTES) / 8; word++) {
			if (word == sizeof(struct outbox_header) / 8)
				word = SLOT_CELLS_OFFSET / 8;
			for (size_t i = 0; i < N_EXTREMES; i++) {
				struct ring_pair pair;
				bool notify = false;

				diode ? pair_open_diode(&pair) : pair_open_lossless(&pair);
				send_many(&pair, 100, 2);
				((uint64_t *)pair.memory[0])[word] = extremes[i];
				for (int j = 0; j < 6; j++)
					cr_assert(is_outcome(receive(&pair.end[1], PAIR_BULK)));
				if (!diode)
					cr_assert(is_outcome(ring_send(&pair.end[1], sent, 8, &notify)));
				pair_close(&pair);
			}
		}
	}
}

Test(hostile, a_length_beyond_the_bulk_area_breaks_it_for_good)
{
	for (uint64_t length = PAIR_BULK + 1; length <= RING_LENGTH_MASK; length = length * 2 + 1) {
		struct ring_pair pair;
		bool notify = false;

		pair_open_lossless(&pair);
		ring_cells(pair.memory[0])[1].commit = 1ull << RING_LENGTH_BITS | length;
		cr_assert_eq(receive(&pair.end[1], PAIR_BULK), CALL_BROKEN);
		ring_cells(pair.memory[0])[1].commit = 1ull << RING_LENGTH_BITS | 8;
		cr_assert_eq(receive(&pair.end[1], PAIR_BULK), CALL_BROKEN, "it stays broken");
		cr_assert_eq(ring_send(&pair.end[1], sent, 8, &notify), CALL_BROKEN);
		cr_assert(ring_can_receive(&pair.end[1]) && ring_can_send(&pair.end[1], 8),
		          "and nobody waits for it");
		pair_close(&pair);
	}
}

Test(hostile, bulk_offsets_stay_within_the_area)
{
	for (size_t i = 0; i < N_EXTREMES; i++) {
		struct ring_pair pair;
		int64_t result;

		pair_open_lossless(&pair);
		send_many(&pair, PAIR_BULK / 2, 1);
		ring_cells(pair.memory[0])[1].bulk_offset = extremes[i];
		result = receive(&pair.end[1], PAIR_BULK);
		cr_expect_eq(result, extremes[i] <= PAIR_BULK / 2 ? (int64_t)PAIR_BULK / 2 : CALL_BROKEN);
		pair_close(&pair);
	}
}

/* A reader that says it has read more than was sent, or less than it said before. */
Test(hostile, a_read_position_that_cannot_be_breaks_the_channel)
{
	static const uint64_t positions[] = {75, 9, 1ull << 31, UINT32_MAX, UINT64_MAX};

	for (size_t i = 0; i < sizeof(positions) / sizeof(*positions); i++) {
		struct ring_pair pair;
		bool notify = false;

		pair_open_lossless(&pair);
		send_many(&pair, 8, 10);
		for (int j = 0; j < 10; j++)
			cr_assert_eq(receive(&pair.end[1], 8), 8);
		send_many(&pair, 8, 54);
		cr_assert(ring_find_room(&pair.end[0]));
		send_many(&pair, 8, 10);
		pair.memory[1]->read = positions[i];
		cr_expect_eq(ring_send(&pair.end[0], sent, 8, &notify), CALL_BROKEN);
		pair_close(&pair);
	}
}

/* ---- H2: one read per field ---- */

static struct ring_pair *shared;
static uint64_t noise = 88172645463325252ull;

static uint64_t next_noise(void)
{
	noise ^= noise << 13;
	noise ^= noise >> 7;
	noise ^= noise << 17;
	return noise;
}

Test(hostile, each_field_of_a_message_is_read_once)
{
	static const size_t lengths[] = {8, 56, 57, 4096};

	for (size_t i = 0; i < 4; i++) {
		struct ring_pair pair;
		struct ring_cell *cell;

		pair_open_lossless(&pair);
		send_many(&pair, lengths[i], 1);
		cell = &ring_cells(pair.memory[0])[1];
		shim_forget();
		cr_assert_eq(receive(&pair.end[1], PAIR_BULK), (int64_t)lengths[i]);
		cr_expect_eq(shim_reads(&cell->commit, 8), 1);
		cr_expect_eq(shim_reads(cell->bytes, lengths[i] <= 56 ? lengths[i] : 8), 1);
		cr_expect_eq(shim_reads(ring_bulk(pair.memory[0]), PAIR_BULK), lengths[i] <= 56 ? 0 : 1);
		cr_expect_eq(shim_reads(&pair.memory[0]->wants_room, 4), 1);
		cr_expect_eq(shim_reads(&pair.word[1], 8), 2, "before and after the copy");
		pair_close(&pair);
	}
}

/* All that the peer wrote is different whenever it is read. */
static void scramble(const volatile void *address, size_t bytes)
{
	uintptr_t begin = (uintptr_t)shared->memory[0];

	if ((uintptr_t)address < begin || (uintptr_t)address >= begin + PAIR_SLOT)
		return;
	for (size_t i = 0; i < bytes && i < 8; i++)
		((volatile uint8_t *)(uintptr_t)address)[i] =
			(uint8_t)(next_noise() % 3 == 0 ? next_noise() : i == 3);
}

Test(hostile, different_bytes_at_each_read_do_no_harm)
{
	for (int round = 0; round < SAMPLED(20000); round++) {
		struct ring_pair pair;
		bool notify = false;

		if (round % 2)
			pair_open_diode(&pair);
		else
			pair_open_lossless(&pair);
		shared = &pair;
		send_many(&pair, round % 3 ? 8 : 300, 3);
		shim.before = scramble;
		for (int i = 0; i < 4; i++) {
			cr_assert(is_outcome(receive(&pair.end[1], 1000)));
			if (round % 2 == 0)
				cr_assert(is_outcome(ring_send(&pair.end[1], sent, 8, &notify)));
		}
		shim.before = NULL;
		pair_close(&pair);
	}
}

/* ---- the record changes between looks ---- */

static uint64_t new_word;
static unsigned when;
static bool sever;

/* At the n-th read the host patches the record, then severs. */
static void cut_at(const volatile void *address, size_t bytes)
{
	(void)address;
	(void)bytes;
	if (when-- != 0)
		return;
	shared->word[1] = new_word;
	if (sever)
		memset(shared->memory[0], 0, PAIR_SLOT);
}

/* The host's order, at each place between two reads: all of the message, or the error and not a byte. */
static void cut_everywhere(uint64_t word, int64_t error, size_t bytes, bool severed)
{
	for (unsigned place = 0; place < 12; place++) {
		struct ring_pair pair;
		int64_t result;

		pair_open_lossless(&pair);
		shared = &pair;
		send_many(&pair, bytes, 2);
		new_word = word;
		when = place;
		sever = severed;
		shim.before = cut_at;
		result = receive(&pair.end[1], PAIR_BULK);
		shim.before = NULL;
		if (result >= 0) {
			cr_assert_eq(result, (int64_t)bytes);
			cr_assert(message_is(got, bytes, 0), "a torn message, cut at read %u", place);
		} else {
			cr_assert(result == error || result == CALL_AGAIN);
			for (size_t i = 0; i < bytes; i++)
				cr_assert(got[i] == GUARD || got[i] == 0, "bytes of it stay in the buffer");
		}
		if (when > place) /* the cut was made */
			cr_assert_eq(receive(&pair.end[1], PAIR_BULK), error, "the next receive says so");
		pair_close(&pair);
	}
}

Test(hostile, a_message_is_handed_on_whole_or_not_at_all_wherever_the_cut_falls)
{
	uint64_t generation = 7ull << RECORD_GENERATION_SHIFT;
	uint64_t next = 8ull << RECORD_GENERATION_SHIFT;
	static const size_t lengths[] = {8, 56, 57, 5000};

	for (size_t i = 0; i < 4; i++) {
		cut_everywhere(generation | RECORD_LIVE | RECORD_OUT | RECORD_OUT_FLOWCTL | RECORD_IN_CUT,
		               CALL_REVOKED, lengths[i], true);
		cut_everywhere(generation | RECORD_LIVE | RECORD_OUT_CUT | RECORD_IN_CUT, CALL_REVOKED,
		               lengths[i], false);
		cut_everywhere(next | RECORD_LIVE | PAIR_BOTH, CALL_NOT_OPEN, lengths[i], true);
		cut_everywhere(RECORD_FREE, CALL_NOT_OPEN, lengths[i], true);
	}
}

/* R2: a full ring at the cut. */
Test(hostile, what_is_queued_at_a_cut_is_never_handed_on)
{
	struct ring_pair pair;

	pair_open_lossless(&pair);
	send_many(&pair, 8, 64);
	cr_assert_eq(receive(&pair.end[1], 8), 8);
	pair.word[1] = (pair.word[1] & ~(uint64_t)RECORD_IN) | RECORD_IN_CUT;
	for (int i = 0; i < 64; i++)
		cr_assert_eq(receive(&pair.end[1], 8), CALL_REVOKED);
	cr_expect(ring_can_receive(&pair.end[1]), "nobody sleeps for it");
	pair_close(&pair);
}

/* Zero pages without a cut in the record: the peer's doing. With one: the cut. */
Test(hostile, zero_pages_are_empty_cut_or_broken_but_never_a_message)
{
	for (unsigned n = 0; n < 3; n++) {
		struct ring_pair pair;

		pair_open_lossless(&pair);
		for (unsigned i = 0; i < n * 40; i++) {
			send_many(&pair, 8, 1);
			cr_assert_eq(receive(&pair.end[1], 8), 8);
		}
		memset(pair.memory[0], 0, PAIR_SLOT);
		cr_expect_eq(receive(&pair.end[1], 8), n == 2 ? CALL_BROKEN : CALL_AGAIN);
		pair_close(&pair);
	}
}

Test(hostile, a_writer_whose_flow_is_cut_learns_it_at_its_next_send)
{
	struct ring_pair pair;
	bool notify = false;

	pair_open_lossless(&pair);
	send_many(&pair, 8, 64);
	cr_assert_eq(ring_send(&pair.end[0], sent, 8, &notify), CALL_AGAIN);
	pair.word[0] = (pair.word[0] & ~(uint64_t)RECORD_OUT) | RECORD_OUT_CUT;
	cr_expect(ring_can_send(&pair.end[0], 8));
	cr_expect_eq(ring_send(&pair.end[0], sent, 8, &notify), CALL_REVOKED);
	cr_expect_eq(ring_send(&pair.end[0], sent, 800, &notify), CALL_REVOKED);
	pair_close(&pair);
}

/* A diode's writer jumps about: the reader takes nothing torn, loops nowhere. */
Test(hostile, a_diode_writer_that_lies_about_its_position_is_found_out)
{
	static const uint64_t positions[] = {0, 1, 2, 200, 1ull << 39, (1ull << 40) + 5, UINT64_MAX};

	for (size_t i = 0; i < sizeof(positions) / sizeof(*positions); i++) {
		struct ring_pair pair;

		pair_open_diode(&pair);
		send_many(&pair, 8, 100);
		pair.memory[0]->written = positions[i];
		pair.memory[0]->reserved = positions[i];
		for (int j = 0; j < 200; j++)
			cr_assert(is_outcome(receive(&pair.end[1], 8)));
		pair_close(&pair);
	}
}
