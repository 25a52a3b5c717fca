#include "monitor/bench/loads.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/progress.h"
#include "monitor/bench/qemu.h"
#include "monitor/bench/revoke_internal.h"
#include "monitor/bench/table.h"
#include "vmm/priority.h"

static const struct load {
	const char *name, *argument; /* of guest/programs/hold.c */
} loads[] = {{"halted", "idle"}, {"spin", "spin"}, {"storm", "storm"}};

#define N_LOADS (sizeof(loads) / sizeof(loads[0]))
#define MAX_ROWS (N_LOADS * MAX_LIST)

enum kind { /* of samples, behind the cut's parts */
	FLOOR = N_PARTS,
	WARM,
	QEMU,
	N_KINDS
};

struct row {
	const struct load *load;
	uint32_t n_vcpus;
	double *samples[N_KINDS];
	struct stats stats[N_KINDS];
	double floor_ratio, qemu_ratio; /* of the same run, median over runs */
	bool has_qemu;
};

struct bench {
	const struct revoke_options *options;
	struct launcher *launcher;
	struct row row[MAX_ROWS];
	size_t n_rows;
	bool realtime;
	char no_qemu[WHY_BYTES]; /* why there is no peer; empty: there is */
};

bool loads_known(const char *name)
{
	bool known = strcmp(name, "all") == 0;

	for (size_t i = 0; i < N_LOADS; i++)
		known = known || strcmp(name, loads[i].name) == 0;
	return known;
}

/* ---- measuring ---- */

/* QEMU's guest has nothing to do: it stands beside ours that have not either. */
static struct qemu *peer(struct bench *bench, const struct row *row)
{
	struct qemu *qemu = NULL;

	if (strcmp(row->load->name, "halted") != 0 || bench->no_qemu[0])
		return NULL;
	return qemu_open(row->n_vcpus, &qemu, bench->no_qemu) == 0 ? qemu : NULL;
}

/* The peer's turn; cold as well, since a whole change went by since the last one. */
static int qemu_once(struct qemu *qemu, double *us, char why[static WHY_BYTES])
{
	int error = qemu ? qemu_stop_resume(qemu, us) : 0;

	if (error < 0)
		snprintf(why, WHY_BYTES, "QEMU: %s", strerror(-error));
	return error;
}

static int run_row(struct bench *bench, struct row *row, struct revoke_row *revoke, struct qemu *qemu,
                   struct progress *progress, char why[static WHY_BYTES])
{
	uint32_t n_runs = bench->options->n_runs;
	const double *resumed = row->samples[PART_RESUMED];
	int error = 0;

	for (uint32_t run = 0; run < n_runs && error == 0; run++) {
		progress_step(progress, "%u vCPUs, %s, run %u of %u", row->n_vcpus, row->load->name, run + 1,
		              n_runs);
		error = revoke_run(revoke, run, why);
		if (error == 0)
			error = qemu_once(qemu, &row->samples[QEMU][run], why);
	}
	if (error < 0)
		return error;
	row->has_qemu = qemu != NULL;
	row->floor_ratio = stats_median_ratio(resumed, row->samples[FLOOR], n_runs);
	row->qemu_ratio = stats_median_ratio(resumed, row->samples[QEMU], n_runs);
	for (unsigned kind = 0; kind < N_KINDS; kind++)
		row->stats[kind] = stats_of(row->samples[kind], n_runs);
	return 0;
}

static int measure_row(struct bench *bench, struct row *row, struct progress *progress,
                       char why[static WHY_BYTES])
{
	const struct revoke_options *options = bench->options;
	struct revoke_row revoke = {.shape = SHAPE_FAN,
	                            .is_planted = true,
	                            .layout = LAYOUT_ADJACENT,
	                            .n = 1,
	                            .most = 1,
	                            .n_vcpus = row->n_vcpus,
	                            .n_runs = options->n_runs,
	                            .load = row->load->argument,
	                            .stop = options->stop,
	                            .program_dir = options->program_dir};
	struct qemu *qemu;
	int error;

	for (unsigned kind = 0; kind < N_KINDS; kind++) {
		row->samples[kind] = calloc(options->n_runs, sizeof(double));
		if (!row->samples[kind]) {
			snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
			return -ENOMEM;
		}
	}
	for (unsigned part = 0; part < N_PARTS; part++)
		revoke.cut.part[part] = row->samples[part];
	revoke.floor = row->samples[FLOOR];
	revoke.warm = row->samples[WARM];
	error = revoke_open(&revoke, bench->launcher, why);
	if (error == 0) {
		qemu = peer(bench, row);
		error = run_row(bench, row, &revoke, qemu, progress, why);
		qemu_close(qemu);
	}
	revoke_close(&revoke);
	return error;
}

