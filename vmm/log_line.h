/*
 * A domain's log line on its way to a person's terminal: cleaned and limited.
 * Needs no VM. Any thread; the bucket is the domain's vCPU thread's.
 */
#ifndef PORTCULLIS_VMM_LOG_LINE_H
#define PORTCULLIS_VMM_LOG_LINE_H

#include <stddef.h>

#include "guest/abi/limits.h"

/* Lines of one domain: a second, and at once. What is above is counted as lost. */
#define LOG_LINES_PER_SECOND 200u
#define LOG_LINES_BURST 400u

/*
 * Copies n raw bytes (at most MAX_LOG_BYTES) as one terminated line: line ends
 * at the end are dropped; tabs become spaces; control characters (C0, C1, DEL),
 * characters that change the direction of text, and what is not UTF-8 become '?'.
 */
void log_line_clean(const char *raw, size_t n, char line[static MAX_LOG_BYTES + 1]);

#endif
