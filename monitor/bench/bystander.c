#include "monitor/bench/bystander.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/progress.h"
#include "monitor/bench/revoke_internal.h"
#include "monitor/bench/table.h"
#include "vmm/priority.h"

/* The first is what the others are compared with: everything but the commit. */
static const struct mode {
	const char *name;
	enum stop_mode stop;
	bool plan_only;
} modes[] = {{"planned", STOP_NONE, true},
             {"none", STOP_NONE, false},
             {"affected", STOP_AFFECTED, false},
             {"all", STOP_ALL, false}};

#define N_MODES (sizeof(modes) / sizeof(modes[0]))
#define MAX_ROWS (N_MODES * MAX_LIST)

static const char *const figure_names[N_BYSTANDER_FIGURES] = {
	"mapping_calls", "stop_requests", "signal_exits", "interrupt_exits",
	"exits",         "lost",          "lost_before",  "total"};

struct row {
	const struct mode *mode;
	uint32_t n; /* connections */
	double *samples[N_BYSTANDER_FIGURES];
	struct stats stats[N_BYSTANDER_FIGURES];
	double per_call; /* exits for interrupts and signals, beyond those of a planned change, over mapping
	                    calls */
};

struct bench {
	const struct revoke_options *options;
	struct row row[MAX_ROWS]; /* modes of the first number of connections, then of the next */
	size_t n_rows;
	bool realtime, has_counts, loop_apart;
	char no_counts[WHY_BYTES];
	double median_ns;
};

/* ---- measuring ---- */

/* Modes take turns in every run. */
static int run_rows(struct bench *bench, struct row *rows, struct bystander *bystander,
                    struct progress *progress, char why[static WHY_BYTES])
{
	int error = 0;

	for (uint32_t run = 0; run < bench->options->n_runs; run++)
		for (size_t m = 0; m < N_MODES && error == 0; m++) {
			double figure[N_BYSTANDER_FIGURES] = {0};

			progress_step(progress, "%u connections, %s, run %u of %u", rows[m].n, modes[m].name,
			              run + 1, bench->options->n_runs);
			error = bystander_run(bystander, modes[m].stop, modes[m].plan_only, figure, why);
			for (unsigned f = 0; f < N_BYSTANDER_FIGURES; f++)
				rows[m].samples[f][run] = figure[f];
		}
	return error;
}

/* Pairs of the same run; of a change that maps nothing there is none. Before anything is sorted. */
static void compare(struct row *row, const struct row *planned, uint32_t n_runs)
{
	double *const *samples = row->samples, *const *base = planned->samples;
	double *ratios = calloc(n_runs, sizeof(*ratios));

	for (uint32_t run = 0; ratios && run < n_runs; run++) {
		double forced = samples[BYSTANDER_IRQ_EXITS][run] + samples[BYSTANDER_SIGNAL_EXITS][run];
		double without = base[BYSTANDER_IRQ_EXITS][run] + base[BYSTANDER_SIGNAL_EXITS][run];
		double calls = samples[BYSTANDER_MAPPING_CALLS][run];

		ratios[run] = calls > 0 && forced > without ? (forced - without) / calls : 0;
	}
	row->per_call = ratios ? stats_of(ratios, n_runs).median : 0;
	free(ratios);
}

static void evaluate(struct row *rows, uint32_t n_runs)
{
	for (size_t m = 0; m < N_MODES; m++)
		compare(&rows[m], &rows[0], n_runs);
	for (size_t m = 0; m < N_MODES; m++)
		for (unsigned f = 0; f < N_BYSTANDER_FIGURES; f++)
			rows[m].stats[f] = stats_of(rows[m].samples[f], n_runs);
}

static int measure_n(struct bench *bench, uint32_t n, struct launcher *launcher, struct progress *progress,
                     char why[static WHY_BYTES])
{
	const struct revoke_options *options = bench->options;
	struct bystander bystander = {.planted = {.n = n,
	                                          .layout = options->layout,
	                                          .n_vcpus = options->n_vcpus,
	                                          .program_dir = options->program_dir}};
	struct row *rows = &bench->row[bench->n_rows];
	int error;

	for (size_t m = 0; m < N_MODES; m++) {
		rows[m] = (struct row){.mode = &modes[m], .n = n};
		bench->n_rows++;
		for (unsigned f = 0; f < N_BYSTANDER_FIGURES; f++) {
			rows[m].samples[f] = calloc(options->n_runs, sizeof(double));
			if (!rows[m].samples[f]) {
				snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
				return -ENOMEM;
			}
		}
	}
	error = bystander_open(&bystander, launcher, why);
	if (error == 0)
		error = run_rows(bench, rows, &bystander, progress, why);
	bench->has_counts = bystander.has_counts;
	bench->loop_apart = bystander.loop_apart;
	bench->median_ns = bystander.median_ns;
	snprintf(bench->no_counts, sizeof(bench->no_counts), "%s", bystander.no_counts);
	bystander_close(&bystander);
	if (error == 0)
		evaluate(rows, options->n_runs);
	return error;
}

