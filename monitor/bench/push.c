#include "monitor/bench/push.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/bench/options.h"
#include "monitor/bench/planted.h"
#include "monitor/bench/progress.h"
#include "monitor/bench/stats.h"
#include "monitor/bench/table.h"
#include "monitor/bench/text_file.h"
#include "monitor/loop.h"
#include "monitor/plan.h"
#include "monitor/posture.h"
#include "policy/launcher.h"
#include "vmm/priority.h"

#define VERB "push"
#define MAX_RUNS 10000u
#define PATIENCE_NS 60000000000ull

static const char help[] =
	"usage: portcullis bench push [--channels N,...] [--pairs N,...] [--runs N] [--json]\n"
	"\n"
	"What a pushed policy costs while guests run, for each number of channels and of pairs of labels\n"
	"that the channels are spread over. Microseconds:\n"
	"\n"
	"  compile    a security server started, and the policy compiled by it from its text\n"
	"  load       the same from the binary image that another server compiled\n"
	"  questions  which distinct decisions the live channels rest on\n"
	"  decide     all of them asked, and answered\n"
	"  plan       every flow judged, with nothing to cut\n"
	"  cutting    the same with everything to cut, put in order\n"
	"  prepare    all of it and the explanations, as a push that cuts every channel reports it\n"
	"  stopped    of that push: from the begin of the stop until all run again\n"
	"\n"
	"  --channels  10,1000,16384 if not given; both ends are in one guest\n"
	"  --pairs     10,100,1000 if not given\n"
	"  --runs      of each; 5 if not given\n"
	"  --programs  the folder of the domain programs, if it is not beside this program\n";

enum part {
	COMPILE,
	LOAD,
	QUESTIONS,
	DECIDE,
	PLAN,
	CUTTING,
	PREPARE,
	STOPPED,
	N_PARTS
};

static const char *const names[N_PARTS] = {"compile", "load",    "questions", "decide",
                                           "plan",    "cutting", "prepare",   "stopped"};

struct options {
	struct number_list channels, pairs;
	uint32_t n_runs;
	const char *program_dir;
	bool json;
};

struct row {
	uint32_t n_channels, n_pairs;
	double *values; /* n_runs of each part */
	struct stats part[N_PARTS];
	char skipped[WHY_BYTES];
};

struct bench {
	const struct options *options;
	struct launcher *launcher;
	struct row row[MAX_LIST];
	size_t n_rows;
};

/* ---- options ---- */

static bool lists(struct options *options, const char *channels, const char *pairs)
{
	return option_list(VERB, "--channels", channels, 1, PLANTED_MAX_CHANNELS, &options->channels) &&
	       option_list(VERB, "--pairs", pairs, 1, PLANTED_MAX_PAIRS, &options->pairs);
}

