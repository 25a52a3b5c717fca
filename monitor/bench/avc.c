#include "monitor/bench/avc.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/bench/figures.h"
#include "monitor/bench/raw.h"
#include "monitor/bench/text_file.h"
#include "monitor/loop.h"
#include "policy/avc.h"
#include "policy/compile.h"
#include "policy/launcher.h"
#include "policy/ruleset.h"
#include "policy/server.h"

#define VERB "avc"
#define N_TYPES 32u
#define N_PAIRS (N_TYPES * N_TYPES)
#define PATIENCE_NS 30000000000ull

static const char help[] =
	"usage: portcullis bench avc [--runs N] [--json]\n"
	"\n"
	"What a decision costs:\n"
	"\n"
	"  lookup-hit       one that is cached\n"
	"  lookup-miss      to find out that it is not\n"
	"  insert           to put one there\n"
	"  decide           to ask the security server, a process of its own, about one\n"
	"  libsepol         libsepol asked directly, in this process, about one\n"
	"  decide-of-64     the same in a batch of 64, for each of them\n"
	"  unix-seqpacket   the baseline: 128 bytes to another thread of the same core and back\n"
	"\n"
	"  --runs   1000 if not given; a run of those without a process is 1024 decisions, and "
	"its value that of one\n";

/* Lookups between two changes of policy, and what they find. */
static const uint32_t rates[] = {100, 1000, 10000, 100000, 1000000};
#define N_CHURNS (sizeof(rates) / sizeof(rates[0]))
#define CHURN_LOOKUPS 2000000u

struct churn {
	double hit_ratio;
	double us; /* a lookup, with libsepol asked about what is missed */
};

struct bench {
	uint32_t n_runs;
	double *values; /* n_runs */
	struct avc *avc;
	struct server *server;
	struct ruleset *ruleset; /* the same policy in this process */
	uint32_t number[N_TYPES];
	char contexts[N_TYPES][64];
	const char *context[N_TYPES];
	struct figures figures;
	struct churn churn[N_CHURNS];
};

/* ---- the cache ---- */

static struct avc_key key_of(uint32_t i, policy_sid first)
{
	return (struct avc_key){first + i / N_TYPES, first + i % N_TYPES, CLASS_CHANNEL};
}

static void lookup_all(struct bench *bench, policy_sid first)
{
	struct decision decision;

	for (uint32_t i = 0; i < N_PAIRS; i++)
		avc_lookup(bench->avc, key_of(i, first), &decision);
}

static void insert_all(struct bench *bench, policy_sid first)
{
	struct decision decision = {.allowed = 1, .policy_number = avc_policy_number(bench->avc)};

	for (uint32_t i = 0; i < N_PAIRS; i++)
		avc_insert(bench->avc, key_of(i, first), &decision);
}

static void measure_cache(struct bench *bench, const char *name, void (*all)(struct bench *, policy_sid),
                          policy_sid first)
{
	for (uint32_t run = 0; run < bench->n_runs; run++) {
		uint64_t begun = loop_now();

		all(bench, first);
		bench->values[run] = (double)(loop_now() - begun) / 1000.0 / N_PAIRS;
	}
	figures_add(&bench->figures, name, bench->values, bench->n_runs);
}

/* ---- the server ---- */

struct answer {
	int status;
	bool there;
	int image_fd; /* of the compiled policy; -1: none */
	size_t image_bytes;
	char why[WHY_BYTES];
};

static void on_loaded(void *opaque, int status, const struct server_policy *policy, const char *why)
{
	struct answer *answer = opaque;

	answer->there = true;
	answer->status = status;
	if (policy) {
		answer->image_fd = policy->image_fd;
		answer->image_bytes = policy->image_bytes;
	}
	snprintf(answer->why, sizeof(answer->why), "%s", why ? why : strerror(-status));
}

static void on_decided(void *opaque, int status, const struct server_decision *decisions, size_t n)
{
	struct answer *answer = opaque;

	(void)n;
	answer->there = true;
	answer->status = status;
	if (status == 0 && !decisions[0].known)
		answer->status = -EINVAL;
}

