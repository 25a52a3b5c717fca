#include "monitor/bench/stop.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/figures.h"
#include "monitor/bench/progress.h"
#include "monitor/bench/qemu.h"
#include "monitor/bench/scene.h"
#include "monitor/bench/table.h"
#include "monitor/loop.h"
#include "vmm/priority.h"
#include "vmm/stop.h"

#define VERB "stop"
#define PATIENCE_NS 10000000000ull
#define PAUSE_SECONDS 0.001 /* what a guest runs between two stops */
#define N_QUANTILES 101u

static const char help[] =
	"usage: portcullis bench stop [--runs N] [--json]\n"
	"\n"
	"How long it takes until no vCPU of a guest runs, and all run again: the floor of every change that\n"
	"stops. Guests of 1, 2, 4 and 8 vCPUs take turns, with one domain on each vCPU that sleeps "
	"(halted),\n"
	"computes (spin), or makes one exit after the other (storm). Beside it, in the same turns, the same "
	"of\n"
	"QEMU over QMP (stop, then cont, each answered), if qemu-system-x86_64 is installed.\n"
	"\n"
	"  --runs      200 if not given\n"
	"  --programs  the folder of the domain programs, if it is not beside this program\n";

static const uint32_t sizes[] = {1, 2, 4, 8};
static const char *const loads[] = {"halted", "spin", "storm"};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define N_LOADS (sizeof(loads) / sizeof(loads[0]))

enum part {
	STOP,
	RESUME,
	BOTH,
	N_PARTS
};

static const char *const part_names[N_PARTS] = {"stop", "resume", "stop_resume"};

struct row {
	uint32_t n_vcpus;
	const char *load;
	double *values; /* n_runs of each part */
	struct stats part[N_PARTS];
	double *qemu_us; /* n_runs */
	struct stats qemu;
	bool has_qemu;
};

struct bench {
	const struct figure_options *options;
	struct launcher *launcher;
	struct row row[N_SIZES * N_LOADS];
	size_t n_rows;
	bool realtime;
	char no_qemu[WHY_BYTES]; /* why there is no peer; empty: there is */
};

/* ---- measuring ---- */

static char *manifest_text(uint32_t n_vcpus, const char *load)
{
	const char *argument = strcmp(load, "halted") == 0 ? "idle" : load;
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	fprintf(to, "name = \"bench\";\nvcpus = %u;\ndomains = (", n_vcpus);
	for (uint32_t v = 0; v < n_vcpus; v++)
		fprintf(to,
		        "%s\n  { name = \"d%u\"; program = \"hold\"; args = (\"%s\"); vcpu = %u;\n"
		        "    context = \"system_u:system_r:bench_t:s0\"; }",
		        v ? "," : "", v, argument, v);
	fputs("\n);\n", to);
	return fclose(to) == 0 ? text : NULL;
}

static bool never(struct stage *stage, void *opaque)
{
	(void)stage, (void)opaque;
	return false;
}

/* The second of two counts: the first finds cores that have gone to sleep. */
static int stop_once(struct scene *scene, double us[N_PARTS], char why[static WHY_BYTES])
{
	struct machine *machine = scene_guest(scene)->machine;
	int error = 0;

	stage_until(scene_stage(scene), never, NULL, PAUSE_SECONDS);
	for (int i = 0; i < 2 && error == 0; i++) {
		uint64_t begun = loop_now(), stopped, end;
		struct stop_report report;

		error = stop_machines(&machine, 1, begun + PATIENCE_NS, &report, NULL, why);
		stopped = loop_now();
		if (error == 0)
			error = resume_machines(&machine, 1, begun + PATIENCE_NS, why);
		end = loop_now();
		us[STOP] = (double)(stopped - begun) / 1000.0;
		us[RESUME] = (double)(end - stopped) / 1000.0;
		us[BOTH] = (double)(end - begun) / 1000.0;
	}
	return error;
}

/* Warmed up likewise. */
static int qemu_once(struct qemu *qemu, double *us, char why[static WHY_BYTES])
{
	int error = qemu_stop_resume(qemu, us);

	if (error == 0)
		error = qemu_stop_resume(qemu, us);
	if (error < 0)
		snprintf(why, WHY_BYTES, "QEMU: %s", strerror(-error));
	return error;
}

static int run_row(struct bench *bench, struct row *row, struct scene *scene, struct qemu *qemu,
                   struct progress *progress, char why[static WHY_BYTES])
{
	uint32_t n_runs = bench->options->n_runs;
	int error = 0;

	for (uint32_t run = 0; run < n_runs && error == 0; run++) {
		double us[N_PARTS] = {0};

		progress_step(progress, "%u vCPUs, %s, run %u of %u", row->n_vcpus, row->load, run + 1,
		              n_runs);
		error = stop_once(scene, us, why);
		for (unsigned part = 0; part < N_PARTS; part++)
			row->values[part * n_runs + run] = us[part];
		if (error == 0 && qemu)
			error = qemu_once(qemu, &row->qemu_us[run], why);
	}
	for (unsigned part = 0; part < N_PARTS && error == 0; part++)
		row->part[part] = stats_of(row->values + (size_t)part * n_runs, n_runs);
	row->has_qemu = error == 0 && qemu;
	if (row->has_qemu)
		row->qemu = stats_of(row->qemu_us, n_runs);
	return error;
}

/* QEMU's guest has nothing to do: it stands beside ours that have not either. */
static struct qemu *peer(struct bench *bench, const struct row *row)
{
	struct qemu *qemu = NULL;

	if (strcmp(row->load, "halted") != 0 || bench->no_qemu[0])
		return NULL;
	return qemu_open(row->n_vcpus, &qemu, bench->no_qemu) == 0 ? qemu : NULL;
}