/* The status to end with; -1: go on. */
static int parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"channels", required_argument, NULL, 'c'},
		{"pairs", required_argument, NULL, 'l'},
		{"runs", required_argument, NULL, 'r'},
		{"programs", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *channels = "10,1000,16384", *pairs = "10,100,1000";
	int option;

	*options = (struct options){.n_runs = 5};
	optind = 0;
	while ((option = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
		if (option == '?' || option == ':') {
			option_error(VERB, option, argv);
			return 2;
		}
		if (option == 'h') {
			fputs(help, stdout);
			return 0;
		}
		if (option == 'r' && !option_number(VERB, "--runs", optarg, 1, MAX_RUNS, &options->n_runs))
			return 2;
		channels = option == 'c' ? optarg : channels;
		pairs = option == 'l' ? optarg : pairs;
		options->program_dir = option == 'p' ? optarg : options->program_dir;
		options->json |= option == 'j';
	}
	if (optind == argc)
		return lists(options, channels, pairs) ? -1 : 2;
	fprintf(stderr, "portcullis bench push: what is \"%s\"? See portcullis bench push --help\n",
	        argv[optind]);
	return 2;
}

/* ---- a server of its own ---- */

struct loaded {
	int status;
	int image_fd;
	size_t image_bytes;
	char why[WHY_BYTES];
};

static void on_loaded(void *opaque, int status, const struct server_policy *policy, const char *why)
{
	struct loaded *loaded = opaque;

	loaded->status = status;
	if (policy) {
		loaded->image_fd = policy->image_fd;
		loaded->image_bytes = policy->image_bytes;
	}
	snprintf(loaded->why, sizeof(loaded->why), "%s", why ? why : strerror(-status));
}

/* Starts a server and has it load the sources; the image that it gave stays open. */
static int load(struct launcher *launcher, const struct policy_source *sources, size_t n,
                struct loaded *loaded, double *us, char why[static WHY_BYTES])
{
	uint64_t begun = loop_now();
	struct server *server;
	int socket_fd, pidfd, error;

	*loaded = (struct loaded){.status = -ETIMEDOUT, .image_fd = -1, .why = "no answer in time"};
	error = launcher_spawn(launcher, &socket_fd, &pidfd, why);
	if (error < 0)
		return error;
	server = server_open(socket_fd, pidfd);
	if (!server)
		return -ENOMEM;
	error = server_load(server, sources, n, NULL, 0, loop_now() + PATIENCE_NS, on_loaded, loaded);
	if (error == 0)
		server_wait(server);
	*us = (double)(loop_now() - begun) / 1000.0;
	server_close(server);
	error = error < 0 ? error : loaded->status;
	if (error < 0)
		snprintf(why, WHY_BYTES, "the security server: %.400s", loaded->why);
	return error;
}

static int measure_loading(struct bench *bench, const char *text, double once[N_PARTS],
                           char why[static WHY_BYTES])
{
	struct policy_source sources[N_TEXT_SOURCES], image = {.name = "image"};
	struct loaded compiled = {.image_fd = -1}, loaded = {.image_fd = -1};
	int error = text_sources_open(text, sources);

	if (error < 0) {
		snprintf(why, WHY_BYTES, "the policy's text: %s", strerror(-error));
		return error;
	}
	error = load(bench->launcher, sources, N_TEXT_SOURCES, &compiled, &once[COMPILE], why);
	text_sources_close(sources);
	image.fd = compiled.image_fd;
	image.bytes = compiled.image_bytes;
	if (error == 0)
		error = load(bench->launcher, &image, 1, &loaded, &once[LOAD], why);
	if (compiled.image_fd >= 0)
		close(compiled.image_fd);
	if (loaded.image_fd >= 0)
		close(loaded.image_fd);
	return error;
}

/* ---- the plan ---- */

static void on_decided(void *opaque, int status, struct decisions *decisions)
{
	(void)decisions;
	*(int *)opaque = status;
}

static double us_since(uint64_t *begun)
{
	uint64_t now = loop_now();
	double us = (double)(now - *begun) / 1000.0;

	*begun = now;
	return us;
}

/* The flows that this plan would cut, or -errno. */
static long long build(struct registry *registry, const struct proposal *proposal,
                       struct decisions *decisions, double *us)
{
	uint64_t begun = loop_now();
	struct plan plan;
	long long n = plan_build(registry, proposal, decisions, &plan);

	*us = us_since(&begun);
	if (n == 0) {
		n = (long long)plan.n_cuts;
		plan_free(&plan);
	}
	return n;
}

/* With the answers of the policy in force, and with answers that allow nothing. */
static int build_both(struct monitor *monitor, const struct proposal *proposal, struct decisions *decisions,
                      double once[N_PARTS])
{
	static struct overlay nothing; /* 84 KB */
	struct registry *registry = registry_lock(monitor);
	long long n_kept = build(registry, proposal, decisions, &once[PLAN]), n_cut;
	char why[WHY_BYTES];
	int error = overlay_parse("*", "*", "channel", "*", &nothing.rules[0], why);

	nothing.n_rules = 1;
	decisions_mask(decisions, &nothing, monitor->posture->sids);
	n_cut = build(registry, proposal, decisions, &once[CUTTING]);
	if (error == 0 && (n_kept != 0 || n_cut != 2ll * registry->n_channels))
		error = -EPROTO;
	registry_unlock(registry);
	return error;
}

/* The steps of prepare, against the policy in force. */
static int plan_once(struct monitor *monitor, struct decisions *decisions, double once[N_PARTS])
{
	struct proposal proposal = {.kind = CHANGE_POLICY, .enforcing = true};
	struct posture *posture = monitor->posture;
	struct registry *registry = registry_lock(monitor);
	uint64_t begun = loop_now();
	int error = plan_questions(registry, &proposal, decisions), status = -ETIMEDOUT;

	once[QUESTIONS] = us_since(&begun);
	registry_unlock(registry);
	if (error == 0)
		error = decisions_ask(decisions, posture->policy.server, posture->sids,
		                      posture->policy_number + 1, begun + PATIENCE_NS, on_decided, &status);
	if (error == 0) {
		server_wait(posture->policy.server);
		error = status;
	}
	once[DECIDE] = us_since(&begun);
	return error < 0 ? error : build_both(monitor, &proposal, decisions, once);
}

static int measure_plan(struct planted *planted, double once[N_PARTS], char why[static WHY_BYTES])
{
	struct decisions *decisions = decisions_create();
	int error = decisions ? plan_once(scene_stage(planted->scene)->monitor, decisions, once) : -ENOMEM;

	decisions_destroy(decisions);
	if (error < 0)
		snprintf(why, WHY_BYTES, "the plan: %s", strerror(-error));
	return error;
}

/* A real push that cuts everything, and the way back. */
static int measure_push(struct planted *planted, double once[N_PARTS], char why[static WHY_BYTES])
{
	json_t *report = scene_push(planted->scene, planted->deny, STOP_ALL, false, why);
	const json_t *times = json_object_get(report, "times");
	json_int_t n_cut = json_integer_value(json_object_get(json_object_get(report, "flows"), "cut"));
	int error;

	if (!report)
		return -EPROTO;
	once[PREPARE] = json_number_value(json_object_get(times, "prepare"));
	once[STOPPED] = json_number_value(json_object_get(times, "total"));
	json_decref(report);
	if (n_cut != 2ll * planted->n) {
		snprintf(why, WHY_BYTES, "the change cut %lld flows, not %u", (long long)n_cut,
		         2 * planted->n);
		return -EPROTO;
	}
	error = planted_empty(planted, why);
	if (error == 0)
		report = scene_push(planted->scene, planted->allow, STOP_ALL, false, why);
	if (error == 0 && !report)
		error = -EPROTO;
	if (error == 0)
		json_decref(report);
	return error;
}

static int measure_row(struct bench *bench, struct row *row, struct progress *progress,
                       char why[static WHY_BYTES])
{
	struct planted planted = {.n = row->n_channels,
	                          .n_pairs = row->n_pairs,
	                          .layout = LAYOUT_ADJACENT,
	                          .n_vcpus = 2,
	                          .program_dir = bench->options->program_dir};
	int error = planted_open(&planted, bench->launcher, why);
	uint32_t n_runs = bench->options->n_runs;

	if (error == -ENOSPC) {
		snprintf(row->skipped, WHY_BYTES, "%s", why);
		planted_close(&planted);
		return 0;
	}
	for (uint32_t run = 0; run < n_runs && error == 0; run++) {
		double once[N_PARTS] = {0};

		progress_step(progress, "%u channels, %u pairs, run %u of %u", row->n_channels, row->n_pairs,
		              run + 1, n_runs);
		error = measure_loading(bench, planted.deny, once, why);
		if (error == 0)
			error = planted_fill(&planted, why);
		if (error == 0)
			error = measure_plan(&planted, once, why);
		if (error == 0)
			error = measure_push(&planted, once, why);
		for (unsigned part = 0; part < N_PARTS; part++)
			row->values[part * n_runs + run] = once[part];
	}
	planted_close(&planted);
	for (unsigned part = 0; part < N_PARTS && error == 0; part++)
		row->part[part] = stats_of(row->values + (size_t)part * n_runs, n_runs);
	return error;
}

/* Channels can have no more pairs of labels than there are channels. */
static int rows_create(struct bench *bench)
{
	const struct options *options = bench->options;

	for (size_t c = 0; c < options->channels.n; c++)
		for (size_t p = 0; p < options->pairs.n && bench->n_rows < MAX_LIST; p++) {
			struct row *row = &bench->row[bench->n_rows];

			if (options->pairs.value[p] > options->channels.value[c])
				continue;
			row->n_channels = options->channels.value[c];
			row->n_pairs = options->pairs.value[p];
			row->values = calloc((size_t)options->n_runs * N_PARTS, sizeof(*row->values));
			if (!row->values)
				return -ENOMEM;
			bench->n_rows++;
		}
	return 0;
}

static int measure(struct bench *bench, char why[static WHY_BYTES])
{
	struct progress progress;
	int error = rows_create(bench);

	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	progress_begin(&progress, bench->n_rows * bench->options->n_runs);
	for (size_t r = 0; r < bench->n_rows && error == 0; r++)
		error = measure_row(bench, &bench->row[r], &progress, why);
	progress_end(&progress);
	return error;
}

/* ---- what is printed ---- */

static int print_json(const struct bench *bench)
{
	json_t *rows = json_array(), *skipped = json_array(), *json;

	for (size_t r = 0; r < bench->n_rows; r++) {
		const struct row *row = &bench->row[r];
		json_t *entry =
			json_pack("{s:i s:i}", "channels", (int)row->n_channels, "pairs", (int)row->n_pairs);

		if (row->skipped[0]) {
			json_object_set_new(entry, "why", json_string(row->skipped));
			json_array_append_new(skipped, entry);
			continue;
		}
		for (unsigned part = 0; part < N_PARTS; part++)
			json_object_set_new(entry, names[part], stats_json(&row->part[part]));
		json_array_append_new(rows, entry);
	}
	json = json_pack("{s:o s:o s:i}", "rows", rows, "skipped", skipped, "runs",
	                 (int)bench->options->n_runs);
	if (!json) {
		fputs("portcullis bench push: out of memory\n", stderr);
		return 1;
	}
	json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return 0;
}

static int print_human(const struct bench *bench)
{
	struct table *table = table_create(2 + N_PARTS);

	table_cell(table, "channels");
	table_cell(table, "pairs");
	for (unsigned part = 0; part < N_PARTS; part++)
		table_cell(table, "%s", names[part]);
	for (size_t r = 0; r < bench->n_rows; r++) {
		const struct row *row = &bench->row[r];

		if (row->skipped[0])
			continue;
		table_cell(table, "%u", row->n_channels);
		table_cell(table, "%u", row->n_pairs);
		for (unsigned part = 0; part < N_PARTS; part++)
			table_cell(table, "%.0f", row->part[part].median);
	}
	printf("What a push costs while guests run. Microseconds, medians of %u runs.\n\n",
	       bench->options->n_runs);
	table_print(table, stdout);
	table_free(table);
	for (size_t r = 0; r < bench->n_rows; r++)
		if (bench->row[r].skipped[0])
			printf("\n%u channels were left out: %s\n", bench->row[r].n_channels,
			       bench->row[r].skipped);
	return 0;
}

int push_main(int argc, char **argv, struct launcher *launcher)
{
	static struct bench bench;
	struct options options;
	char why[WHY_BYTES];
	int status = parse(argc, argv, &options);

	if (status >= 0)
		return status;
	bench = (struct bench){.options = &options, .launcher = launcher};
	priority_raise();
	if (measure(&bench, why) < 0) {
		fprintf(stderr, "portcullis bench push: %s\n", why);
		status = 1;
	} else {
		status = options.json ? print_json(&bench) : print_human(&bench);
	}
	for (size_t r = 0; r < bench.n_rows; r++)
		free(bench.row[r].values);
	return status;
}
