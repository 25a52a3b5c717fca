/*
 * What `bench revoke` measures (revoke.c) and prints (revoke_print.c).
 */
#ifndef PORTCULLIS_MONITOR_BENCH_REVOKE_INTERNAL_H
#define PORTCULLIS_MONITOR_BENCH_REVOKE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/bench/options.h"
#include "monitor/bench/revoke_run.h"
#include "monitor/bench/stats.h"

struct revoke_options {
	enum shape shape;
	bool is_planted;
	enum planted_layout layout;
	struct number_list connections;
	uint32_t most;
	enum stop_mode stop;
	bool has_stop;            /* it was given */
	uint32_t n_runs, n_vcpus; /* n_vcpus: the first of vcpus */
	struct number_list vcpus;
	const char *load;  /* rows of loads.h: halted, spin, storm or all; NULL: not these */
	bool is_bystander; /* rows of bystander.h */
	const char *program_dir;
	bool json, help;
};

/* All that was measured. Samples of row r, run i stand at r * n_runs + i. */
struct revoke_measurement {
	const struct revoke_options *options;
	size_t n_rows;
	struct stats row[MAX_LIST][N_PARTS];
	struct stats row_floor[MAX_LIST], row_warm[MAX_LIST];
	double ratio[MAX_LIST]; /* stop to resumed over the floor of the same run, median over runs */
	struct stats idle[N_PARTS], floor, warm;
	bool has_fit, realtime;
	struct stats_fit fit, patch_fit, paper_fit;
	char skipped[MAX_LIST][WHY_BYTES]; /* why a row could not be measured; empty: it was */
	double *samples;                   /* of everything */
};

/* The line through the paper's five points. */
void revoke_fit_paper(struct stats_fit *fit);

/* Prints it as options say; the exit status. */
int revoke_print(const struct revoke_measurement *m);

#endif