static int measure_row(struct bench *bench, struct row *row, struct progress *progress,
                       char why[static WHY_BYTES])
{
	char *manifest = manifest_text(row->n_vcpus, row->load);
	struct scene_options options = {.launcher = bench->launcher,
	                                .manifest = manifest,
	                                .policy = "(type bench_t)\n(call a_domain (bench_t))\n",
	                                .program_dir = bench->options->program_dir};
	struct scene *scene = NULL;
	struct qemu *qemu = NULL;
	int error = -ENOMEM;

	row->values = calloc((size_t)bench->options->n_runs * N_PARTS, sizeof(*row->values));
	row->qemu_us = calloc(bench->options->n_runs, sizeof(*row->qemu_us));
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (manifest && row->values && row->qemu_us)
		error = scene_open(&options, &scene, why);
	if (error == 0) {
		qemu = peer(bench, row);
		error = run_row(bench, row, scene, qemu, progress, why);
	}
	qemu_close(qemu);
	scene_close(scene);
	free(manifest);
	return error;
}

static int measure(struct bench *bench, char why[static WHY_BYTES])
{
	struct progress progress;
	int error = 0;

	for (size_t load = 0; load < N_LOADS; load++)
		for (size_t size = 0; size < N_SIZES; size++)
			bench->row[bench->n_rows++] =
				(struct row){.n_vcpus = sizes[size], .load = loads[load]};
	bench->realtime = priority_raise();
	progress_begin(&progress, bench->n_rows * bench->options->n_runs);
	for (size_t r = 0; r < bench->n_rows && error == 0; r++)
		error = measure_row(bench, &bench->row[r], &progress, why);
	progress_end(&progress);
	return error;
}

/* ---- what is printed ---- */

/* The values are sorted by now. */
static json_t *quantiles_json(const double *values, size_t n)
{
	json_t *json = json_array();

	for (size_t i = 0; i < N_QUANTILES; i++)
		json_array_append_new(json, json_real(values[i * (n - 1) / (N_QUANTILES - 1)]));
	return json;
}

static json_t *row_json(const struct bench *bench, const struct row *row)
{
	uint32_t n_runs = bench->options->n_runs;
	json_t *json = json_pack("{s:i s:s s:i}", "vcpus", (int)row->n_vcpus, "load", row->load, "runs",
	                         (int)n_runs);

	for (unsigned part = 0; part < N_PARTS; part++)
		json_object_set_new(json, part_names[part], stats_json(&row->part[part]));
	json_object_set_new(json, "quantiles", quantiles_json(row->values + (size_t)BOTH * n_runs, n_runs));
	if (!row->has_qemu)
		return json;
	json_object_set_new(json, "qemu_stop_cont", stats_json(&row->qemu));
	json_object_set_new(json, "qemu_quantiles", quantiles_json(row->qemu_us, n_runs));
	return json;
}

static int print_json(const struct bench *bench)
{
	json_t *rows = json_array(), *json;

	for (size_t r = 0; r < bench->n_rows; r++)
		json_array_append_new(rows, row_json(bench, &bench->row[r]));
	json = json_pack("{s:o s:b}", "rows", rows, "realtime_loop", bench->realtime);
	if (!json) {
		fputs("portcullis bench stop: out of memory\n", stderr);
		return 1;
	}
	if (bench->no_qemu[0])
		json_object_set_new(json, "no_qemu", json_string(bench->no_qemu));
	json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return 0;
}

static int print_human(const struct bench *bench)
{
	static const char *const heading[] = {"vcpus", "load", "stop", "resume",
	                                      "both",  "p99",  "qemu", "p99"};
	struct table *table = table_create(8);

	for (size_t i = 0; i < 8; i++)
		table_cell(table, "%s", heading[i]);
	for (size_t r = 0; r < bench->n_rows; r++) {
		const struct row *row = &bench->row[r];

		table_cell(table, "%u", row->n_vcpus);
		table_cell(table, "%s", row->load);
		for (unsigned part = 0; part < N_PARTS; part++)
			table_cell(table, "%.1f", row->part[part].median);
		table_cell(table, row->part[BOTH].n < STATS_P99_RUNS ? "-" : "%.1f", row->part[BOTH].p99);
		table_cell(table, row->has_qemu ? "%.1f" : "-", row->qemu.median);
		table_cell(table, row->has_qemu && row->qemu.n >= STATS_P99_RUNS ? "%.1f" : "-",
		           row->qemu.p99);
	}
	printf("Stop and resume, nothing between. Microseconds, medians of %u runs%s.\n\n",
	       bench->options->n_runs, bench->realtime ? "" : ", without SCHED_FIFO");
	table_print(table, stdout);
	table_free(table);
	if (bench->no_qemu[0])
		printf("\nNo QEMU beside it: %s.\n", bench->no_qemu);
	return 0;
}

int bench_stop_main(int argc, char **argv, struct launcher *launcher)
{
	struct figure_options options = {.n_runs = 200};
	struct bench bench = {.options = &options, .launcher = launcher};
	int status = figure_options_parse(VERB, help, argc, argv, &options);
	char why[WHY_BYTES];

	if (status >= 0)
		return status;
	if (measure(&bench, why) < 0) {
		fprintf(stderr, "portcullis bench stop: %s\n", why);
		status = 1;
	} else {
		status = options.json ? print_json(&bench) : print_human(&bench);
	}
	for (size_t r = 0; r < bench.n_rows; r++) {
		free(bench.row[r].values);
		free(bench.row[r].qemu_us);
	}
	return status;
}
