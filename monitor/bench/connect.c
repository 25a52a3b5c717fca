#include "monitor/bench/connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/figures.h"
#include "monitor/bench/ipc_guest.h"

#define VERB "connect"
#define N_KINDS 4u

static const char help[] =
	"usage: portcullis bench connect [--runs N] [--json]\n"
	"\n"
	"What a domain waits for a channel:\n"
	"\n"
	"  connect      until the server, on another vCPU, has accepted; the decisions are cached\n"
	"  denied       until the host has said no\n"
	"  hypercall    a baseline: a question that the host answers from what it knows\n"
	"  system-call  a baseline: into the guest's kernel and back\n"
	"\n"
	"  --runs       of each; 300 if not given\n"
	"  --programs   the folder of the domain programs, if it is not beside this program\n";

static const char *const names[N_KINDS] = {"connect", "denied", "hypercall", "system-call"};

static int measure(const struct figure_options *options, struct launcher *launcher, double *values,
                   struct figures *figures, char why[static WHY_BYTES])
{
	static const enum ipc_kind kinds[N_KINDS] = {IPC_CONNECT, IPC_DENIED, IPC_HYPERCALL, IPC_SYSTEM_CALL};
	struct ipc_plan plan = {.n_batches = {N_KINDS, 0}};
	struct ipc_times times = {.round_trip_us = values};
	struct ipc_guest *guest;
	int error;

	for (unsigned i = 0; i < N_KINDS; i++)
		plan.batch[PAIR_TWO_VCPUS][i] =
			(struct ipc_batch){.kind = kinds[i], .bytes = 1, .n_round_trips = options->n_runs};
	error = ipc_guest_open(launcher, options->program_dir, &plan, &guest, why);
	if (error < 0)
		return error;
	for (unsigned i = 0; i < N_KINDS && error == 0; i++) {
		error = ipc_guest_run(guest, PAIR_TWO_VCPUS, &times, why);
		if (error == 0)
			figures_add(figures, names[i], values, options->n_runs);
	}
	ipc_guest_close(guest);
	return error;
}

int connect_main(int argc, char **argv, struct launcher *launcher)
{
	struct figure_options options = {.n_runs = 300};
	int status = figure_options_parse(VERB, help, argc, argv, &options);
	struct figures figures = {0};
	char why[WHY_BYTES];
	double *values;

	if (status >= 0)
		return status;
	if (options.n_runs > IPC_MAX_TIMES) {
		fprintf(stderr, "portcullis bench connect: --runs %u: at most %zu\n", options.n_runs,
		        IPC_MAX_TIMES);
		return 2;
	}
	values = calloc(options.n_runs, sizeof(*values));
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (!values || measure(&options, launcher, values, &figures, why) < 0) {
		fprintf(stderr, "portcullis bench connect: %s\n", why);
		status = 1;
	} else {
		status = figures_print(&figures, VERB, "Opening a channel.", options.json);
	}
	free(values);
	return status;
}
