/*
 * One row of `bench guests`: n guests of m domains, each of which calls one server in the
 * first guest without end; a change that cuts the channels of every second guest, and all that must hold
 * after it.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_CROWD_H
#define PORTCULLIS_MONITOR_BENCH_CROWD_H

#include <stdint.h>

#include "monitor/manifest.h"

struct launcher;
struct scene;

enum crowd_part { /* of a change, in the order of the report's times */
	CROWD_TOTAL,
	CROWD_PREPARE,
	CROWD_STOP,
	CROWD_PATCH,
	CROWD_RESUME,
	N_CROWD_PARTS
};

struct crowd {
	/* What to do. */
	uint32_t n_guests, n_domains; /* of each guest */
	uint32_t n_runs;
	enum stop_mode stop;
	const char *program_dir;

	/* Filled in. */
	uint32_t n_channels, n_cut, n_stopped; /* channels, channels cut by a change, vCPUs stopped for it */
	double start_ms;                       /* until every domain calls */
	double calls_per_second;               /* of all, while nothing is changed */
	double *part[N_CROWD_PARTS];           /* microseconds, a value for each run; from the caller */

	/* Private: between crowd_open and crowd_close. */
	struct scene *scene;
	char *allow, *deny; /* policy text */
	uint64_t *seen;     /* messages of each client, when they were looked at last */
};

/* Builds the guests and waits until all call. -errno and a line; crowd_close also then. */
int crowd_open(struct crowd *crowd, struct launcher *launcher, char why[static WHY_BYTES]);
void crowd_close(struct crowd *crowd);

/* Run number `run`. -errno and a line: something failed, or was not as it must be after the change. */
int crowd_run(struct crowd *crowd, uint32_t run, char why[static WHY_BYTES]);

#endif
