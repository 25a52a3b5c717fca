#include "monitor/bench/connect.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/programs/pingpong.h"
#include "monitor/bench/bare_exit.h"
#include "monitor/bench/figures.h"
#include "monitor/bench/ipc_guest.h"
#include "vmm/machine.h"

#define VERB "connect"
#define ROUNDS 3u
#define MAX_FRESH 1000u /* each keeps a slot of both ends */

static const char help[] =
	"usage: portcullis bench connect [--runs N] [--json]\n"
	"\n"
	"What a channel costs to open, in turns with what it is compared with:\n"
	"\n"
	"  connect      what the domain waits until it may send; the decisions are cached\n"
	"  accepted     the same, until the server, on another vCPU, has accepted\n"
	"  denied       until the host has said no\n"
	"  hypercall    a baseline: a question that the host answers from what it knows\n"
	"  system-call  a baseline: into the guest's kernel and back\n"
	"  host-fresh   the host's side of a connect: from the exit to its answer; slots that nobody has "
	"used\n"
	"  host-used    the same, of slots that had another channel before\n"
	"  host-accept  the host's side of the accept after it: windows and records of slots that nobody has "
	"used\n"
	"  host-denied  the host's side of a denial\n"
	"  exit         a baseline: one write to a port in a guest without a kernel, out, answered, and in "
	"again\n"
	"\n"
	"  --runs       of each; 300 if not given. Of host-fresh at most 1000\n"
	"  --programs   the folder of the domain programs, if it is not beside this program\n";

enum row {
	CONNECT,
	ACCEPTED,
	DENIED,
	HYPERCALL,
	SYSTEM_CALL,
	HOST_FRESH,
	HOST_USED,
	HOST_ACCEPT,
	HOST_DENIED,
	BARE_EXIT,
	N_ROWS
};

static const char *const names[N_ROWS] = {
	[CONNECT] = "connect",     [ACCEPTED] = "accepted",       [DENIED] = "denied",
	[HYPERCALL] = "hypercall", [SYSTEM_CALL] = "system-call", [HOST_FRESH] = "host-fresh",
	[HOST_USED] = "host-used", [HOST_ACCEPT] = "host-accept", [HOST_DENIED] = "host-denied",
	[BARE_EXIT] = "exit",
};

/* What one round runs in the guest: whose times the domain tells, and whose the host. */
static const struct {
	enum ipc_kind kind;
	enum row domain, host; /* N_ROWS: nobody asks */
} batches[] = {
	{IPC_FRESH, N_ROWS, HOST_FRESH},    {IPC_CONNECT, CONNECT, HOST_USED},
	{IPC_ACCEPTED, ACCEPTED, N_ROWS},   {IPC_DENIED, DENIED, HOST_DENIED},
	{IPC_HYPERCALL, HYPERCALL, N_ROWS}, {IPC_SYSTEM_CALL, SYSTEM_CALL, N_ROWS},
};
#define N_BATCHES (sizeof(batches) / sizeof(batches[0]))

/* The host's times of one kind of call in one batch. */
struct host_times {
	double *us;
	uint32_t n,
		n_seen; /* n_seen: the thread of the one vCPU that makes such calls, while the batch runs */
};

struct bench {
	uint32_t n_runs, n_fresh;
	double *values[N_ROWS];
	size_t n_values[N_ROWS];
	struct host_times host, accept;
	struct call_watch watch;
};

static void note_time(struct host_times *times, uint64_t ns)
{
	uint32_t i = times->n_seen++ - PINGPONG_WARM_UP;

	if (i < times->n)
		times->us[i] = (double)ns / 1000.0;
}

static void note(void *opaque, uint32_t raw_call, uint64_t begun_ns, uint64_t ended_ns)
{
	struct bench *bench = opaque;

	if (raw_call == HYPERCALL_CONNECT)
		note_time(&bench->host, ended_ns - begun_ns);
	else if (raw_call == HYPERCALL_ACCEPT)
		note_time(&bench->accept, ended_ns - begun_ns);
}

/* Of the runs of a row, those of one round. */
static uint32_t in_round(uint32_t n_runs, uint32_t round)
{
	return n_runs / ROUNDS + (round < n_runs % ROUNDS);
}

static uint32_t batch_runs(const struct bench *bench, size_t batch, uint32_t round)
{
	return in_round(batches[batch].kind == IPC_FRESH ? bench->n_fresh : bench->n_runs, round);
}

static void plan_fill(const struct bench *bench, struct ipc_plan *plan)
{
	*plan = (struct ipc_plan){.n_slots = bench->n_fresh + ROUNDS * PINGPONG_WARM_UP + DEFAULT_SLOTS};
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < N_BATCHES; i++) {
			uint32_t n_runs = batch_runs(bench, i, round);

			if (n_runs)
				plan->batch[PAIR_TWO_VCPUS][plan->n_batches[PAIR_TWO_VCPUS]++] =
					(struct ipc_batch){
						.kind = batches[i].kind, .bytes = 1, .n_round_trips = n_runs};
		}
}

static double *room_of(struct bench *bench, enum row row)
{
	return bench->values[row] + bench->n_values[row];
}

