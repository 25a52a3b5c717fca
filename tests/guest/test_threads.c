/* Two host threads at the two ends: who sees the index sees the bytes. H3, I10 of the ring's half. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/guest/ring_pair.h"

#define MESSAGES 200000u

static struct ring_pair pair;
static unsigned torn, taken;

static size_t length_of(uint64_t n)
{
	return n % 50 == 0 ? 3000 : n % 7 * 9;
}

static void *write_lossless(void *unused)
{
	uint8_t message[3000];
	bool notify = false;

	for (uint64_t n = 0; n < MESSAGES; n++) {
		message_fill(message, length_of(n), n);
		while (ring_send(&pair.end[0], message, length_of(n), &notify) == CALL_AGAIN)
			sched_yield();
	}
	return unused;
}

/* The shim's note of reads is one thread's: here the loads are real ones. */
static void *read_lossless(void *unused)
{
	uint8_t message[3000];
	bool notify = false;
	int64_t bytes;

	for (uint64_t n = 0; n < MESSAGES; n++) {
		while ((bytes = ring_receive(&pair.end[1], message, sizeof(message), &notify)) == CALL_AGAIN)
			sched_yield();
		if (bytes != (int64_t)length_of(n) || !message_is(message, (size_t)bytes, n))
			torn++;
	}
	return unused;
}

Test(threads, a_reader_that_sees_the_commit_sees_the_bytes)
{
	pthread_t writer;

	pair_open_lossless(&pair);
	cr_assert_eq(pthread_create(&writer, NULL, write_lossless, NULL), 0);
	read_lossless(NULL);
	pthread_join(writer, NULL);
	cr_expect_eq(torn, 0);
	pair_close(&pair);
}

static bool written;

static void *write_diode(void *unused)
{
	uint8_t message[3000];
	bool notify = false;

	for (uint64_t n = 0; n < MESSAGES; n++) {
		message_fill(message, length_of(n), n);
		if (ring_send(&pair.end[0], message, length_of(n), &notify) != CALL_OK)
			torn++;
	}
	__atomic_store_n(&written, true, __ATOMIC_RELEASE);
	return unused;
}

/* Overwritten all the time: whatever is handed on is one whole message, and none is missing from the count.
 */
Test(threads, a_diode_reader_hands_on_whole_messages_and_counts_the_rest)
{
	uint8_t message[3000];
	bool notify = false, last = false;
	pthread_t writer;
	int64_t bytes;

	pair_open_diode(&pair);
	cr_assert_eq(pthread_create(&writer, NULL, write_diode, NULL), 0);
	while (!last) {
		last = __atomic_load_n(&written, __ATOMIC_ACQUIRE);
		while ((bytes = ring_receive(&pair.end[1], message, sizeof(message), &notify)) >= 0) {
			uint64_t n = ++taken + pair.end[1].lost - 1;

			if (bytes != (int64_t)length_of(n) || !message_is(message, (size_t)bytes, n))
				torn++;
		}
		cr_assert_eq(bytes, CALL_AGAIN);
		sched_yield();
	}
	pthread_join(writer, NULL);
	cr_expect_eq(torn, 0);
	cr_expect_eq(taken + pair.end[1].lost, MESSAGES);
	pair_close(&pair);
}
