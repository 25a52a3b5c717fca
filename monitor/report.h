/*
 * The report of a change, in the form that scripts rely on (docs/cli), and its
 * audit lines. Reads only what does not change while the registry is pinned.
 */
#ifndef PORTCULLIS_MONITOR_REPORT_H
#define PORTCULLIS_MONITOR_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "monitor/plan.h"
#include "monitor/reasons.h"
#include "vmm/stop.h"

/* CLOCK_MONOTONIC nanoseconds; t0..t4 of the design page. */
struct change_times {
	uint64_t begun, t0, t1, t2, t3, t4;
};

struct change_outcome {
	const char *change; /* "policy", ... */
	bool planned;
	uint64_t policy_number, previous;
	enum stop_mode stop;
	bool enforcing;
	const struct plan *plan;
	const struct reasons *reasons;
	struct change_times times;
	struct stop_report stopped;
	uint64_t killed; /* bit i: guest with index i */
};

/* NULL when memory is short. */
json_t *report_json(struct monitor *monitor, const struct change_outcome *outcome);

/* One PORTCULLIS_CUT line for each cut, one PORTCULLIS_POLICY line for the change. */
void report_audit(struct monitor *monitor, const struct change_outcome *outcome);

#endif
