#include "monitor/bench/revoke.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/bystander.h"
#include "monitor/bench/loads.h"
#include "monitor/bench/progress.h"
#include "monitor/bench/revoke_internal.h"
#include "monitor/bench/scene.h"
#include "vmm/priority.h"

#define VERB "revoke"
#define MAX_RUNS 100000u
#define MANY 1024u /* connections: rows above take few runs */
#define MANY_RUNS 5u

static const char help[] =
	"usage: portcullis bench revoke [--shape chain|pairs|fan] [--connections N,...]\n"
	"                               [--layout adjacent|mapping-per-slot|scattered|interleaved]\n"
	"                               [--stop all|affected|none] [--runs N] [--vcpus N] [--json]\n"
	"       portcullis bench revoke --load halted|spin|storm|all [--vcpus N,...] [--stop ...] [--runs "
	"N]\n"
	"       portcullis bench revoke --bystander [--connections N,...] [--layout ...] [--runs N] "
	"[--json]\n"
	"\n"
	"Opens N connections, lets every call on them block, pushes one policy that allows none of\n"
	"them, and takes the time from the begin of the stop until the report could be answered. After\n"
	"each run every link must be dead at both ends: its flows cut, its records saying so, its\n"
	"memory gone, both domains told \"revoked\", and no message passed on meanwhile. Then the\n"
	"policy allows them again, and the next run begins with new channels.\n"
	"\n"
	"  --shape        chain: client -> relay -> ... -> server, N connections (as in the paper);\n"
	"                 pairs: N clients with a server each; fan: one client, one server, N channels\n"
	"  --layout       a fan whose channels the monitor puts there itself, since domains would need "
	"minutes\n"
	"                 for thousands of calls; who reads what stands as with calls. Slots: neighbours in\n"
	"                 one host mapping, a mapping for each, or every second one stays in use;\n"
	"                 interleaved: the same channels as scattered, where the monitor places them\n"
	"  --connections  1,2,4,8,16 if not given; with --layout 64,256,1024,4096,16384\n"
	"  --stop         all vCPUs of all guests, those of affected guests, or none\n"
	"  --runs         for each number of connections; 30 if not given (above 1024 connections at most\n"
	"                 5). With fewer there is no p99\n"
	"  --vcpus        of the guest; 2 if not given, 1 with --bystander, 1,2,4,8 with --load\n"
	"  --programs     the folder of the domain programs, if it is not beside this program\n"
	"\n"
	"  --load         one connection, in a guest with a further domain on every vCPU that sleeps,\n"
	"                 computes, or makes one exit after the other; beside it, in the same "
	"turns,\n"
	"                 stop and cont of QEMU with as many vCPUs, where qemu-system-x86_64 is installed\n"
	"  --bystander    what a guest notices of which nothing is cut, with each --stop: requests to stop,\n"
	"                 exits, and the time that a domain lost which reads the clock without end\n"
	"\n"
	"Row 0 is a change that finds nothing to revoke. The floor is a stop and a resume with nothing\n"
	"between them, once in every run: the same change is prepared, and where it would stop they come "
	"alone.\n";

/* ---- options ---- */

static bool set_shape(struct revoke_options *options, const char *text)
{
	int shape = shape_find(text);

	if (shape < 0)
		fprintf(stderr, "portcullis bench revoke: --shape %s: expected chain, pairs or fan\n", text);
	else
		options->shape = (enum shape)shape;
	return shape >= 0;
}

static bool set_layout(struct revoke_options *options, const char *text)
{
	int layout = layout_find(text);

	if (layout < 0)
		fprintf(stderr,
		        "portcullis bench revoke: --layout %s: expected adjacent, mapping-per-slot, "
		        "scattered or interleaved\n",
		        text);
	else
		options->layout = (enum planted_layout)layout;
	options->is_planted = layout >= 0;
	return options->is_planted;
}