static int run_batch(struct bench *bench, struct ipc_guest *guest, size_t batch, uint32_t n_runs,
                     char why[static WHY_BYTES])
{
	enum row domain = batches[batch].domain, host = batches[batch].host;
	struct ipc_times times = {.round_trip_us = domain != N_ROWS ? room_of(bench, domain) : NULL};
	int error;

	if (host != N_ROWS) {
		bench->host = (struct host_times){.us = room_of(bench, host), .n = n_runs};
		bench->accept = (struct host_times){.us = room_of(bench, HOST_ACCEPT),
		                                    .n = host == HOST_FRESH ? n_runs : 0};
		ipc_guest_watch(guest, &bench->watch);
	}
	error = ipc_guest_run(guest, PAIR_TWO_VCPUS, &times, why);
	ipc_guest_watch(guest, NULL);
	if (domain != N_ROWS)
		bench->n_values[domain] += n_runs;
	if (host != N_ROWS)
		bench->n_values[host] += n_runs;
	if (host == HOST_FRESH)
		bench->n_values[HOST_ACCEPT] += n_runs;
	return error;
}

static int run_round(struct bench *bench, struct ipc_guest *guest, uint32_t round, char why[static WHY_BYTES])
{
	uint32_t n_exits = in_round(bench->n_runs, round);
	int error = n_exits ? bare_exit_measure(room_of(bench, BARE_EXIT), n_exits, why) : 0;

	bench->n_values[BARE_EXIT] += n_exits;
	for (size_t i = 0; i < N_BATCHES && error == 0; i++) {
		uint32_t n_runs = batch_runs(bench, i, round);

		if (n_runs)
			error = run_batch(bench, guest, i, n_runs, why);
	}
	return error;
}

static int measure(struct bench *bench, const struct figure_options *options, struct launcher *launcher,
                   char why[static WHY_BYTES])
{
	struct ipc_guest *guest;
	struct ipc_plan plan;
	int error;

	plan_fill(bench, &plan);
	error = ipc_guest_open(launcher, options->program_dir, &plan, &guest, why);
	if (error < 0)
		return error;
	for (uint32_t round = 0; round < ROUNDS && error == 0; round++)
		error = run_round(bench, guest, round, why);
	ipc_guest_close(guest);
	return error;
}

/* ---- what is printed ---- */

static double ratio(const struct figures *figures, enum row row, enum row baseline)
{
	return figures->stats[row].median / figures->stats[baseline].median;
}

static int print(struct bench *bench, bool json)
{
	struct figures figures = {0};
	json_t *ratios;
	int status;

	for (unsigned row = 0; row < N_ROWS; row++)
		figures_add(&figures, names[row], bench->values[row], bench->n_values[row]);
	ratios = json_pack("{s:f s:f s:f s:f}", "connect_per_hypercall", ratio(&figures, CONNECT, HYPERCALL),
	                   "denied_per_hypercall", ratio(&figures, DENIED, HYPERCALL), "host_fresh_per_exit",
	                   ratio(&figures, HOST_FRESH, BARE_EXIT), "host_used_per_exit",
	                   ratio(&figures, HOST_USED, BARE_EXIT));
	status = figures_print_with(&figures, VERB, "Opening a channel.", json, ratios);
	if (!json && status == 0)
		printf("\nA connect is %.2f hypercalls, a denial %.2f; the host's side of it %.2f exits on "
		       "fresh slots, %.2f on used ones.\n",
		       ratio(&figures, CONNECT, HYPERCALL), ratio(&figures, DENIED, HYPERCALL),
		       ratio(&figures, HOST_FRESH, BARE_EXIT), ratio(&figures, HOST_USED, BARE_EXIT));
	return status;
}

static bool begin(struct bench *bench, uint32_t n_runs)
{
	bool fits = true;

	*bench = (struct bench){.n_runs = n_runs, .n_fresh = n_runs < MAX_FRESH ? n_runs : MAX_FRESH};
	bench->watch = (struct call_watch){.answered = note, .opaque = bench};
	for (unsigned row = 0; row < N_ROWS; row++) {
		bench->values[row] = calloc(n_runs, sizeof(double));
		fits = fits && bench->values[row];
	}
	return fits;
}

int connect_main(int argc, char **argv, struct launcher *launcher)
{
	struct figure_options options = {.n_runs = 300};
	int status = figure_options_parse(VERB, help, argc, argv, &options);
	char why[WHY_BYTES];
	struct bench bench;

	if (status >= 0)
		return status;
	if (options.n_runs > IPC_MAX_TIMES) {
		fprintf(stderr, "portcullis bench connect: --runs %u: at most %zu\n", options.n_runs,
		        IPC_MAX_TIMES);
		return 2;
	}
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (!begin(&bench, options.n_runs) || measure(&bench, &options, launcher, why) < 0) {
		fprintf(stderr, "portcullis bench connect: %s\n", why);
		status = 1;
	} else {
		status = print(&bench, options.json);
	}
	for (unsigned row = 0; row < N_ROWS; row++)
		free(bench.values[row]);
	return status;
}
