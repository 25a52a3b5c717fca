/*
 * A token bucket: so many events a second for long, so many at once. The
 * caller gives the time (CLOCK_MONOTONIC, ns), so it can be tested without a clock. One thread.
 */
#ifndef PORTCULLIS_VMM_BUCKET_H
#define PORTCULLIS_VMM_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: full. */
struct bucket {
	uint64_t due_ns; /* when all events so far would have been even at the sustained rate */
};

static inline bool bucket_take(struct bucket *bucket, uint64_t now_ns, uint32_t per_second, uint32_t burst)
{
	const uint64_t cost_ns = 1000000000u / per_second;
	uint64_t due_ns = bucket->due_ns > now_ns ? bucket->due_ns : now_ns;

	if (due_ns - now_ns + cost_ns > burst * cost_ns)
		return false;
	bucket->due_ns = due_ns + cost_ns;
	return true;
}

#endif