static bool set_stop(struct revoke_options *options, const char *text)
{
	int mode = stop_mode_find(text);

	if (mode < 0)
		fprintf(stderr, "portcullis bench revoke: --stop %s: expected all, affected or none\n", text);
	else
		options->stop = (enum stop_mode)mode;
	options->has_stop = true;
	return mode >= 0;
}

static bool set_load(struct revoke_options *options, const char *text)
{
	if (!loads_known(text))
		fprintf(stderr, "portcullis bench revoke: --load %s: expected halted, spin, storm or all\n",
		        text);
	options->load = text;
	return loads_known(text);
}

static bool set_option(struct revoke_options *options, int option, const char **connections)
{
	switch (option) {
	case 's':
		return set_shape(options, optarg);
	case 'l':
		return set_layout(options, optarg);
	case 'c':
		*connections = optarg;
		return true;
	case 'm':
		return set_stop(options, optarg);
	case 'r':
		return option_number(VERB, "--runs", optarg, 1, MAX_RUNS, &options->n_runs);
	case 'v':
		return option_list(VERB, "--vcpus", optarg, 1, MAX_VCPUS, &options->vcpus);
	case 'o':
		return set_load(options, optarg);
	case 'b':
		options->is_bystander = true;
		return true;
	case 'p':
		options->program_dir = optarg;
		return true;
	case 'j':
		options->json = true;
		return true;
	default:
		options->help = true;
		return true;
	}
}

/* What belongs together, and what is the default of what was not given. */
static bool complete(struct revoke_options *options, const char *connections)
{
	const char *what = NULL;

	if (options->load && (options->is_bystander || options->is_planted || connections))
		what = "--load has one connection: it goes with --vcpus, --stop and --runs";
	else if (!options->load && options->vcpus.n > 1)
		what = "--vcpus: a list goes with --load";
	else if (options->is_bystander && options->has_stop)
		what = "--bystander measures every --stop";
	if (what) {
		fprintf(stderr, "portcullis bench revoke: %s\n", what);
		return false;
	}
	if (!connections)
		connections = options->is_bystander ? "1,64"
		              : options->is_planted ? "64,256,1024,4096,16384"
		                                    : "1,2,4,8,16";
	if (options->is_bystander && !options->is_planted)
		options->layout = LAYOUT_SCATTERED;
	options->is_planted |= options->is_bystander;
	if (options->is_planted)
		options->shape = SHAPE_FAN;
	if (options->vcpus.n == 0 && options->load)
		options->vcpus = (struct number_list){{1, 2, 4, 8}, 4};
	else if (options->vcpus.n == 0) /* a bystander is to have a core of its own, if there are two */
		options->vcpus = (struct number_list){{options->is_bystander ? 1 : 2}, 1};
	options->n_vcpus = options->vcpus.value[0];
	return option_list(VERB, "--connections", connections, 1,
	                   options->is_planted ? PLANTED_MAX_CHANNELS : shape_limit(options->shape),
	                   &options->connections);
}

