#include "monitor/bench/stats.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct stats stats_of(double *values, size_t n)
{
	if (n == 0)
		return (struct stats){0};
	qsort(values, n, sizeof(*values), compare);
	return (struct stats){
		.n = n,
		.median = (values[(n - 1) / 2] + values[n / 2]) / 2,
		.p99 = values[(n * 99 + 99) / 100 - 1],
		.max = values[n - 1],
	};
}

double stats_median_ratio(const double *over, const double *under, size_t n)
{
	double *ratios = calloc(n, sizeof(*ratios)), median;

	for (size_t i = 0; ratios && i < n; i++)
		ratios[i] = under[i] > 0 ? over[i] / under[i] : 0;
	median = ratios ? stats_of(ratios, n).median : 0;
	free(ratios);
	return median;
}

json_t *stats_json(const struct stats *stats)
{
	json_t *json = json_pack("{s:f}", "median", stats->median);

	if (json && stats->n >= STATS_P99_RUNS)
		json_object_set_new(json, "p99", json_real(stats->p99));
	if (json)
		json_object_set_new(json, "max", json_real(stats->max));
	return json;
}

static double mean(const double *values, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	return sum / (double)n;
}

bool stats_line(const double *x, const double *y, size_t n, struct stats_fit *fit)
{
	double mean_x, mean_y, xx = 0, xy = 0, total = 0, residual = 0;

	if (n < 2)
		return false;
	mean_x = mean(x, n);
	mean_y = mean(y, n);
	for (size_t i = 0; i < n; i++) {
		xx += (x[i] - mean_x) * (x[i] - mean_x);
		xy += (x[i] - mean_x) * (y[i] - mean_y);
		total += (y[i] - mean_y) * (y[i] - mean_y);
	}
	if (xx == 0)
		return false;
	fit->slope = xy / xx;
	fit->base = mean_y - fit->slope * mean_x;
	for (size_t i = 0; i < n; i++) {
		double off = y[i] - (fit->base + fit->slope * x[i]);

		residual += off * off;
	}
	fit->r2 = total == 0 ? 1 : 1 - residual / total;
	return true;
}
