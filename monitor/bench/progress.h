/*
 * One line on a terminal that says how far a long measurement is. Appears after
 * a second, is wiped out at the end, never appears in a pipe. Loop thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_PROGRESS_H
#define PORTCULLIS_MONITOR_BENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	uint64_t total, done;
	uint64_t begun_ns, shown_ns;
	bool terminal, shown;
};

void progress_begin(struct progress *progress, uint64_t total);

/* One of total is done; the text says what comes now. */
void progress_step(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));

void progress_end(struct progress *progress);

#endif
