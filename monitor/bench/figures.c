#include "monitor/bench/figures.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>

#include "monitor/bench/options.h"
#include "monitor/bench/table.h"
#include "vmm/check.h"

#define MAX_RUNS 1000000u

int figure_options_parse(const char *verb, const char *help, int argc, char **argv,
                         struct figure_options *options)
{
	static const struct option known[] = {
		{"runs", required_argument, NULL, 'r'},
		{"programs", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option;

	optind = 0;
	while ((option = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
		if (option == '?' || option == ':') {
			option_error(verb, option, argv);
			return 2;
		}
		if (option == 'r' && !option_number(verb, "--runs", optarg, 1, MAX_RUNS, &options->n_runs))
			return 2;
		if (option == 'p')
			options->program_dir = optarg;
		if (option == 'j')
			options->json = true;
		if (option == 'h') {
			fputs(help, stdout);
			return 0;
		}
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "portcullis bench %s: what is \"%s\"? See portcullis bench %s --help\n", verb,
	        argv[optind], verb);
	return 2;
}

void figures_add(struct figures *figures, const char *name, double *values, size_t n)
{
	CHECK(figures->n < MAX_FIGURES);
	figures->name[figures->n] = name;
	figures->stats[figures->n++] = stats_of(values, n);
}

static int print_json(const struct figures *figures, const char *verb, json_t *members)
{
	json_t *rows = json_array();
	json_t *json;

	for (size_t i = 0; i < figures->n; i++) {
		json_t *row = stats_json(&figures->stats[i]);

		json_object_set_new(row, "name", json_string(figures->name[i]));
		json_array_append_new(rows, row);
	}
	json = json_pack("{s:o}", "rows", rows);
	if (!json) {
		fprintf(stderr, "portcullis bench %s: out of memory\n", verb);
		return 1;
	}
	json_object_update(json, members);
	json_decref(members);
	json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return 0;
}

int figures_print(const struct figures *figures, const char *verb, const char *title, bool json)
{
	return figures_print_with(figures, verb, title, json, NULL);
}

int figures_print_with(const struct figures *figures, const char *verb, const char *title, bool json,
                       json_t *members)
{
	struct table *table;

	if (json)
		return print_json(figures, verb, members);
	json_decref(members);
	table = table_create(4);
	table_cell(table, "microseconds");
	table_cell(table, "median");
	table_cell(table, "p99");
	table_cell(table, "max");
	for (size_t i = 0; i < figures->n; i++) {
		const struct stats *stats = &figures->stats[i];

		table_cell(table, "%s", figures->name[i]);
		table_cell(table, "%.3f", stats->median);
		table_cell(table, stats->n >= STATS_P99_RUNS ? "%.3f" : "-", stats->p99);
		table_cell(table, "%.3f", stats->max);
	}
	printf("%s\n\n", title);
	table_print(table, stdout);
	table_free(table);
	return 0;
}
