/*
 * Denials on their way to the audit trail, each with the rule that is missing.
 *
 * A vCPU thread notes what was denied; the loop asks the security server why
 * and writes the line (I9). The list is bounded, and so are the questions: when either is
 * full, or there is no server to ask, the line is written at once and without a reason; it is
 * never lost here.
 */
#ifndef PORTCULLIS_MONITOR_DENIALS_H
#define PORTCULLIS_MONITOR_DENIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/registry.h"
#include "policy/class.h"
#include "policy/sid.h"

struct denial {
	enum policy_class tclass;
	uint32_t permissions;
	policy_sid source, target;
	uint64_t channel; /* 0: none */
	bool permissive;
	const struct domain *domain; /* NULL: not a domain's */
};

struct denials;

struct denials *denials_create(void);
void denials_destroy(struct denials *denials);

/* Registry lock; any thread. Kicks the loop. */
void denials_note(struct registry *registry, struct monitor *monitor, const struct denial *denial);

/* Loop: asks about what was noted. */
void denials_pump(struct monitor *monitor);

/* Loop, at the end: writes what was noted. Whoever was asked is silent already. */
void denials_flush(struct monitor *monitor);

#endif
