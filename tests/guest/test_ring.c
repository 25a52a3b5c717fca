/* The rings between honest ends: every length, every lap, full, closed, without flowctl. I4. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/guest/ring_pair.h"

static uint8_t sent[PAIR_BULK], got[PAIR_BULK];

static void send_one(struct ring *ring, size_t bytes, uint64_t n)
{
	bool notify = false;

	message_fill(sent, bytes, n);
	cr_assert_eq(ring_send(ring, sent, bytes, &notify), CALL_OK);
}

static void take_one(struct ring *ring, size_t bytes, uint64_t n)
{
	bool notify = false;

	cr_assert_eq(ring_receive(ring, got, sizeof(got), &notify), (int64_t)bytes);
	cr_assert(message_is(got, bytes, n), "message %lu of %zu bytes", n, bytes);
}

static int64_t receive(struct ring *ring)
{
	bool notify = false;

	return ring_receive(ring, got, sizeof(got), &notify);
}

static int send(struct ring *ring, size_t bytes)
{
	bool notify = false;

	return ring_send(ring, sent, bytes, &notify);
}

static const size_t lengths[] = {0,
                                 1,
                                 7,
                                 8,
                                 9,
                                 15,
                                 31,
                                 55,
                                 56,
                                 57,
                                 64,
                                 65,
                                 1023,
                                 1024,
                                 1025,
                                 4096,
                                 4097,
                                 PAIR_BULK / 2,
                                 PAIR_BULK / 2 + 1,
                                 PAIR_BULK - 1,
                                 PAIR_BULK};
#define N_LENGTHS (sizeof(lengths) / sizeof(*lengths))

Test(ring, every_length_goes_there_and_back)
{
	struct ring_pair pair;

	pair_open_lossless(&pair);
	for (uint64_t n = 0; n < 40 * N_LENGTHS; n++) {
		size_t bytes = lengths[n * 5 % N_LENGTHS];

		cr_assert_eq(receive(&pair.end[1]), CALL_AGAIN);
		send_one(&pair.end[0], bytes, n);
		take_one(&pair.end[1], bytes, n);
		send_one(&pair.end[1], bytes, n + 1);
		take_one(&pair.end[0], bytes, n + 1);
	}
	cr_expect_eq(pair.memory[0]->written, pair.memory[1]->read);
	cr_expect_eq(pair.memory[0]->written_bytes, pair.memory[1]->read_bytes);
	pair_close(&pair);
}

/* All lengths under way at once, in and out at their own pace, for many laps of cells and bulk area. */
Test(ring, lossless_loses_repeats_and_reorders_nothing)
{
	uint64_t n_sent = 0, n_taken = 0, seed = 1;
	struct ring_pair pair;

	pair_open_lossless(&pair);
	while (n_taken < 20000) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		for (unsigned i = seed >> 60; i > 0; i--) {
			size_t bytes = lengths[n_sent * 11 % N_LENGTHS];

			message_fill(sent, bytes, n_sent);
			if (send(&pair.end[0], bytes) != CALL_OK)
				break;
			n_sent++;
		}
		for (unsigned i = seed >> 56 & 15; i > 0 && n_taken < n_sent; i--, n_taken++)
			take_one(&pair.end[1], lengths[n_taken * 11 % N_LENGTHS], n_taken);
	}
	cr_assert_lt(n_sent - n_taken, RING_CELLS + 1);
	pair_close(&pair);
}

Test(ring, sixty_four_messages_then_no_room)
{
	struct ring_pair pair;

	pair_open_lossless(&pair);
	for (int lap = 0; lap < 3; lap++) {
		for (uint64_t n = 0; n < RING_CELLS; n++)
			send_one(&pair.end[0], 8, n);
		cr_assert_eq(send(&pair.end[0], 8), CALL_AGAIN);
		cr_assert_not(ring_can_send(&pair.end[0], 8));
		take_one(&pair.end[1], 8, 0);
		cr_assert(ring_can_send(&pair.end[0], 8));
		send_one(&pair.end[0], 8, 64);
		for (uint64_t n = 1; n <= RING_CELLS; n++)
			take_one(&pair.end[1], 8, n);
		cr_assert_eq(receive(&pair.end[1]), CALL_AGAIN);
	}
	pair_close(&pair);
}

