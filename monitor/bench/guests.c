#include "monitor/bench/guests.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/limits.h"
#include "monitor/bench/crowd.h"
#include "monitor/bench/options.h"
#include "monitor/bench/progress.h"
#include "monitor/bench/scene.h"
#include "monitor/bench/stats.h"
#include "monitor/bench/table.h"
#include "vmm/priority.h"

#define VERB "guests"
#define MAX_RUNS 1000u
#define MOST_DOMAINS 16u

static const char help[] =
	"usage: portcullis bench guests [--guests LIST] [--domains N] [--stop all|affected|none]\n"
	"                               [--runs N] [--json]\n"
	"\n"
	"Every domain of every guest calls one server in the first guest, without end. Then a policy is\n"
	"pushed that cuts the channels of every second guest, under this traffic; what was cut is looked\n"
	"after, what was kept must go on without a fault, and the former policy is pushed again.\n"
	"\n"
	"  --guests    how many; 2,4,8,16,32 if not given\n"
	"  --domains   of each guest; 4 if not given\n"
	"  --stop      all vCPUs of all guests, those of affected guests, or none; all if not given\n"
	"  --runs      of each; 20 if not given\n"
	"  --programs  the folder of the domain programs, if it is not beside this program\n";

struct options {
	struct number_list guests;
	uint32_t n_domains, n_runs;
	enum stop_mode stop;
	const char *program_dir;
	bool json, help;
};

struct row {
	struct crowd crowd;
	struct stats part[N_CROWD_PARTS];
};

static const char *const part_names[N_CROWD_PARTS] = {"total", "prepare", "stop", "patch", "resume"};

/* ---- options ---- */

static bool set_stop(struct options *options, const char *text)
{
	int mode = stop_mode_find(text);

	if (mode < 0)
		fprintf(stderr, "portcullis bench guests: --stop %s: expected all, affected or none\n", text);
	else
		options->stop = (enum stop_mode)mode;
	return mode >= 0;
}

