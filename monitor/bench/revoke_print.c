#include <jansson.h>
#include <stdio.h>

#include "monitor/bench/revoke_internal.h"
#include "monitor/bench/table.h"

/* Spencer et al. 1999: milliseconds on a 200 MHz machine, here in microseconds. */
static const double paper_n[] = {1, 2, 4, 8, 16};
static const double paper_total[] = {1550, 1560, 1570, 1600, 1650};
#define N_PAPER (sizeof(paper_n) / sizeof(paper_n[0]))

void revoke_fit_paper(struct stats_fit *fit)
{
	stats_line(paper_n, paper_total, N_PAPER, fit);
}

static json_t *row_json(uint32_t n, const struct stats part[N_PARTS])
{
	json_t *json = json_pack("{s:i s:i}", "connections", (int)n, "runs", (int)part[PART_TOTAL].n);

	for (int i = 0; i < N_PARTS; i++)
		json_object_set_new(json, revoke_part_names[i], stats_json(&part[i]));
	return json;
}

static json_t *floor_json(const struct stats *floor, const struct stats *warm)
{
	return json_pack("{s:o s:o}", "stop_resume", stats_json(floor), "warm", stats_json(warm));
}

static json_t *cut_row_json(const struct revoke_measurement *m, size_t r)
{
	json_t *json = row_json(m->options->connections.value[r], m->row[r]);

	json_object_set_new(json, "floor", floor_json(&m->row_floor[r], &m->row_warm[r]));
	json_object_set_new(json, "floor_ratio", json_real(m->ratio[r]));
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
			json_array_append_new(rows, cut_row_json(m, r));
	json = json_pack("{s:s s:s s:i s:b s:o s:o s:o s:o s:o}", "shape", shape_name(options->shape), "stop",
	                 stop_mode_name(options->stop), "vcpus", (int)options->n_vcpus, "realtime_loop",
	                 m->realtime, "rows", rows, "idle", row_json(0, m->idle), "fit", fit_json(m), "floor",
	                 floor_json(&m->floor, &m->warm), "paper", paper_json());
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

static const char *paper_cell(uint32_t n, char number[static 16])
{
	for (size_t i = 0; i < N_PAPER; i++)
		if ((uint32_t)paper_n[i] == n) {
			snprintf(number, 16, "%.0f", paper_total[i]);
			return number;
		}
	return "-";
}

static void print_row(struct table *table, uint32_t n, const struct stats part[N_PARTS])
{
	table_cell(table, "%u", n);
	table_cell(table, "%.1f", part[PART_TOTAL].median);
	table_cell(table, part[PART_TOTAL].n >= STATS_P99_RUNS ? "%.1f" : "-", part[PART_TOTAL].p99);
	table_cell(table, "%.1f", part[PART_TOTAL].max);
	for (int i = PART_STOP; i < N_PARTS; i++)
		table_cell(table, "%.1f", part[i].median);
}

static void print_table(const struct revoke_measurement *m)
{
	static const char *const heading[] = {"connections", "total",   "p99",   "max",     "stop", "patch",
	                                      "resume",      "resumed", "floor", "x floor", "paper"};
	const size_t n_columns = sizeof(heading) / sizeof(heading[0]);
	struct table *table = table_create((unsigned)n_columns);
	char number[16];

	for (size_t i = 0; i < n_columns; i++)
		table_cell(table, "%s", heading[i]);
	print_row(table, 0, m->idle);
	for (int i = 0; i < 3; i++)
		table_cell(table, "-");
	for (size_t r = 0; r < m->n_rows; r++) {
		if (m->skipped[r][0])
			continue;
		print_row(table, m->options->connections.value[r], m->row[r]);
		table_cell(table, "%.1f", m->row_floor[r].median);
		table_cell(table, "%.2f", m->ratio[r]);
		table_cell(table, "%s", paper_cell(m->options->connections.value[r], number));
	}
	table_print(table, stdout);
	table_free(table);
}

static int print_human(const struct revoke_measurement *m)
{
	const struct revoke_options *options = m->options;

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
	printf("floor  %.1f us: stop and resume, nothing between, where a change that was prepared alike "
	       "would\n"
	       "       have stopped; %.1f us right after another stop. resumed: from the begin of the stop "
	       "until\n"
	       "       all run again; x floor: that over the floor of the same run, the median over runs\n",
	       m->floor.median, m->warm.median);
	return 0;
}

int revoke_print(const struct revoke_measurement *m)
{
	return m->options->json ? print_json(m) : print_human(m);
}
