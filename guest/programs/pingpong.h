/*
 * What the measuring domain and `portcullis bench ipc` agree on.
 *
 * The domain is woken once for each batch, runs it, and leaves its times in the
 * outbox memory of its last slot, where no channel is and the host can look;
 * then it logs PINGPONG_DONE.
 */
#ifndef PORTCULLIS_PROGRAMS_PINGPONG_H
#define PORTCULLIS_PROGRAMS_PINGPONG_H

#include <stdint.h>

#define PINGPONG_WARM_UP 32u /* round trips before the clock runs */

#define PINGPONG_CLOSED "closed" /* a service that policy lets nobody reach */
#define PINGPONG_READY "ready"
#define PINGPONG_DONE "done"

/* In the header page of that slot; behind it, in the bulk area, n_times words. */
struct pingpong_result {
	uint64_t tsc_khz;
	uint64_t stream_ticks; /* from the first message one way to the answer to the last */
	uint32_t n_times;      /* round trips, TSC ticks each, as many as the bulk area holds */
	uint32_t bytes;
};

#endif