static char *policy_text(struct bench *bench)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	for (uint32_t i = 0; i < N_TYPES; i++) {
		fprintf(to, "(type bench%u_t)\n(call a_domain (bench%u_t))\n", i, i);
		fprintf(to, "(call can_connect (bench%u_t bench%u_t))\n", i, i / 2);
		snprintf(bench->contexts[i], sizeof(bench->contexts[i]), "system_u:system_r:bench%u_t:s0", i);
		bench->context[i] = bench->contexts[i];
	}
	return fclose(to) == 0 ? text : NULL;
}

/* The image that the server compiled, into libsepol here. */
static int ruleset_from(struct bench *bench, int fd, size_t bytes)
{
	struct complaints complaints = {0};
	void *image = malloc(bytes ? bytes : 1);

	if (image && pread(fd, image, bytes, 0) == (ssize_t)bytes)
		bench->ruleset = ruleset_load(image, bytes, NULL, 0, &complaints);
	free(image);
	for (uint32_t i = 0; i < N_TYPES && bench->ruleset; i++)
		bench->number[i] = ruleset_context(bench->ruleset, bench->contexts[i]);
	return bench->ruleset ? 0 : -EINVAL;
}

static int server_start(struct bench *bench, struct launcher *launcher, char why[static WHY_BYTES])
{
	struct policy_source sources[N_TEXT_SOURCES];
	struct answer answer = {
		.status = -ETIMEDOUT, .image_fd = -1, .why = "the security server did not answer"};
	char *text = policy_text(bench);
	int socket_fd, pidfd;
	int error = text ? text_sources_open(text, sources) : -ENOMEM;

	free(text);
	snprintf(why, WHY_BYTES, "%s", strerror(-error));
	if (error < 0)
		return error;
	error = launcher_spawn(launcher, &socket_fd, &pidfd, why);
	if (error == 0)
		bench->server = server_open(socket_fd, pidfd);
	if (bench->server) {
		error = server_load(bench->server, sources, N_TEXT_SOURCES, NULL, 0, loop_now() + PATIENCE_NS,
		                    on_loaded, &answer);
		if (error == 0)
			server_wait(bench->server);
		error = error < 0 ? error : answer.status;
		snprintf(why, WHY_BYTES, "%s", answer.why);
	}
	text_sources_close(sources);
	if (error == 0 && bench->server)
		error = ruleset_from(bench, answer.image_fd, answer.image_bytes);
	if (answer.image_fd >= 0)
		close(answer.image_fd);
	return error == 0 && !bench->server ? -ENOMEM : error;
}

static void libsepol_all(struct bench *bench, policy_sid first)
{
	(void)first;
	for (uint32_t i = 0; i < N_PAIRS; i++)
		ruleset_decide(bench->ruleset, bench->number[i / N_TYPES], bench->number[i % N_TYPES],
		               CLASS_CHANNEL);
}

/* Pairs by chance, all equally often: a policy's worst case, since nothing is used more than the rest. */
static struct churn churn_once(struct bench *bench, uint32_t lookups_per_change)
{
	uint64_t begun = loop_now(), random = 88172645463325252ull, n_hits = 0;

	for (uint32_t i = 0; i < CHURN_LOOKUPS; i++) {
		struct decision decision;
		uint32_t pair;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		pair = (uint32_t)(random % N_PAIRS);
		if (i % lookups_per_change == 0)
			avc_raise(bench->avc, avc_policy_number(bench->avc) + 1);
		if (avc_lookup(bench->avc, key_of(pair, 1), &decision)) {
			n_hits++;
			continue;
		}
		decision.allowed = ruleset_decide(bench->ruleset, bench->number[pair / N_TYPES],
		                                  bench->number[pair % N_TYPES], CLASS_CHANNEL)
		                           .allowed;
		decision.policy_number = avc_policy_number(bench->avc);
		avc_insert(bench->avc, key_of(pair, 1), &decision);
	}
	return (struct churn){(double)n_hits / CHURN_LOOKUPS,
	                      (double)(loop_now() - begun) / 1000.0 / CHURN_LOOKUPS};
}

static json_t *churn_json(const struct bench *bench)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < N_CHURNS; i++)
		json_array_append_new(rows, json_pack("{s:i s:f s:f}", "lookups_per_change", (int)rates[i],
		                                      "hit_ratio", bench->churn[i].hit_ratio, "median",
		                                      bench->churn[i].us));
	return json_pack("{s:o}", "churn", rows);
}

