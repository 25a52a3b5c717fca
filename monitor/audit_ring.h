/*
 * The newest audit lines, in memory of a fixed size, and how far a file has
 * them; and the queue of log lines. What audit.c locks.
 *
 * A line always gets in: it takes the place of the oldest ones. One that a
 * file has not got yet is then lost to the file, and counted. So neither a disk
 * nor a pipe can hold up whoever puts lines in, and a flood leaves the newest.
 * The caller holds the audit's lock.
 */
#ifndef PORTCULLIS_MONITOR_AUDIT_RING_H
#define PORTCULLIS_MONITOR_AUDIT_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/audit_format.h"

#define AUDIT_RING_LINES 4096u
#define AUDIT_RING_BYTES (2u << 20)
#define AUDIT_LOG_BYTES (256u << 10)

struct audit_entry {
	char type[AUDIT_TYPE_BYTES];
	uint64_t unix_ns;
	uint64_t start; /* position of the body, counted from the beginning of time */
};

struct audit_ring {
	struct audit_entry entries[AUDIT_RING_LINES]; /* by serial */
	char bytes[AUDIT_RING_BYTES];
	uint64_t head;   /* position behind the newest body */
	uint64_t oldest; /* serial; newest + 1 if there is none */
	uint64_t newest; /* serial, from 1; 0: none yet */
	uint64_t next;   /* serial that the file gets next */
	bool to_file;
	uint64_t lost; /* never reached the file */
};

void audit_ring_init(struct audit_ring *ring, bool to_file);

/* Puts a line in; bytes is the body's length. */
void audit_ring_add(struct audit_ring *ring, const char *type, uint64_t unix_ns, const char *body,
                    size_t bytes);

/* The line of that serial, oldest <= serial <= newest; returns its length. */
size_t audit_ring_line(const struct audit_ring *ring, uint64_t serial, char text[static AUDIT_LINE_BYTES]);

/* What stands where n lines up to that serial are missing. */
size_t audit_ring_gap(uint64_t serial, uint64_t unix_ns, uint64_t n, char text[static AUDIT_LINE_BYTES]);

/* Whole log lines, each with its newline. */
struct audit_log_queue {
	char bytes[AUDIT_LOG_BYTES];
	uint64_t head, tail; /* positions counted from the beginning of time */
	uint64_t lost;       /* since the last that got in */
};

/* False: full; counted, and told before the next line that gets in. */
bool audit_log_put(struct audit_log_queue *queue, const char *line, size_t bytes);

/* Takes whole lines, as many as fit. */
size_t audit_log_take(struct audit_log_queue *queue, char *out, size_t out_bytes);

#endif
