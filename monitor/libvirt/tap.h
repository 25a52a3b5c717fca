/*
 * Log lines of guests' domains, from the threads that log to the consoles that show them.
 *
 * A ring of fixed size: whoever logs copies a line under a lock that is held for nothing else, and never
 * waits; what finds no place is counted. While no console is open nothing is copied.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_TAP_H
#define PORTCULLIS_MONITOR_LIBVIRT_TAP_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/abi/limits.h"

struct tap;

struct tap_line {
	char guest[MAX_NAME_BYTES];
	char domain[MAX_NAME_BYTES]; /* "": the guest's own */
	char text[MAX_LOG_BYTES + 1];
	uint64_t n_lost; /* before it, of any guest */
};

/* NULL: no memory, or no descriptor. */
struct tap *tap_create(void);
void tap_destroy(struct tap *tap);

/* An audit_listener_fn; opaque is the tap. Any thread. */
void tap_heard(void *opaque, const char *guest, const char *domain, const char *text);

/* Loop thread. */
void tap_listen(struct tap *tap, bool on);
int tap_fd(const struct tap *tap); /* readable when lines are there */
/* The oldest line; false: none. Once none is left the descriptor is quiet. */
bool tap_next(struct tap *tap, struct tap_line *line);

#endif
