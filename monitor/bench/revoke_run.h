/*
 * One row of the measurement: a guest in which n connections are opened, all
 * calls block, one change revokes every link, and everything is looked after.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_REVOKE_RUN_H
#define PORTCULLIS_MONITOR_BENCH_REVOKE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/bench/planted.h"
#include "monitor/bench/shape.h"
#include "monitor/manifest.h"

struct launcher;
struct scene;

enum revoke_part { /* of a change, in the order of the report's times */
	PART_TOTAL,
	PART_STOP,
	PART_PATCH,
	PART_RESUME,
	PART_RESUMED, /* the last three together: from the begin of the stop until all run again */
	N_PARTS
};

/* As documents call them. */
extern const char *const revoke_part_names[N_PARTS];

/* Microseconds, one value for each run. */
struct revoke_samples {
	double *part[N_PARTS];
};

struct revoke_row {
	/* What to do. */
	enum shape shape;
	bool is_planted; /* then layout counts, not shape; see planted.h */
	enum planted_layout layout;
	uint32_t n;    /* connections */
	uint32_t most; /* of all rows */
	uint32_t n_vcpus, n_runs;
	const char *load; /* planted.h; NULL: none */
	enum stop_mode stop;
	const char *program_dir;

	/* Filled in: a value for each run. */
	struct revoke_samples cut;  /* the change that revokes n connections */
	struct revoke_samples idle; /* a change that finds nothing to revoke; NULL: is not wanted */
	double *floor; /* stop and resume alone, where the same change, prepared alike, would have stopped */
	double *warm;  /* stop and resume alone, right after another stop and resume */

	/* Private: between revoke_open and revoke_close. */
	struct scene *scene;
	char *allow, *deny; /* policy text */
	struct planted planted;
};

/* Builds the row's guest. -errno and a line, -ENOSPC as planted_open; revoke_close also then. */
int revoke_open(struct revoke_row *row, struct launcher *launcher, char why[static WHY_BYTES]);
void revoke_close(struct revoke_row *row);

/* Run number `run` of the row. -errno and a line: something failed, or was not as revoked as it must be. */
int revoke_run(struct revoke_row *row, uint32_t run, char why[static WHY_BYTES]);

#endif