static bool take(struct options *options, int option)
{
	switch (option) {
	case 'g':
		return option_list(VERB, "--guests", optarg, 2, MAX_GUESTS, &options->guests);
	case 'd':
		return option_number(VERB, "--domains", optarg, 1, MOST_DOMAINS, &options->n_domains);
	case 'r':
		return option_number(VERB, "--runs", optarg, 1, MAX_RUNS, &options->n_runs);
	case 's':
		return set_stop(options, optarg);
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

/* -1: go on; else the status to end with. */
static int parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"guests", required_argument, NULL, 'g'},   {"domains", required_argument, NULL, 'd'},
		{"runs", required_argument, NULL, 'r'},     {"stop", required_argument, NULL, 's'},
		{"programs", required_argument, NULL, 'p'}, {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
	};
	int option;

	*options = (struct options){
		.guests = {{2, 4, 8, 16, 32}, 5}, .n_domains = 4, .n_runs = 20, .stop = STOP_ALL};
	optind = 0;
	while ((option = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
		if (option == '?' || option == ':') {
			option_error(VERB, option, argv);
			return 2;
		}
		if (!take(options, option))
			return 2;
	}
	if (optind < argc) {
		fprintf(stderr,
		        "portcullis bench guests: what is \"%s\"? See portcullis bench guests --help\n",
		        argv[optind]);
		return 2;
	}
	if (options->help)
		fputs(help, stdout);
	return options->help ? 0 : -1;
}

/* ---- measuring ---- */

static int measure_row(const struct options *options, struct row *row, struct launcher *launcher,
                       struct progress *progress, char why[static WHY_BYTES])
{
	struct crowd *crowd = &row->crowd;
	char fault[WHY_BYTES];
	int error = 0;

	snprintf(fault, sizeof(fault), "%s", strerror(ENOMEM));
	for (int part = 0; part < N_CROWD_PARTS; part++) {
		crowd->part[part] = calloc(options->n_runs, sizeof(double));
		if (!crowd->part[part])
			error = -ENOMEM;
	}
	if (error == 0)
		error = crowd_open(crowd, launcher, fault);
	for (uint32_t run = 0; run < options->n_runs && error == 0; run++) {
		progress_step(progress, "%u guests, run %u of %u", crowd->n_guests, run + 1, options->n_runs);
		error = crowd_run(crowd, run, fault);
	}
	crowd_close(crowd);
	for (int part = 0; part < N_CROWD_PARTS; part++) {
		if (error == 0)
			row->part[part] = stats_of(crowd->part[part], options->n_runs);
		free(crowd->part[part]);
	}
	if (error < 0)
		snprintf(why, WHY_BYTES, "%u guests: %.400s", crowd->n_guests, fault);
	return error;
}

static int measure(const struct options *options, struct row *rows, struct launcher *launcher,
                   char why[static WHY_BYTES])
{
	struct progress progress;
	int error = 0;

	(void)priority_raise();
	progress_begin(&progress, (uint64_t)options->guests.n * options->n_runs);
	for (size_t r = 0; r < options->guests.n && error == 0; r++) {
		rows[r].crowd = (struct crowd){.n_guests = options->guests.value[r],
		                               .n_domains = options->n_domains,
		                               .n_runs = options->n_runs,
		                               .stop = options->stop,
		                               .program_dir = options->program_dir};
		error = measure_row(options, &rows[r], launcher, &progress, why);
	}
	progress_end(&progress);
	return error;
}

/* ---- what is printed ---- */

static json_t *row_json(const struct row *row)
{
	const struct crowd *crowd = &row->crowd;
	json_t *json = json_pack("{s:i s:i s:i s:i s:f s:f}", "guests", (int)crowd->n_guests, "channels",
	                         (int)crowd->n_channels, "cut", (int)crowd->n_cut, "vcpus_stopped",
	                         (int)crowd->n_stopped, "start_ms", crowd->start_ms, "calls_per_second",
	                         crowd->calls_per_second);

	for (int part = 0; part < N_CROWD_PARTS; part++)
		json_object_set_new(json, part_names[part], stats_json(&row->part[part]));
	return json;
}

static int print_json(const struct options *options, const struct row *rows)
{
	json_t *list = json_array(), *json;

	for (size_t r = 0; r < options->guests.n; r++)
		json_array_append_new(list, row_json(&rows[r]));
	json = json_pack("{s:o s:s s:i s:i}", "rows", list, "stop", stop_mode_name(options->stop), "domains",
	                 (int)options->n_domains, "runs", (int)options->n_runs);
	if (!json) {
		fputs("portcullis bench guests: out of memory\n", stderr);
		return 1;
	}
	json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return 0;
}

static int print_human(const struct options *options, const struct row *rows)
{
	static const char *const heading[] = {"guests", "channels", "cut", "stop",    "patch",
	                                      "resume", "total",    "max", "calls/s", "start ms"};
	struct table *table = table_create(10);

	for (size_t i = 0; i < 10; i++)
		table_cell(table, "%s", heading[i]);
	for (size_t r = 0; r < options->guests.n; r++) {
		const struct row *row = &rows[r];

		table_cell(table, "%u", row->crowd.n_guests);
		table_cell(table, "%u", row->crowd.n_channels);
		table_cell(table, "%u", row->crowd.n_cut);
		table_cell(table, "%.0f", row->part[CROWD_STOP].median);
		table_cell(table, "%.0f", row->part[CROWD_PATCH].median);
		table_cell(table, "%.0f", row->part[CROWD_RESUME].median);
		table_cell(table, "%.0f", row->part[CROWD_TOTAL].median);
		table_cell(table, "%.0f", row->part[CROWD_TOTAL].max);
		table_cell(table, "%.0f", row->crowd.calls_per_second);
		table_cell(table, "%.0f", row->crowd.start_ms);
	}
	printf("Guests of %u domains that all call one server; a change cuts every second guest's channels\n"
	       "(--stop %s). Microseconds, medians of %u runs.\n\n",
	       options->n_domains, stop_mode_name(options->stop), options->n_runs);
	table_print(table, stdout);
	table_free(table);
	return 0;
}

int guests_main(int argc, char **argv, struct launcher *launcher)
{
	static struct row rows[MAX_LIST];
	struct options options;
	int status = parse(argc, argv, &options);
	char why[WHY_BYTES];

	if (status >= 0)
		return status;
	if (measure(&options, rows, launcher, why) < 0) {
		fprintf(stderr, "portcullis bench guests: %s\n", why);
		return 1;
	}
	return options.json ? print_json(&options, rows) : print_human(&options, rows);
}