static int measure(struct bench *bench, struct launcher *launcher, char why[static WHY_BYTES])
{
	const struct number_list *connections = &bench->options->connections;
	struct progress progress;
	char fault[WHY_BYTES];
	int error = 0;

	bench->realtime = priority_raise();
	progress_begin(&progress, (uint64_t)connections->n * N_MODES * bench->options->n_runs);
	for (size_t i = 0; i < connections->n && error == 0; i++) {
		error = measure_n(bench, connections->value[i], launcher, &progress, fault);
		if (error < 0)
			snprintf(why, WHY_BYTES, "%u connections: %.400s", connections->value[i], fault);
	}
	progress_end(&progress);
	return error;
}

/* ---- what is printed ---- */

static bool is_shown(const struct bench *bench, unsigned figure)
{
	return bench->has_counts || (figure != BYSTANDER_SIGNAL_EXITS && figure != BYSTANDER_IRQ_EXITS &&
	                             figure != BYSTANDER_EXITS);
}

static json_t *row_json(const struct bench *bench, const struct row *row)
{
	json_t *json = json_pack("{s:s s:i s:i}", "stop", row->mode->name, "connections", (int)row->n, "runs",
	                         (int)bench->options->n_runs);

	for (unsigned f = 0; f < N_BYSTANDER_FIGURES; f++)
		if (is_shown(bench, f))
			json_object_set_new(json, figure_names[f], stats_json(&row->stats[f]));
	if (bench->has_counts)
		json_object_set_new(json, "forced_exits_per_mapping_call", json_real(row->per_call));
	return json;
}

static int print_json(const struct bench *bench)
{
	json_t *rows = json_array(), *json;

	for (size_t r = 0; r < bench->n_rows; r++)
		json_array_append_new(rows, row_json(bench, &bench->row[r]));
	json = json_pack("{s:o s:s s:i s:f s:b s:b}", "rows", rows, "layout",
	                 layout_name(bench->options->layout), "vcpus", (int)bench->options->n_vcpus,
	                 "reading_ns", bench->median_ns, "realtime_loop", bench->realtime, "loop_apart",
	                 bench->loop_apart);
	if (!json) {
		fputs("portcullis bench revoke: out of memory\n", stderr);
		return 1;
	}
	if (!bench->has_counts)
		json_object_set_new(json, "no_exits", json_string(bench->no_counts));
	json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return 0;
}

static void print_row(struct table *table, const struct bench *bench, const struct row *row)
{
	table_cell(table, "%u", row->n);
	table_cell(table, "%s", row->mode->name);
	for (unsigned f = 0; f < BYSTANDER_LOST; f++)
		table_cell(table, is_shown(bench, f) ? "%.0f" : "-",
		           f == BYSTANDER_STOP_REQUESTS ? row->stats[f].max : row->stats[f].median);
	table_cell(table, bench->has_counts ? "%.2f" : "-", row->per_call);
	table_cell(table, "%.1f", row->stats[BYSTANDER_LOST].median);
	table_cell(table, "%.1f", row->stats[BYSTANDER_LOST].max);
	table_cell(table, "%.1f", row->stats[BYSTANDER_LOST_BEFORE].median);
	table_cell(table, "%.1f", row->stats[BYSTANDER_TOTAL].median);
}

static int print_human(const struct bench *bench)
{
	static const char *const heading[] = {"connections",  "--stop", "mapping calls", "stop requests",
	                                      "signal exits", "irqs",   "exits",         "forced per call",
	                                      "lost",         "max",    "before",        "total"};
	const size_t n_columns = sizeof(heading) / sizeof(heading[0]);
	struct table *table = table_create((unsigned)n_columns);

	for (size_t i = 0; i < n_columns; i++)
		table_cell(table, "%s", heading[i]);
	for (size_t r = 0; r < bench->n_rows; r++)
		print_row(table, bench, &bench->row[r]);
	printf("What a guest notices of a change that cuts connections of another guest (slots %s), per "
	       "change.\nIts one domain reads the clock every %.0f ns. Medians of %u runs%s; stop requests "
	       "are "
	       "the most of any run.\n\n",
	       layout_name(bench->options->layout), bench->median_ns, bench->options->n_runs,
	       bench->realtime ? "" : ", without SCHED_FIFO");
	table_print(table, stdout);
	table_free(table);
	puts("\nCounted from the finished plan to the report. mapping calls: of the whole change. irqs: "
	     "exits for an\n"
	     "interrupt of the host, its timer's included. forced per call: irqs and signal exits, without "
	     "those of\n"
	     "a planned change in the same run, over mapping calls; median over runs. lost: microseconds in "
	     "gaps of over 20 times the\n"
	     "median between two readings; before: the same while the change is prepared. planned: a change "
	     "that\n"
	     "is prepared and not made, so what is lost without any cut.");
	if (!bench->loop_apart)
		puts("The loop may run on that guest's core, and is a gap then.");
	if (!bench->has_counts)
		printf("No exits: %s.\n", bench->no_counts);
	return 0;
}

int bystander_main(const struct revoke_options *options, struct launcher *launcher)
{
	static struct bench bench;
	char why[WHY_BYTES];
	int status;

	bench = (struct bench){.options = options};
	if (measure(&bench, launcher, why) < 0) {
		fprintf(stderr, "portcullis bench revoke: %s\n", why);
		status = 1;
	} else {
		status = options->json ? print_json(&bench) : print_human(&bench);
	}
	for (size_t r = 0; r < bench.n_rows; r++)
		for (unsigned f = 0; f < N_BYSTANDER_FIGURES; f++)
			free(bench.row[r].samples[f]);
	return status;
}