static void print_churn(const struct bench *bench)
{
	puts("\nHit ratio against the rate of policy changes; 1024 pairs, each as often as any other.\n");
	for (size_t i = 0; i < N_CHURNS; i++)
		printf("%8u lookups a change: %.4f hits, %.3f us a lookup with libsepol asked on a miss\n",
		       rates[i], bench->churn[i].hit_ratio, bench->churn[i].us);
}

static int decide(struct bench *bench, size_t n, uint32_t run)
{
	struct server_question questions[64];
	struct answer answer = {.status = -ETIMEDOUT};
	int error;

	for (size_t i = 0; i < n; i++)
		questions[i] = (struct server_question){
			(uint32_t)i % N_TYPES, (run + (uint32_t)i / N_TYPES) % N_TYPES, CLASS_CHANNEL};
	error = server_decide(bench->server, bench->context, N_TYPES, questions, n, loop_now() + PATIENCE_NS,
	                      on_decided, &answer);
	if (error == 0)
		server_wait(bench->server);
	return error < 0 ? error : answer.status;
}

static int measure_decide(struct bench *bench, const char *name, size_t n, char why[static WHY_BYTES])
{
	for (uint32_t run = 0; run < bench->n_runs; run++) {
		uint64_t begun = loop_now();
		int error = decide(bench, n, run);

		bench->values[run] = (double)(loop_now() - begun) / 1000.0 / (double)n;
		if (error < 0) {
			snprintf(why, WHY_BYTES, "the security server: %s", strerror(-error));
			return error;
		}
	}
	figures_add(&bench->figures, name, bench->values, bench->n_runs);
	return 0;
}

/* On one core, as the scheduler puts a monitor and a server that wait for each other. */
static int measure_baseline(struct bench *bench, char why[static WHY_BYTES])
{
	struct raw_batch batch = {
		.bytes = 128, .n_round_trips = bench->n_runs, .round_trip_us = bench->values};
	int core = sched_getcpu();
	int cores[2] = {core, core};
	int error = core < 0 ? -errno : raw_run(RAW_SEQPACKET, cores, &batch, why);

	if (error == 0)
		figures_add(&bench->figures, raw_name(RAW_SEQPACKET), bench->values, bench->n_runs);
	return error;
}

static int measure(struct bench *bench, struct launcher *launcher, char why[static WHY_BYTES])
{
	int error;

	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	bench->values = calloc(bench->n_runs, sizeof(*bench->values));
	bench->avc = avc_create(4 * N_PAIRS);
	if (!bench->values || !bench->avc)
		return -ENOMEM;
	insert_all(bench, 1);
	measure_cache(bench, "lookup-hit", lookup_all, 1);
	measure_cache(bench, "lookup-miss", lookup_all, 1 + N_TYPES);
	measure_cache(bench, "insert", insert_all, 1);
	error = server_start(bench, launcher, why);
	if (error == 0) {
		measure_cache(bench, "libsepol", libsepol_all, 1);
		for (size_t i = 0; i < N_CHURNS; i++)
			bench->churn[i] = churn_once(bench, rates[i]);
		error = measure_decide(bench, "decide", 1, why);
	}
	if (error == 0)
		error = measure_decide(bench, "decide-of-64", 64, why);
	return error < 0 ? error : measure_baseline(bench, why);
}

int avc_main(int argc, char **argv, struct launcher *launcher)
{
	struct figure_options options = {.n_runs = 1000};
	int status = figure_options_parse(VERB, help, argc, argv, &options);
	struct bench bench = {0};
	char why[WHY_BYTES];

	if (status >= 0)
		return status;
	bench.n_runs = options.n_runs;
	if (measure(&bench, launcher, why) < 0) {
		fprintf(stderr, "portcullis bench avc: %s\n", why);
		status = 1;
	} else {
		status = figures_print_with(&bench.figures, VERB, "Decisions: cached, and made.",
		                            options.json, options.json ? churn_json(&bench) : NULL);
		if (!options.json)
			print_churn(&bench);
	}
	server_close(bench.server);
	ruleset_destroy(bench.ruleset);
	avc_destroy(bench.avc);
	free(bench.values);
	return status;
}
