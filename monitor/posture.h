/*
 * The posture: everything that decisions are made by, as it is in force.
 *
 * A security server with its sealed image, the AVC, the SIDs, the enforcing
 * mode. A change prepares a candidate beside it and commit puts that in its
 * place. AVC and SIDs are under the registry lock; the server is the loop's.
 */
#ifndef PORTCULLIS_MONITOR_POSTURE_H
#define PORTCULLIS_MONITOR_POSTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/monitor.h"
#include "policy/avc.h"
#include "policy/server.h"
#include "policy/sid.h"

/* A loaded policy with the process that answers for it. */
struct policy_instance {
	struct server *server; /* NULL: died, and another is being started */
	int image_fd;          /* sealed */
	size_t image_bytes;
	uint64_t fingerprint_high, fingerprint_low;
	char operator_context[MAX_CONTEXT_BYTES];
	uint32_t n_types, n_rules, n_booleans;
	bool mls;
};

struct posture {
	/* Registry lock. */
	struct avc *avc;
	struct sid_table *sids;
	bool enforcing;
	uint64_t policy_number;
	policy_sid operator_sid;

	/* Loop thread only. */
	struct policy_instance policy;
};

/* One permission of a subject: yes, no, or why there is no answer. text says what is missing. */
typedef void permission_fn(void *opaque, bool allowed, const char *text);

/*
 * Asks AVC or server whether source may; audits a denial; calls done, at once or
 * later, exactly once. permission is one bit. Loop thread.
 */
void posture_ask(struct monitor *monitor, policy_sid source, policy_sid target, enum policy_class tclass,
                 uint32_t permission, permission_fn *done, void *opaque);

/* The context of a guest or of the monitor itself as a target: the operator's own SID. */
policy_sid posture_self(const struct monitor *monitor);

#endif
