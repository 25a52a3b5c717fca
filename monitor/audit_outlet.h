/*
 * Lines on their way to one descriptor. The audit's writer only.
 */
#ifndef PORTCULLIS_MONITOR_AUDIT_OUTLET_H
#define PORTCULLIS_MONITOR_AUDIT_OUTLET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/audit_format.h"

#define OUTLET_BYTES (16u << 10)
#define OUTLET_WRITE_BYTES PIPE_BUF /* what a pipe takes without blocking once poll says so */

_Static_assert(AUDIT_LINE_BYTES + 1 <= OUTLET_WRITE_BYTES, "a line goes out in one piece");

struct outlet {
	int fd; /* -1: closed to us */
	size_t used, done;
	bool broken;              /* what was written last is no whole line */
	size_t gap_bytes;         /* of the first line, if it says what is missing; 0: it does not */
	uint64_t gap;             /* how many lines it says are missing */
	char bytes[OUTLET_BYTES]; /* whole lines */
};

/* Room for one line more. */
bool outlet_has_room(const struct outlet *outlet);

/* Adds a line. */
void outlet_put(struct outlet *outlet, const char *text, size_t bytes);

/* Adds the line that says that n lines are missing; it is the first one. */
void outlet_put_gap(struct outlet *outlet, const char *text, size_t bytes, uint64_t n);

/* Writes once. 0, or -errno: what is left can not be written. */
int outlet_write(struct outlet *outlet);

/*
 * Gives up what is left; returns the number of lines that did not get out
 * whole. *untold is what a line that was among them would have said is missing.
 * What comes next begins on a line of its own.
 */
uint64_t outlet_discard(struct outlet *outlet, uint64_t *untold);

#endif
