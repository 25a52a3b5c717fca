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
	char bytes[OUTLET_BYTES]; /* whole lines */
};

/* Room for one line more. */
bool outlet_has_room(const struct outlet *outlet);

/* Adds a line. */
void outlet_put(struct outlet *outlet, const char *text, size_t bytes);

/* Writes once. 0, or -errno: what is left can not be written. */
int outlet_write(struct outlet *outlet);

/*
 * Gives up what is left; returns the number of lines that did not get out
 * whole. What comes next begins on a line of its own.
 */
uint64_t outlet_discard(struct outlet *outlet);

#endif
