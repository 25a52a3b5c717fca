/*
 * Who may fill the audit trail, and how fast (H12).
 *
 * A domain that is denied in a loop must not push everybody else's lines out. Each
 * domain has a bucket of tokens; a line without one is held back and
 * counted, and the count becomes a line (I9). Denials are throttled, and what clients
 * and peers of a port bring about; cuts and other notices come from the host.
 * The caller holds the audit's lock.
 */
#ifndef PORTCULLIS_MONITOR_AUDIT_THROTTLE_H
#define PORTCULLIS_MONITOR_AUDIT_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/abi/limits.h"

#define AUDIT_BURST 256u           /* lines at once, of one domain */
#define AUDIT_LINES_PER_SECOND 64u /* after that */
#define AUDIT_BUCKETS 256u         /* domains that share a bucket share its tokens */

struct audit_bucket {
	char guest[MAX_NAME_BYTES]; /* of whom it was last */
	char domain[MAX_NAME_BYTES];
	uint64_t filled_ns;    /* when tokens were last added; 0: never used */
	uint64_t tokens;       /* 1/1000 of a line */
	uint64_t held_back;    /* lines, not told yet */
	uint64_t held_back_ns; /* since when */
};

struct audit_throttle {
	struct audit_bucket buckets[AUDIT_BUCKETS];
	uint32_t n_holding; /* buckets with something to tell */
};

/* Takes a token; names may be NULL (then always). *told.held_back > 0: tell that before this line. */
bool audit_throttle_allows(struct audit_throttle *throttle, const char *guest, const char *domain,
                           uint64_t now_ns, struct audit_bucket *told);

/* One bucket that has held lines back for a second at now_ns; it starts anew. False: none. */
bool audit_throttle_next(struct audit_throttle *throttle, uint64_t now_ns, struct audit_bucket *told);

/* Whether a bucket has something to tell. */
bool audit_throttle_holds(const struct audit_throttle *throttle);

#endif
