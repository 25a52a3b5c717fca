/*
 * What the host itself can do on the same two cores: the floor that a channel is
 * compared with. Two pinned threads of this process hand messages to each other
 * through a shared page, a pair of pipes, or an AF_UNIX SOCK_SEQPACKET pair.
 *
 * The shared page does the least that can be done: copy in, raise a number, see it
 * raised, copy out. No check, no blocking.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_RAW_H
#define PORTCULLIS_MONITOR_BENCH_RAW_H

#include <stddef.h>
#include <stdint.h>

#include "guest/abi/limits.h"

enum raw_kind {
	RAW_SHARED_MEMORY,
	RAW_PIPE,
	RAW_SEQPACKET,
	N_RAW
};

struct raw_batch {
	uint32_t bytes;         /* of a message and of its echo; at least 1 */
	uint32_t n_round_trips; /* each timed */
	uint32_t n_messages;    /* one way, as fast as they go; 0: none */
	double *round_trip_us;  /* n_round_trips of them, filled in */
	double stream_us;       /* filled in: from the first message to the answer to the last */
};

const char *raw_name(enum raw_kind kind);

/*
 * Runs one batch, one end on each core. 0; -errno and a line; -ETIMEDOUT: 10 s
 * were not enough.
 */
int raw_run(enum raw_kind kind, const int cores[2], struct raw_batch *batch, char why[static WHY_BYTES]);

/* Bytes a second that memcpy takes from one place to another on one core, both in its caches. 0: no memory.
 */
double raw_copy_rate(uint32_t bytes);

#endif
