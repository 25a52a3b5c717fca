/*
 * Median, 99th percentile, maximum, and the least-squares line through points.
 * Pure; any thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_STATS_H
#define PORTCULLIS_MONITOR_BENCH_STATS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define STATS_P99_RUNS 30u /* with fewer values a 99th percentile says nothing, and is not shown */

struct stats {
	size_t n;
	double median;
	double p99; /* nearest rank: with fewer than 100 values it is the maximum */
	double max;
};

/* Sorts the values in place. All zero for n = 0. */
struct stats stats_of(double *values, size_t n);

/* {"median", "p99", "max"}; without p99 if there are fewer than STATS_P99_RUNS values. NULL: no memory. */
json_t *stats_json(const struct stats *stats);

/* The median of over[i] / under[i], pairs of the same round; sorts nothing. 0 for n = 0, or without memory.
 */
double stats_median_ratio(const double *over, const double *under, size_t n);

/* y = base + slope * x. */
struct stats_fit {
	double base, slope;
	double r2; /* share of the variance of y that the line explains; 1 if y does not vary */
};

/* False: fewer than two different x. */
bool stats_line(const double *x, const double *y, size_t n, struct stats_fit *fit);

#endif
