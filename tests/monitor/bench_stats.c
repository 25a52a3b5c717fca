/* What the measurements compute: medians, percentiles, the line through medians, tables of text. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/stats.h"
#include "monitor/bench/table.h"

#define NEAR(a, b) cr_assert(fabs((a) - (b)) < 1e-9, "%s: %.12g, not %.12g", #a, (double)(a), (double)(b))

Test(bench_stats, median_and_max_of_unsorted_values)
{
	double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, one[] = {7};
	struct stats stats = stats_of(odd, 3);

	NEAR(stats.median, 3);
	NEAR(stats.max, 5);
	NEAR(stats_of(even, 4).median, 2.5);
	stats = stats_of(one, 1);
	NEAR(stats.median, 7);
	NEAR(stats.p99, 7);
	cr_assert_eq(stats_of(NULL, 0).n, 0);
}

Test(bench_stats, p99_is_the_nearest_rank)
{
	static double values[1000];

	for (int i = 0; i < 1000; i++)
		values[i] = 1000 - i; /* 1 to 1000 */
	NEAR(stats_of(values, 1000).p99, 990);
	NEAR(stats_of(values, 100).p99, 99);
	NEAR(stats_of(values, 30).p99, 30); /* of few values it is the maximum */
}

Test(bench_stats, too_few_runs_have_no_p99)
{
	double values[STATS_P99_RUNS] = {1, 2, 3};
	struct stats few = stats_of(values, STATS_P99_RUNS - 1), enough = stats_of(values, STATS_P99_RUNS);
	json_t *json = stats_json(&few);

	cr_assert_null(json_object_get(json, "p99"));
	cr_assert(json_is_number(json_object_get(json, "median")) &&
	          json_is_number(json_object_get(json, "max")));
	json_decref(json);
	json = stats_json(&enough);
	cr_assert(json_is_number(json_object_get(json, "p99")));
	json_decref(json);
}

/* Of the pairs, not of the medians: those would give 20 / 2. */
Test(bench_stats, ratios_are_of_pairs)
{
	const double over[] = {30, 10, 20}, under[] = {1, 2, 10};

	NEAR(stats_median_ratio(over, under, 3), 5);
	NEAR(stats_median_ratio(over, under, 1), 30);
	NEAR(stats_median_ratio(over, under, 0), 0);
	NEAR(over[0], 30); /* as they were */
}

/* Worked by hand: means 2 and 4; Sxx 2, Sxy 3, residuals 0.5 of a total of 5. */
Test(bench_stats, line_by_hand)
{
	double x[] = {1, 2, 3}, y[] = {2, 5, 5};
	struct stats_fit fit;

	cr_assert(stats_line(x, y, 3, &fit));
	NEAR(fit.slope, 1.5);
	NEAR(fit.base, 1);
	NEAR(fit.r2, 0.75);
}

Test(bench_stats, line_of_the_paper)
{
	double n[] = {1, 2, 4, 8, 16}, total[] = {1550, 1560, 1570, 1600, 1650};
	struct stats_fit fit;

	cr_assert(stats_line(n, total, 5, &fit));
	cr_assert_lt(fabs(fit.base - 1545), 0.5);
	cr_assert_lt(fabs(fit.slope - 6.6), 0.05);
	cr_assert_lt(fabs(fit.r2 - 0.998), 0.0005);
}

Test(bench_stats, line_without_a_slope)
{
	double same[] = {4, 4, 4}, x[] = {1, 2, 3};
	struct stats_fit fit;

	cr_assert_not(stats_line(same, x, 3, &fit), "a vertical line");
	cr_assert_not(stats_line(x, same, 1, &fit), "one point");
	cr_assert(stats_line(x, same, 3, &fit));
	NEAR(fit.slope, 0);
	NEAR(fit.r2, 1);
}

Test(bench_stats, table_is_aligned)
{
	struct table *table = table_create(3);
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	table_cell(table, "n");
	table_cell(table, "median");
	table_cell(table, "p99");
	table_cell(table, "%d", 16);
	table_cell(table, "%.1f", 1.25);
	table_cell(table, "%s", "12345");
	table_print(table, to);
	fclose(to);
	cr_assert_str_eq(text, "n   median    p99\n16     1.2  12345\n");
	table_free(table);
	free(text);
}
