#include <jansson.h>
#include <stdio.h>

#include "monitor/bench/revoke_internal.h"
#include "monitor/bench/table.h"

/* Spencer et al. 1999: milliseconds on a 200 MHz machine, here in microseconds. */
static const double paper_n[] = {1, 2, 4, 8, 16};
static const double paper_total[] = {1550, 1560, 1570, 1600, 1650};
#define N_PAPER (sizeof(paper_n) / sizeof(paper_n[0]))

static const char *const part_names[N_PARTS] = {"total", "stop", "patch", "resume"};

void revoke_fit_paper(struct stats_fit *fit)
{
	stats_line(paper_n, paper_total, N_PAPER, fit);
}

static json_t *row_json(uint32_t n, const struct stats part[N_PARTS])
{
	json_t *json = json_pack("{s:i s:i}", "connections", (int)n, "runs", (int)part[PART_TOTAL].n);

	for (int i = 0; i < N_PARTS; i++)
		json_object_set_new(json, part_names[i], stats_json(&part[i]));
	return json;
}

static json_t *fit_json(const struct revoke_measurement *m)
{
	if (!m->has_fit)
		return json_null();
	return json_pack("{s:f s:f s:f s:{s:f s:f s:f}}", "base", m->fit.base, "per_connection", m->fit.slope,
	                 "r2", m->fit.r2, "patch", "base", m->patch_fit.base, "per_connection",
	                 m->patch_fit.slope, "r2", m->patch_fit.r2);
}

static json_t *paper_json(void)
{
	json_t *n = json_array(), *total = json_array();

	for (size_t i = 0; i < N_PAPER; i++) {
		json_array_append_new(n, json_integer((json_int_t)paper_n[i]));
		json_array_append_new(total, json_integer((json_int_t)paper_total[i]));
	}
	return json_pack("{s:o s:o}", "connections", n, "total", total);
}

static int print_json(const struct revoke_measurement *m)
{
	const struct revoke_options *options = m->options;
	json_t *rows = json_array(), *skipped = json_array();
	json_t *json;

	for (size_t r = 0; r < m->n_rows; r++)
		if (m->skipped[r][0])
			json_array_append_new(skipped, json_pack("{s:i s:s}", "connections",
			                                         (int)options->connections.value[r], "why",
			                                         m->skipped[r]));
		else
			json_array_append_new(rows, row_json(options->connections.value[r], m->row[r]));
	json = json_pack("{s:s s:s s:i s:b s:o s:o s:o s:{s:o} s:o}", "shape", shape_name(options->shape),
	                 "stop", stop_mode_name(options->stop), "vcpus", (int)options->n_vcpus,
	                 "realtime_loop", m->realtime, "rows", rows, "idle", row_json(0, m->idle), "fit",
	                 fit_json(m), "floor", "stop_resume", stats_json(&m->floor), "paper", paper_json());
	if (!json) {
		fputs("portcullis bench revoke: out of memory\n", stderr);
		return 1;
	}
	json_object_set_new(json, "skipped", skipped);
	if (options->is_planted)
		json_object_set_new(json, "layout", json_string(layout_name(options->layout)));
	json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return 0;
}

static void print_row(struct table *table, uint32_t n, const struct stats part[N_PARTS])
{
	const char *paper = "-";
	char number[16];

	for (size_t i = 0; i < N_PAPER; i++)
		if ((uint32_t)paper_n[i] == n) {
			snprintf(number, sizeof(number), "%.0f", paper_total[i]);
			paper = number;
		}
	table_cell(table, "%u", n);
	table_cell(table, "%.1f", part[PART_TOTAL].median);
	if (part[PART_TOTAL].n >= STATS_P99_RUNS)
		table_cell(table, "%.1f", part[PART_TOTAL].p99);
	else
		table_cell(table, "-");
	table_cell(table, "%.1f", part[PART_TOTAL].max);
	for (int i = PART_STOP; i < N_PARTS; i++)
		table_cell(table, "%.1f", part[i].median);
	table_cell(table, "%s", paper);
}

static void print_table(const struct revoke_measurement *m)
{
	static const char *const heading[] = {"connections", "total", "p99",    "max",
	                                      "stop",        "patch", "resume", "paper"};
	struct table *table = table_create(8);

	for (size_t i = 0; i < 8; i++)
		table_cell(table, "%s", heading[i]);
	print_row(table, 0, m->idle);
	for (size_t r = 0; r < m->n_rows; r++)
		if (!m->skipped[r][0])
			print_row(table, m->options->connections.value[r], m->row[r]);
	table_print(table, stdout);
	table_free(table);
}

static int print_human(const struct revoke_measurement *m)
{
	const struct revoke_options *options = m->options;
	const struct stats *last = &m->row[m->n_rows - 1][PART_TOTAL];

	printf("Revoking every connection. Shape %s%s%s, vCPUs %u, --stop %s, runs of each row %u%s.\n"
	       "Microseconds; medians unless the heading says otherwise. The paper's machine had 200 "
	       "MHz.\n\n",
	       shape_name(options->shape), options->is_planted ? ", slots " : "",
	       options->is_planted ? layout_name(options->layout) : "", options->n_vcpus,
	       stop_mode_name(options->stop), options->n_runs, m->realtime ? "" : ", without SCHED_FIFO");
	print_table(m);
	putchar('\n');
	for (size_t r = 0; r < m->n_rows; r++)
		if (m->skipped[r][0])
			printf("%u connections were left out: %s\n", options->connections.value[r],
			       m->skipped[r]);
	if (m->has_fit)
		printf("fit    %.1f us + %.2f us x n (R2 %.3f); patch alone %.1f us + %.2f us x n (R2 "
		       "%.3f)\n",
		       m->fit.base, m->fit.slope, m->fit.r2, m->patch_fit.base, m->patch_fit.slope,
		       m->patch_fit.r2);
	printf("paper  %.0f us + %.2f us x n (R2 %.3f)\n", m->paper_fit.base, m->paper_fit.slope,
	       m->paper_fit.r2);
	printf("floor  %.1f us: stop and resume, nothing between; the last row takes %.2f times that\n",
	       m->floor.median, m->floor.median > 0 ? last->median / m->floor.median : 0.0);
	return 0;
}

int revoke_print(const struct revoke_measurement *m)
{
	return m->options->json ? print_json(m) : print_human(m);
}