Test(ring, two_halves_of_the_bulk_area_are_under_way_at_once)
{
	struct ring_pair pair;

	pair_open_lossless(&pair);
	for (uint64_t n = 0; n < 10; n += 2) {
		send_one(&pair.end[0], PAIR_BULK / 2, n);
		send_one(&pair.end[0], PAIR_BULK / 2, n + 1);
		cr_assert_eq(send(&pair.end[0], 57), CALL_AGAIN);
		send_one(&pair.end[0], 56, 99); /* needs no bulk */
		take_one(&pair.end[1], PAIR_BULK / 2, n);
		cr_assert_eq(send(&pair.end[0], PAIR_BULK), CALL_AGAIN);
		take_one(&pair.end[1], PAIR_BULK / 2, n + 1);
		take_one(&pair.end[1], 56, 99);
		send_one(&pair.end[0], PAIR_BULK, n);
		take_one(&pair.end[1], PAIR_BULK, n);
	}
	pair_close(&pair);
}

Test(ring, too_long_for_the_channel_or_for_the_buffer)
{
	struct ring_pair pair;
	bool notify = false;

	pair_open_lossless(&pair);
	cr_expect_eq(send(&pair.end[0], PAIR_BULK + 1), CALL_TOO_LONG);
	for (size_t i = 0; i < 2; i++) {
		size_t bytes = i == 0 ? 40 : 400;

		send_one(&pair.end[0], bytes, 5);
		cr_expect_eq(ring_receive(&pair.end[1], got, bytes - 1, &notify), CALL_TOO_LONG);
		cr_expect_eq(pair.end[1].next_length, bytes);
		take_one(&pair.end[1], bytes, 5);
	}
	pair_close(&pair);
}

Test(ring, peer_closed_comes_after_all_that_it_sent)
{
	static const struct {
		uint64_t bit;
		int64_t error;
	} ways[] = {{RECORD_PEER_CLOSED, CALL_PEER_CLOSED}, {RECORD_PEER_DIED, CALL_PEER_DIED}};

	for (int i = 0; i < 2; i++) {
		struct ring_pair pair;

		pair_open_lossless(&pair);
		send_one(&pair.end[0], 8, 1);
		send_one(&pair.end[0], 800, 2);
		pair.word[1] |= ways[i].bit;
		take_one(&pair.end[1], 8, 1);
		cr_expect_eq(send(&pair.end[1], 8), ways[i].error, "sending to it is over at once");
		take_one(&pair.end[1], 800, 2);
		cr_expect(ring_can_receive(&pair.end[1]));
		cr_expect_eq(receive(&pair.end[1]), ways[i].error);
		pair_close(&pair);
	}
}

Test(ring, a_peer_that_left_before_the_first_look_is_told_as_one_that_left)
{
	struct ring_pair pair;

	pair_open(&pair, PAIR_BOTH, RECORD_PEER_CLOSED);
	cr_expect_eq(receive(&pair.end[1]), CALL_PEER_CLOSED);
	cr_expect_eq(send(&pair.end[1], 8), CALL_PEER_CLOSED);
	pair_close(&pair);
	pair_open(&pair, PAIR_BOTH, RECORD_PEER_DIED);
	cr_expect_eq(receive(&pair.end[1]), CALL_PEER_DIED);
	pair_close(&pair);
}

Test(ring, a_direction_that_was_never_allowed_is_not_open)
{
	struct ring_pair pair;

	pair_open_diode(&pair);
	cr_expect_eq(receive(&pair.end[0]), CALL_NOT_OPEN);
	cr_expect_eq(send(&pair.end[1], 8), CALL_NOT_OPEN);
	pair_close(&pair);
}

