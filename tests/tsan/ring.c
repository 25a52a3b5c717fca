/*
 * Two threads, one at each end of a channel, as two vCPUs: whoever sees a commit word sees the
 * bytes (H3), whoever sees the read position may overwrite. The thread sanitizer watches; the
 * messages prove themselves besides. Ends with 0, or says what was wrong.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/lib/ring.c"

#define BULK (16u << 10)
#define MESSAGES 30000u

static const size_t lengths[] = {8, 0, 56, 57, 8, 300, 8, 4096, BULK / 2, 8, 24, BULK};
#define N_LENGTHS (sizeof(lengths) / sizeof(*lengths))

static _Alignas(4096) uint8_t slot[2][SLOT_BULK_OFFSET + BULK];
static uint64_t word[2];
static struct ring end[2];

static uint8_t byte_of(uint64_t n, size_t i)
{
	return (uint8_t)(n * 31 + i * 7 + 1);
}

static size_t length_of(uint64_t n)
{
	return lengths[n % N_LENGTHS];
}

static void *write_all(void *unused)
{
	static uint8_t message[BULK];
	bool notify = false;
	int result;

	(void)unused;
	for (uint64_t n = 0; n < MESSAGES; n++) {
		for (size_t i = 0; i < length_of(n); i++)
			message[i] = byte_of(n, i);
		while ((result = ring_send(&end[0], message, length_of(n), &notify)) == CALL_AGAIN)
			sched_yield();
		if (result != CALL_OK) {
			printf("send %lu: %d\n", n, result);
			exit(1);
		}
	}
	return NULL;
}

static void *read_all(void *unused)
{
	static uint8_t message[BULK];
	bool notify = false;
	int64_t bytes;

	(void)unused;
	for (uint64_t n = 0; n < MESSAGES; n++) {
		while ((bytes = ring_receive(&end[1], message, sizeof(message), &notify)) == CALL_AGAIN)
			sched_yield();
		for (size_t i = 0; i < length_of(n); i++) {
			if (bytes != (int64_t)length_of(n) || message[i] != byte_of(n, i)) {
				printf("message %lu: %ld bytes, wrong at %zu\n", n, bytes, i);
				exit(1);
			}
		}
	}
	return NULL;
}

int main(void)
{
	pthread_t writer, reader;

	for (int i = 0; i < 2; i++)
		word[i] = 1ull << RECORD_GENERATION_SHIFT | RECORD_LIVE | RECORD_OUT | RECORD_IN |
		          RECORD_OUT_FLOWCTL | RECORD_IN_FLOWCTL;
	for (int i = 0; i < 2; i++)
		ring_open(&end[i], (struct outbox_header *)slot[i], (struct outbox_header *)slot[1 - i],
		          &word[i], BULK);
	if (pthread_create(&writer, NULL, write_all, NULL) != 0 ||
	    pthread_create(&reader, NULL, read_all, NULL) != 0)
		return 1;
	pthread_join(writer, NULL);
	pthread_join(reader, NULL);
	printf("ring: %u messages, each whole and in order\n1 passed, 0 failed\n", MESSAGES);
	return 0;
}