static int measure(struct bench *bench, char why[static WHY_BYTES])
{
	const struct number_list *vcpus = &bench->options->vcpus;
	struct progress progress;
	char fault[WHY_BYTES];
	int error = 0;

	for (size_t i = 0; i < N_LOADS; i++)
		for (size_t v = 0; v < vcpus->n; v++)
			if (strcmp(bench->options->load, "all") == 0 ||
			    strcmp(bench->options->load, loads[i].name) == 0)
				bench->row[bench->n_rows++] =
					(struct row){.load = &loads[i], .n_vcpus = vcpus->value[v]};
	bench->realtime = priority_raise();
	progress_begin(&progress, (uint64_t)bench->n_rows * bench->options->n_runs);
	for (size_t r = 0; r < bench->n_rows && error == 0; r++) {
		struct row *row = &bench->row[r];

		error = measure_row(bench, row, &progress, fault);
		if (error < 0)
			snprintf(why, WHY_BYTES, "%u vCPUs, %s: %.400s", row->n_vcpus, row->load->name,
			         fault);
	}
	progress_end(&progress);
	return error;
}

/* ---- what is printed ---- */

static json_t *row_json(const struct row *row, uint32_t n_runs)
{
	json_t *json = json_pack("{s:s s:i s:i s:i}", "load", row->load->name, "vcpus", (int)row->n_vcpus,
	                         "connections", 1, "runs", (int)n_runs);

	for (unsigned part = 0; part < N_PARTS; part++)
		json_object_set_new(json, revoke_part_names[part], stats_json(&row->stats[part]));
	json_object_set_new(json, "floor",
	                    json_pack("{s:o s:o}", "stop_resume", stats_json(&row->stats[FLOOR]), "warm",
	                              stats_json(&row->stats[WARM])));
	json_object_set_new(json, "floor_ratio", json_real(row->floor_ratio));
	if (!row->has_qemu)
		return json;
	json_object_set_new(json, "qemu_stop_cont", stats_json(&row->stats[QEMU]));
	json_object_set_new(json, "qemu_ratio", json_real(row->qemu_ratio));
	return json;
}

static int print_json(const struct bench *bench)
{
	json_t *rows = json_array(), *json;

	for (size_t r = 0; r < bench->n_rows; r++)
		json_array_append_new(rows, row_json(&bench->row[r], bench->options->n_runs));
	json = json_pack("{s:o s:s s:b}", "rows", rows, "stop", stop_mode_name(bench->options->stop),
	                 "realtime_loop", bench->realtime);
	if (!json) {
		fputs("portcullis bench revoke: out of memory\n", stderr);
		return 1;
	}
	if (bench->no_qemu[0])
		json_object_set_new(json, "no_qemu", json_string(bench->no_qemu));
	json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return 0;
}

static void print_row(struct table *table, const struct row *row)
{
	static const unsigned medians[] = {PART_STOP, PART_PATCH, PART_RESUME, PART_RESUMED};
	const struct stats *resumed = &row->stats[PART_RESUMED];

	table_cell(table, "%s", row->load->name);
	table_cell(table, "%u", row->n_vcpus);
	for (size_t i = 0; i < sizeof(medians) / sizeof(medians[0]); i++)
		table_cell(table, "%.1f", row->stats[medians[i]].median);
	table_cell(table, resumed->n >= STATS_P99_RUNS ? "%.1f" : "-", resumed->p99);
	table_cell(table, "%.1f", row->stats[FLOOR].median);
	table_cell(table, "%.2f", row->floor_ratio);
	table_cell(table, row->has_qemu ? "%.1f" : "-", row->stats[QEMU].median);
	table_cell(table, row->has_qemu ? "%.2f" : "-", row->qemu_ratio);
}

static int print_human(const struct bench *bench)
{
	static const char *const heading[] = {"load", "vcpus", "stop",    "patch", "resume", "resumed",
	                                      "p99",  "floor", "x floor", "qemu",  "x qemu"};
	const size_t n_columns = sizeof(heading) / sizeof(heading[0]);
	struct table *table = table_create((unsigned)n_columns);

	for (size_t i = 0; i < n_columns; i++)
		table_cell(table, "%s", heading[i]);
	for (size_t r = 0; r < bench->n_rows; r++)
		print_row(table, &bench->row[r]);
	printf("Revoking one connection while every vCPU of the guest sleeps, computes, or makes exits. "
	       "--stop "
	       "%s.\nMicroseconds, medians of %u runs%s.\n\n",
	       stop_mode_name(bench->options->stop), bench->options->n_runs,
	       bench->realtime ? "" : ", without SCHED_FIFO");
	table_print(table, stdout);
	table_free(table);
	puts("\nresumed: from the begin of the stop until all run again. floor: stop and resume alone, where "
	     "the\n"
	     "same change would have stopped. x: ratio to it in the same run, median over runs.");
	if (bench->no_qemu[0])
		printf("No QEMU beside it: %s.\n", bench->no_qemu);
	return 0;
}

int loads_main(const struct revoke_options *options, struct launcher *launcher)
{
	static struct bench bench;
	char why[WHY_BYTES];
	int status;

	bench = (struct bench){.options = options, .launcher = launcher};
	if (measure(&bench, why) < 0) {
		fprintf(stderr, "portcullis bench revoke: %s\n", why);
		status = 1;
	} else {
		status = options->json ? print_json(&bench) : print_human(&bench);
	}
	for (size_t r = 0; r < bench.n_rows; r++)
		for (unsigned kind = 0; kind < N_KINDS; kind++)
			free(bench.row[r].samples[kind]);
	return status;
}
