/* A ring that nobody has accepted: it takes what is sent, and never looks at the peer. I4, I10. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/guest/ring_pair.h"

static uint8_t sent[PAIR_BULK + 1], got[PAIR_BULK];

static int send(struct ring *ring, size_t bytes, uint64_t n, bool *notify)
{
	message_fill(sent, bytes, n);
	return ring_send(ring, sent, bytes, notify);
}

static void accept(struct ring_pair *pair)
{
	__atomic_and_fetch(&pair->word[0], ~(uint64_t)RECORD_CONNECTING, __ATOMIC_SEQ_CST);
}

static void expect(struct ring_pair *pair, size_t bytes, uint64_t n)
{
	bool notify = false;

	cr_assert_eq(ring_receive(&pair->end[1], got, sizeof(got), &notify), (int64_t)bytes);
	cr_assert(message_is(got, bytes, n), "message %lu of %zu bytes", n, bytes);
}

/* Zero pages that were looked at are dear to replace (docs/performance.md). */
Test(ring_connecting, the_inbox_is_not_looked_at)
{
	struct ring_pair pair;
	bool notify = false;

	pair_open(&pair, PAIR_BOTH | RECORD_CONNECTING, PAIR_BOTH);
	cr_assert_eq(send(&pair.end[0], 8, 0, &notify), CALL_OK);
	cr_assert_eq(send(&pair.end[0], 1000, 1, &notify), CALL_OK);
	for (uint64_t n = 2; n < RING_CELLS; n++)
		cr_assert_eq(send(&pair.end[0], 8, n, &notify), CALL_OK);
	cr_assert_eq(send(&pair.end[0], 8, 64, &notify), CALL_AGAIN);
	cr_assert_not(ring_can_send(&pair.end[0], 8));
	cr_assert_eq(ring_receive(&pair.end[0], got, sizeof(got), &notify), CALL_AGAIN);
	cr_assert_not(ring_can_receive(&pair.end[0]));
	cr_expect_not(notify, "there is nobody to be notified");
	cr_expect_eq(shim_reads(pair.memory[1], PAIR_SLOT), 0);
	accept(&pair);
	expect(&pair, 8, 0);
	expect(&pair, 1000, 1);
	for (uint64_t n = 2; n < RING_CELLS; n++)
		expect(&pair, 8, n);
	cr_assert_eq(send(&pair.end[0], 8, 64, &notify), CALL_OK);
	expect(&pair, 8, 64);
	pair_close(&pair);
}

/* Long ones share the bulk area and no more. */
Test(ring_connecting, the_bulk_area_is_the_limit)
{
	struct ring_pair pair;
	bool notify = false;

	pair_open(&pair, PAIR_BOTH | RECORD_CONNECTING, PAIR_BOTH);
	cr_assert_eq(send(&pair.end[0], PAIR_BULK / 2, 0, &notify), CALL_OK);
	cr_assert_eq(send(&pair.end[0], PAIR_BULK / 2, 1, &notify), CALL_OK);
	cr_assert_eq(send(&pair.end[0], 57, 2, &notify), CALL_AGAIN);
	cr_assert_eq(send(&pair.end[0], PAIR_BULK + 1, 2, &notify), CALL_TOO_LONG);
	cr_assert_eq(send(&pair.end[0], 56, 2, &notify), CALL_OK);
	accept(&pair);
	expect(&pair, PAIR_BULK / 2, 0);
	expect(&pair, PAIR_BULK / 2, 1);
	expect(&pair, 56, 2);
	pair_close(&pair);
}

/* The server accepts, finds nothing and is about to sleep while a message is being committed. */
static struct ring_pair *racing;
static unsigned loads_left;

static void accept_late(const volatile void *address, size_t bytes)
{
	(void)bytes;
	if (address != &racing->word[0] || loads_left == 0 || --loads_left > 0)
		return;
	accept(racing);
	ring_want_message(&racing->end[1]);
}

static void race(uint64_t bits_0, uint64_t bits_1, size_t bytes)
{
	struct ring_pair pair;
	bool notify = false;

	pair_open(&pair, bits_0 | RECORD_CONNECTING, bits_1);
	racing = &pair;
	loads_left = 1; /* behind the first look at the word, before the commit */
	shim.after = accept_late;
	cr_assert_eq(send(&pair.end[0], bytes, 9, &notify), CALL_OK);
	shim.after = NULL;
	cr_expect(notify, "a wake-up is lost: %zu bytes", bytes);
	expect(&pair, bytes, 9);
	pair_close(&pair);
}

Test(ring_connecting, i10_an_accept_between_the_look_and_the_commit)
{
	race(PAIR_BOTH, PAIR_BOTH, 8);
	race(PAIR_BOTH, PAIR_BOTH, 500);
	race(RECORD_OUT | RECORD_IN | RECORD_IN_FLOWCTL, RECORD_OUT | RECORD_IN | RECORD_OUT_FLOWCTL, 8);
	race(RECORD_OUT | RECORD_IN | RECORD_IN_FLOWCTL, RECORD_OUT | RECORD_IN | RECORD_OUT_FLOWCTL, 500);
}

/* What happens before the accept is told as after it. */
Test(ring_connecting, the_ends_of_it)
{
	static const struct {
		uint64_t set, clear;
		int send, receive;
	} ends[] = {
		{RECORD_OUT_CUT | RECORD_IN_CUT, RECORD_OUT | RECORD_IN | RECORD_CONNECTING, CALL_REVOKED,
	         CALL_REVOKED},
		{RECORD_OUT_CUT, RECORD_OUT, CALL_REVOKED, CALL_AGAIN},
		{RECORD_IN_CUT, RECORD_IN, CALL_OK, CALL_REVOKED},
		{RECORD_PEER_DIED, RECORD_OUT | RECORD_IN, CALL_PEER_DIED, CALL_PEER_DIED},
		{RECORD_PEER_CLOSED, RECORD_OUT | RECORD_IN, CALL_PEER_CLOSED, CALL_PEER_CLOSED},
		{RECORD_FREE, RECORD_LIVE, CALL_NOT_OPEN, CALL_NOT_OPEN},
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct ring_pair pair;
		bool notify = false;

		pair_open(&pair, PAIR_BOTH | RECORD_CONNECTING, PAIR_BOTH);
		pair.word[0] = (pair.word[0] | ends[i].set) & ~ends[i].clear;
		cr_expect_eq(send(&pair.end[0], 8, 0, &notify), ends[i].send, "end %zu", i);
		cr_expect_eq(ring_receive(&pair.end[0], got, sizeof(got), &notify), ends[i].receive,
		             "end %zu", i);
		cr_expect_eq(shim_reads(pair.memory[1], PAIR_SLOT), 0);
		pair_close(&pair);
	}
}
