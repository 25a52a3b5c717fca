/*
 * What the domain that looks for gaps and `portcullis bench revoke --bystander` agree on.
 *
 * The domain reads the time stamp counter without end, in ring 3. Two readings that lie further apart
 * than GAP_TIMES the median are a gap: something else had the core. It stands in the bulk area of the
 * domain's first slot, where no channel is and the host can look.
 */
#ifndef PORTCULLIS_PROGRAMS_GAPS_H
#define PORTCULLIS_PROGRAMS_GAPS_H

#include <stdint.h>

#define GAP_TIMES 20u
#define GAPS_KEPT 2048u /* the latest; a power of two */

struct gap {
	uint64_t begin, end; /* TSC */
};

struct gaps {
	uint64_t median; /* ticks between two readings; not 0: it looks */
	uint64_t now;    /* the latest reading */
	uint64_t n;      /* gaps ever; gap i stands at i % GAPS_KEPT, and is there when n > i */
	uint64_t tsc_khz;
	struct gap gap[GAPS_KEPT];
};

#endif
