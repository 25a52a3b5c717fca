/*
 * What a monitor keeps in memory: itself, its launcher and security server with an idle
 * guest of two vCPUs, and what one more idle channel adds. One thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_MEMORY_H
#define PORTCULLIS_MONITOR_BENCH_MEMORY_H

#include <stdint.h>

#include "guest/abi/limits.h"

struct launcher;

/* Bytes. */
struct memory_figures {
	uint64_t monitor;     /* resident: this process with the idle guest */
	uint64_t others;      /* resident: launcher and security server */
	uint64_t all;         /* of both, what is shared counted once (Pss) */
	uint64_t per_channel; /* of the heap; its pages in the windows, and its 256-byte records, come on top
	                       */
};

/* -errno and a line. */
int memory_measure(struct launcher *launcher, const char *program_dir, struct memory_figures *figures,
                   char why[static WHY_BYTES]);

#endif