/* The status to end with; -1: go on. */
static int parse(int argc, char **argv, struct revoke_options *options)
{
	static const struct option known[] = {
		{"shape", required_argument, NULL, 's'},
		{"layout", required_argument, NULL, 'l'},
		{"connections", required_argument, NULL, 'c'},
		{"stop", required_argument, NULL, 'm'},
		{"runs", required_argument, NULL, 'r'},
		{"vcpus", required_argument, NULL, 'v'},
		{"load", required_argument, NULL, 'o'},
		{"bystander", no_argument, NULL, 'b'},
		{"programs", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *connections = NULL;
	int option;

	*options = (struct revoke_options){.n_runs = STATS_P99_RUNS};
	optind = 0;
	while ((option = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
		if (option == '?' || option == ':') {
			option_error(VERB, option, argv);
			return 2;
		}
		if (!set_option(options, option, &connections))
			return 2;
	}
	if (optind < argc) {
		fprintf(stderr,
		        "portcullis bench revoke: what is \"%s\"? See portcullis bench revoke --help\n",
		        argv[optind]);
		return 2;
	}
	if (options->help) {
		fputs(help, stdout);
		return 0;
	}
	if (!complete(options, connections))
		return 2;
	for (size_t i = 0; i < options->connections.n; i++)
		if (options->connections.value[i] > options->most)
			options->most = options->connections.value[i];
	return -1;
}

/* ---- measuring ---- */

/* Where the samples of a kind and row stand: cut's parts, then idle's, then the floors. */
static double *samples_of(struct revoke_measurement *m, unsigned kind, size_t row)
{
	return m->samples + (kind * m->n_rows + row) * m->options->n_runs;
}

#define KIND_CUT 0u
#define KIND_IDLE N_PARTS
#define KIND_FLOOR (2u * N_PARTS)
#define KIND_WARM (2u * N_PARTS + 1)
#define N_KINDS (2u * N_PARTS + 2)

static uint32_t runs_of(const struct revoke_measurement *m, size_t row)
{
	bool many = m->options->connections.value[row] > MANY && m->options->n_runs > MANY_RUNS;

	if (m->skipped[row][0])
		return 0;
	return many ? MANY_RUNS : m->options->n_runs;
}

static struct revoke_row row_of(struct revoke_measurement *m, size_t r)
{
	const struct revoke_options *options = m->options;
	struct revoke_row row = {
		.shape = options->shape,
		.is_planted = options->is_planted,
		.layout = options->layout,
		.n = options->connections.value[r],
		.most = options->most,
		.n_vcpus = options->n_vcpus,
		.n_runs = runs_of(m, r),
		.stop = options->stop,
		.program_dir = options->program_dir,
		.floor = samples_of(m, KIND_FLOOR, r),
		.warm = samples_of(m, KIND_WARM, r),
	};

	for (unsigned part = 0; part < N_PARTS; part++) {
		row.cut.part[part] = samples_of(m, KIND_CUT + part, r);
		row.idle.part[part] = samples_of(m, KIND_IDLE + part, r);
	}
	return row;
}

/* What all rows have of a kind, side by side at the begin of its samples. */
static size_t gather(struct revoke_measurement *m, unsigned kind)
{
	double *to = samples_of(m, kind, 0);
	size_t n = 0;

	for (size_t r = 0; r < m->n_rows; r++)
		for (uint32_t run = 0; run < runs_of(m, r); run++)
			to[n++] = samples_of(m, kind, r)[run];
	return n;
}

static bool fit_of(const struct revoke_measurement *m, enum revoke_part part, struct stats_fit *fit)
{
	double x[MAX_LIST], y[MAX_LIST];
	size_t n = 0;

	for (size_t r = 0; r < m->n_rows; r++) {
		if (m->row[r][part].n == 0)
			continue;
		x[n] = m->options->connections.value[r];
		y[n++] = m->row[r][part].median;
	}
	return stats_line(x, y, n, fit);
}

/* Before anything is sorted: pairs of the same run. */
static void compare(struct revoke_measurement *m)
{
	for (size_t r = 0; r < m->n_rows; r++)
		m->ratio[r] = stats_median_ratio(samples_of(m, KIND_CUT + PART_RESUMED, r),
		                                 samples_of(m, KIND_FLOOR, r), runs_of(m, r));
}

static void evaluate(struct revoke_measurement *m)
{
	compare(m);
	for (unsigned part = 0; part < N_PARTS; part++) {
		for (size_t r = 0; r < m->n_rows; r++)
			m->row[r][part] = stats_of(samples_of(m, KIND_CUT + part, r), runs_of(m, r));
		m->idle[part] = stats_of(samples_of(m, KIND_IDLE + part, 0), gather(m, KIND_IDLE + part));
	}
	for (size_t r = 0; r < m->n_rows; r++) {
		m->row_floor[r] = stats_of(samples_of(m, KIND_FLOOR, r), runs_of(m, r));
		m->row_warm[r] = stats_of(samples_of(m, KIND_WARM, r), runs_of(m, r));
	}
	m->floor = stats_of(samples_of(m, KIND_FLOOR, 0), gather(m, KIND_FLOOR));
	m->warm = stats_of(samples_of(m, KIND_WARM, 0), gather(m, KIND_WARM));
	m->has_fit = fit_of(m, PART_TOTAL, &m->fit) && fit_of(m, PART_PATCH, &m->patch_fit);
	revoke_fit_paper(&m->paper_fit);
}

/* All rows take turns in every run, so that a host that drifts drifts under all of them. */
static int run_rows(struct revoke_measurement *m, struct revoke_row *rows, struct progress *progress,
                    char why[static WHY_BYTES])
{
	int error = 0;

	for (uint32_t run = 0; run < m->options->n_runs; run++)
		for (size_t r = 0; r < m->n_rows && error == 0; r++) {
			if (run >= rows[r].n_runs)
				continue;
			progress_step(progress, "%s, run %u of %u, %u connections",
			              shape_name(m->options->shape), run + 1, rows[r].n_runs, rows[r].n);
			error = revoke_run(&rows[r], run, why);
		}
	return error;
}

static int measure_together(struct revoke_measurement *m, struct launcher *launcher,
                            struct progress *progress, char why[static WHY_BYTES])
{
	struct revoke_row rows[MAX_LIST];
	size_t n_open = 0;
	int error = 0;

	for (; n_open < m->n_rows && error == 0; n_open++) {
		rows[n_open] = row_of(m, n_open);
		error = revoke_open(&rows[n_open], launcher, why);
	}
	if (error == 0)
		error = run_rows(m, rows, progress, why);
	while (n_open > 0)
		revoke_close(&rows[--n_open]);
	return error;
}

/* Guests with thousands of slots do not fit beside each other, and one alone may not fit either. */
static int measure_alone(struct revoke_measurement *m, size_t r, struct launcher *launcher,
                         struct progress *progress, char why[static WHY_BYTES])
{
	struct revoke_row row = row_of(m, r);
	int error = revoke_open(&row, launcher, why);

	if (error == -ENOSPC)
		snprintf(m->skipped[r], WHY_BYTES, "%s", why);
	for (uint32_t run = 0; run < row.n_runs && error == 0; run++) {
		progress_step(progress, "%s, run %u of %u, %u connections", layout_name(row.layout), run + 1,
		              row.n_runs, row.n);
		error = revoke_run(&row, run, why);
	}
	revoke_close(&row);
	return error == -ENOSPC ? 0 : error;
}

static int measure(struct revoke_measurement *m, struct launcher *launcher, char why[static WHY_BYTES])
{
	struct progress progress;
	uint64_t n_steps = 0;
	int error = 0;

	m->n_rows = m->options->connections.n;
	m->samples = calloc(N_KINDS * m->n_rows * m->options->n_runs, sizeof(*m->samples));
	if (!m->samples) {
		snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	m->realtime = priority_raise();
	for (size_t r = 0; r < m->n_rows; r++)
		n_steps += runs_of(m, r);
	progress_begin(&progress, n_steps);
	if (!m->options->is_planted)
		error = measure_together(m, launcher, &progress, why);
	for (size_t r = 0; r < m->n_rows && error == 0 && m->options->is_planted; r++)
		error = measure_alone(m, r, launcher, &progress, why);
	progress_end(&progress);
	if (error == 0)
		evaluate(m);
	return error;
}

int revoke_main(int argc, char **argv, struct launcher *launcher)
{
	struct revoke_options options;
	struct revoke_measurement m = {.options = &options};
	char why[WHY_BYTES];
	int status = parse(argc, argv, &options);

	if (status >= 0)
		return status;
	if (options.load)
		return loads_main(&options, launcher);
	if (options.is_bystander)
		return bystander_main(&options, launcher);
	if (measure(&m, launcher, why) < 0) {
		fprintf(stderr, "portcullis bench revoke: %s\n", why);
		status = 1;
	} else {
		status = revoke_print(&m);
	}
	free(m.samples);
	return status;
}
