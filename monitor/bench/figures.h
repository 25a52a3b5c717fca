/*
 * A measurement whose result is a list of named figures: its options, its
 * samples, and how it is printed. One thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_FIGURES_H
#define PORTCULLIS_MONITOR_BENCH_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/bench/stats.h"

#define MAX_FIGURES 16u

struct figure_options {
	uint32_t n_runs;
	const char *program_dir;
	bool json;
};

/* --runs N, --programs DIR, --json, --help. -1: go on; else the status to end with. n_runs holds the default.
 */
int figure_options_parse(const char *verb, const char *help, int argc, char **argv,
                         struct figure_options *options);

struct figures {
	size_t n;
	const char *name[MAX_FIGURES];
	struct stats stats[MAX_FIGURES];
};

/* Microseconds; sorts them. The name must stay. */
void figures_add(struct figures *figures, const char *name, double *values, size_t n);

/* {"rows": [{"name", "median", "p99", "max"}]}, or a title and a table. The exit status. */
int figures_print(const struct figures *figures, const char *verb, const char *title, bool json);

/* The same with further members in the document (taken; NULL: none). What people read of them the caller
 * prints. */
int figures_print_with(const struct figures *figures, const char *verb, const char *title, bool json,
                       json_t *members);

#endif