Test(ring, notifies_once_for_each_time_that_the_peer_is_about_to_block)
{
	struct ring_pair pair;
	bool notify = false;

	pair_open_lossless(&pair);
	cr_assert_eq(ring_send(&pair.end[0], sent, 8, &notify), CALL_OK);
	cr_expect_not(notify, "nobody sleeps");
	ring_want_message(&pair.end[1]);
	cr_assert_eq(ring_send(&pair.end[0], sent, 8, &notify), CALL_OK);
	cr_expect(notify);
	notify = false;
	cr_assert_eq(ring_send(&pair.end[0], sent, 8, &notify), CALL_OK);
	cr_expect_not(notify, "that wait was answered");
	ring_want_message(&pair.end[1]);
	cr_assert_eq(ring_send(&pair.end[0], sent, 8, &notify), CALL_OK);
	cr_expect(notify, "this is another one");
	notify = false;
	ring_unwant(&pair.end[1]);
	ring_want_room(&pair.end[0]);
	cr_assert_eq(ring_receive(&pair.end[1], got, 8, &notify), 8);
	cr_expect(notify);
	pair_close(&pair);
}

/* Without flowctl the writer never waits; the reader takes what is left, whole, and counts the rest. */
Test(ring, diode_overwrites_and_the_reader_counts_what_it_lost)
{
	struct ring_pair pair;
	uint64_t n = 0, taken = 0;

	pair_open_diode(&pair);
	for (int round = 0; round < 200; round++) {
		unsigned burst = (unsigned)(round * 37 % 150);

		for (unsigned i = 0; i < burst; i++, n++)
			send_one(&pair.end[0], lengths[n % (N_LENGTHS - 4)], n);
		for (;;) {
			int64_t bytes = receive(&pair.end[1]);
			uint64_t number;

			if (bytes == CALL_AGAIN)
				break;
			number = ++taken + pair.end[1].lost - 1;
			cr_assert_eq(bytes, (int64_t)lengths[number % (N_LENGTHS - 4)]);
			cr_assert(message_is(got, (size_t)bytes, number), "message %lu", number);
		}
		cr_assert_eq(taken + pair.end[1].lost, n, "each is taken or counted");
	}
	cr_expect_gt(pair.end[1].lost, 0);
	cr_expect_gt(taken, 200);
	pair_close(&pair);
}

/* The source of a flow without flowctl reads nothing of the reader's memory. */
Test(ring, diode_writer_looks_at_nothing_of_the_reader)
{
	struct ring_pair pair;
	bool notify = false;

	pair_open_diode(&pair);
	for (int i = 0; i < 200; i++)
		cr_assert_eq(ring_send(&pair.end[0], sent, i % 2 ? 8 : 800, &notify), CALL_OK);
	cr_expect_eq(shim_reads(pair.memory[1], PAIR_SLOT), 0);
	pair_close(&pair);
}

static struct ring_pair *overtaken;
static unsigned overtakes;

/* Between the reader's copy and its last look the writer goes a whole lap further. */
static void overtake(const volatile void *address, size_t bytes)
{
	static bool busy;

	if (busy || overtakes == 0 || bytes < 57 || (uintptr_t)address < (uintptr_t)overtaken->memory[0])
		return;
	busy = true;
	overtakes--;
	for (unsigned i = 0; i < RING_CELLS + 3; i++)
		send_one(&overtaken->end[0], 600, 1000 + i);
	busy = false;
}

Test(ring, diode_reader_that_is_overtaken_in_its_copy_hands_on_no_mixture)
{
	struct ring_pair pair;
	int64_t bytes;

	pair_open_diode(&pair);
	send_one(&pair.end[0], 600, 1);
	overtaken = &pair;
	overtakes = 1;
	shim.after = overtake;
	bytes = receive(&pair.end[1]);
	cr_assert_eq(bytes, 600);
	cr_expect(message_is(got, 600, 1000 + RING_CELLS + 2), "the latest one");
	cr_expect_eq(pair.end[1].lost, RING_CELLS + 3);
	shim.after = NULL;
	pair_close(&pair);
}
