#include "monitor/bench/ipc.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/ipc_guest.h"
#include "monitor/bench/options.h"
#include "monitor/bench/progress.h"
#include "monitor/bench/raw.h"
#include "monitor/bench/stats.h"
#include "monitor/bench/table.h"

#define VERB "ipc"
#define EXIT_MESSAGES 100000u
#define STREAM_BYTES (1u << 20) /* one way in one batch, about */
#define MOST_CORES 4096u

static const char help[] =
	"usage: portcullis bench ipc [--rounds N] [--round-trips N] [--cores A,B] [--json]\n"
	"\n"
	"Round trips of 8 bytes to 64 KiB, and how many bytes a second go one way:\n"
	"\n"
	"  raw-shared-memory   two threads of the host, one page, no check: the floor\n"
	"  channel             two domains on two vCPUs\n"
	"  channel-unmediated  the same, but the ring does not look at what the host says of its slot\n"
	"  channel-identified  the same as channel, and the server asks for each message who sent it\n"
	"  channel-on-behalf   the same as channel, opened by a relay with its client's identity\n"
	"  channel-sleeping    two domains on two vCPUs that sleep whenever there is nothing\n"
	"  channel-same-vcpu   two domains that take turns on one vCPU\n"
	"  channel-two-guests  two domains in two guests\n"
	"  two-guests-sleeping the same, and both sleep whenever there is nothing\n"
	"  pipe                two threads of the host, two pipes\n"
	"  unix-seqpacket      two threads of the host, an AF_UNIX SOCK_SEQPACKET pair\n"
	"\n"
	"All run on the same two cores, one after the other in every round, because ratios hold where\n"
	"figures drift. The first five spin, and channel-two-guests; the others sleep (in the guest's "
	"kernel, or the host's).\n"
	"memcpy is one core that copies within its caches: no handover at all.\n"
	"At the end 100,000 messages are counted against the exits that the vCPUs took meanwhile.\n"
	"\n"
	"  --rounds       10 if not given\n"
	"  --round-trips  of each size in each round; 1000 if not given\n"
	"  --cores        two cores of this host; the first two that this process may use if not given\n"
	"  --programs     the folder of the domain programs, if it is not beside this program\n";

static const uint32_t sizes[] = {8, 16, 128, 1024, 4096, 8192, 65536};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

enum transport {
	TRANSPORT_RAW,
	TRANSPORT_CHANNEL,
	TRANSPORT_UNMEDIATED,
	TRANSPORT_IDENTIFIED,
	TRANSPORT_ON_BEHALF,
	TRANSPORT_SLEEPING,
	TRANSPORT_SAME_VCPU,
	TRANSPORT_TWO_GUESTS,
	TRANSPORT_GUESTS_SLEEPING,
	TRANSPORT_PIPE,
	TRANSPORT_SEQPACKET,
	N_TRANSPORTS
};

static const char *const names[N_TRANSPORTS] = {"raw-shared-memory",   "channel",
                                                "channel-unmediated",  "channel-identified",
                                                "channel-on-behalf",   "channel-sleeping",
                                                "channel-same-vcpu",   "channel-two-guests",
                                                "two-guests-sleeping", "pipe",
                                                "unix-seqpacket"};

struct options {
	uint32_t n_rounds, n_round_trips;
	struct number_list cores;
	const char *program_dir;
	bool json, help;
};

/* What a transport did with one size. */
struct cell {
	uint32_t n_round_trips, n_messages; /* of a round */
	double *round_trip_us;              /* of all rounds */
	double *bytes_per_second;           /* one for each round */
	struct stats round_trip, rate;
};

struct measurement {
	const struct options *options;
	struct ipc_guest *guest;
	int cores[2];
	struct cell cell[N_TRANSPORTS][N_SIZES];
	double *copy_rate[N_SIZES]; /* memcpy's bytes a second, one for each round */
	struct stats copy[N_SIZES];
	uint64_t exits;
};

/* ---- options ---- */

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"rounds", required_argument, NULL, 'r'},
		{"round-trips", required_argument, NULL, 't'},
		{"cores", required_argument, NULL, 'c'},
		{"programs", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	bool good = true;
	int option;

	*options = (struct options){.n_rounds = 10, .n_round_trips = 1000};
	optind = 0;
	while (good && (option = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
		if (option == '?' || option == ':') {
			option_error(VERB, option, argv);
			return 2;
		}
		if (option == 'r')
			good = option_number(VERB, "--rounds", optarg, 1, 1000, &options->n_rounds);
		else if (option == 't')
			good = option_number(VERB, "--round-trips", optarg, 1, IPC_MAX_TIMES,
			                     &options->n_round_trips);
		else if (option == 'c')
			good = option_list(VERB, "--cores", optarg, 0, MOST_CORES, &options->cores);
		else if (option == 'p')
			options->program_dir = optarg;
		else if (option == 'j')
			options->json = true;
		else
			options->help = true;
	}
	if (good && optind < argc) {
		fprintf(stderr, "portcullis bench ipc: what is \"%s\"? See portcullis bench ipc --help\n",
		        argv[optind]);
		return 2;
	}
	if (good && options->help)
		fputs(help, stdout);
	return !good ? 2 : options->help ? 0 : -1;
}

/* ---- the two cores ---- */

/* The first two that the process may use, unless two were named. */
static int choose_cores(struct measurement *m, const cpu_set_t *allowed, char why[static WHY_BYTES])
{
	const struct number_list *given = &m->options->cores;
	size_t n = 0;

	for (size_t core = 0; core < CPU_SETSIZE && n < 2 && !given->n; core++)
		if (CPU_ISSET(core, allowed))
			m->cores[n++] = (int)core;
	for (; n < given->n && n < 2 && CPU_ISSET(given->value[n], allowed); n++)
		m->cores[n] = (int)given->value[n];
	if (n == 2 && given->n <= 2 && m->cores[0] != m->cores[1])
		return 0;
	snprintf(why, WHY_BYTES,
	         given->n ? "--cores: expected two different cores that this process may use, as in 0,2"
	                  : "this process may use one core only, and a ping-pong needs two");
	return -EINVAL;
}

/* From here on vCPUs and threads have those two alone. */
static int take_cores(struct measurement *m, cpu_set_t *before, char why[static WHY_BYTES])
{
	cpu_set_t two;
	int error;

	if (sched_getaffinity(0, sizeof(*before), before) < 0) {
		snprintf(why, WHY_BYTES, "sched_getaffinity: %s", strerror(errno));
		return -errno;
	}
	error = choose_cores(m, before, why);
	if (error < 0)
		return error;
	CPU_ZERO(&two);
	CPU_SET((size_t)m->cores[0], &two);
	CPU_SET((size_t)m->cores[1], &two);
	if (sched_setaffinity(0, sizeof(two), &two) == 0)
		return 0;
	snprintf(why, WHY_BYTES, "sched_setaffinity: %s", strerror(errno));
	return -errno;
}

/* ---- measuring ---- */

static int cells_create(struct measurement *m)
{
	for (size_t s = 0; s < N_SIZES; s++)
		if (!(m->copy_rate[s] = calloc(m->options->n_rounds, sizeof(double))))
			return -ENOMEM;
	for (unsigned t = 0; t < N_TRANSPORTS; t++)
		for (size_t s = 0; s < N_SIZES; s++) {
			struct cell *cell = &m->cell[t][s];
			uint32_t n = STREAM_BYTES / sizes[s];

			cell->n_round_trips = m->options->n_round_trips;
			if (t == TRANSPORT_SAME_VCPU || t == TRANSPORT_SLEEPING ||
			    t == TRANSPORT_GUESTS_SLEEPING) /* hundreds of microseconds each */
				cell->n_round_trips = (cell->n_round_trips + 19) / 20;
			cell->n_messages =
				n < 2 * m->options->n_round_trips ? n : 2 * m->options->n_round_trips;
			cell->round_trip_us =
				calloc((size_t)m->options->n_rounds * cell->n_round_trips, sizeof(double));
			cell->bytes_per_second = calloc(m->options->n_rounds, sizeof(double));
			if (!cell->round_trip_us || !cell->bytes_per_second)
				return -ENOMEM;
		}
	return 0;
}

static void add_batch(struct ipc_plan *plan, enum ipc_pair pair, const struct cell *cell, uint32_t bytes,
                      enum ipc_kind kind)
{
	plan->batch[pair][plan->n_batches[pair]++] =
		(struct ipc_batch){kind, bytes, cell->n_round_trips, cell->n_messages};
}

static int guest_open(struct measurement *m, struct launcher *launcher, char why[static WHY_BYTES])
{
	struct ipc_plan plan = {0};

	for (size_t s = 0; s < N_SIZES; s++) {
		add_batch(&plan, PAIR_TWO_VCPUS, &m->cell[TRANSPORT_CHANNEL][s], sizes[s], IPC_SPINNING);
		add_batch(&plan, PAIR_TWO_VCPUS, &m->cell[TRANSPORT_UNMEDIATED][s], sizes[s], IPC_UNMEDIATED);
		add_batch(&plan, PAIR_TWO_VCPUS, &m->cell[TRANSPORT_IDENTIFIED][s], sizes[s], IPC_IDENTIFIED);
		add_batch(&plan, PAIR_ON_BEHALF, &m->cell[TRANSPORT_ON_BEHALF][s], sizes[s], IPC_SPINNING);
		add_batch(&plan, PAIR_TWO_VCPUS, &m->cell[TRANSPORT_SLEEPING][s], sizes[s], IPC_SLEEPING);
		add_batch(&plan, PAIR_ONE_VCPU, &m->cell[TRANSPORT_SAME_VCPU][s], sizes[s], IPC_SLEEPING);
		add_batch(&plan, PAIR_TWO_GUESTS, &m->cell[TRANSPORT_TWO_GUESTS][s], sizes[s], IPC_SPINNING);
		add_batch(&plan, PAIR_TWO_GUESTS, &m->cell[TRANSPORT_GUESTS_SLEEPING][s], sizes[s],
		          IPC_SLEEPING);
	}
	return ipc_guest_open(launcher, m->options->program_dir, &plan, &m->guest, why);
}

static int run_raw(struct measurement *m, enum raw_kind kind, struct cell *cell, uint32_t bytes,
                   double *round_trip_us, double *stream_us, char why[static WHY_BYTES])
{
	struct raw_batch batch = {.bytes = bytes,
	                          .n_round_trips = cell->n_round_trips,
	                          .n_messages = cell->n_messages,
	                          .round_trip_us = round_trip_us};
	int error = raw_run(kind, m->cores, &batch, why);

	*stream_us = batch.stream_us;
	return error;
}

static int run_channel(struct measurement *m, enum ipc_pair pair, double *round_trip_us, double *stream_us,
                       char why[static WHY_BYTES])
{
	struct ipc_times times = {.round_trip_us = round_trip_us};
	int error = ipc_guest_run(m->guest, pair, &times, why);

	*stream_us = times.stream_us;
	return error;
}

static int run_cell(struct measurement *m, enum transport transport, size_t size, uint32_t round,
                    char why[static WHY_BYTES])
{
	static const enum raw_kind kinds[N_TRANSPORTS] = {
		[TRANSPORT_RAW] = RAW_SHARED_MEMORY,
		[TRANSPORT_PIPE] = RAW_PIPE,
		[TRANSPORT_SEQPACKET] = RAW_SEQPACKET,
	};
	static const enum ipc_pair pairs[N_TRANSPORTS] = {
		[TRANSPORT_RAW] = N_PAIRS,
		[TRANSPORT_PIPE] = N_PAIRS,
		[TRANSPORT_SEQPACKET] = N_PAIRS,
		[TRANSPORT_ON_BEHALF] = PAIR_ON_BEHALF,
		[TRANSPORT_SAME_VCPU] = PAIR_ONE_VCPU,
		[TRANSPORT_TWO_GUESTS] = PAIR_TWO_GUESTS,
		[TRANSPORT_GUESTS_SLEEPING] = PAIR_TWO_GUESTS,
	};
	struct cell *cell = &m->cell[transport][size];
	double *times = cell->round_trip_us + (size_t)round * cell->n_round_trips;
	double stream_us = 0;
	int error;

	if (pairs[transport] == N_PAIRS)
		error = run_raw(m, kinds[transport], cell, sizes[size], times, &stream_us, why);
	else
		error = run_channel(m, pairs[transport], times, &stream_us, why);
	if (stream_us > 0)
		cell->bytes_per_second[round] = (double)cell->n_messages * sizes[size] / stream_us * 1e6;
	return error;
}

static int run_rounds(struct measurement *m, struct progress *progress, char why[static WHY_BYTES])
{
	int error = 0;

	for (uint32_t round = 0; round < m->options->n_rounds; round++)
		for (size_t s = 0; s < N_SIZES; s++) {
			m->copy_rate[s][round] = raw_copy_rate(sizes[s]);
			for (unsigned t = 0; t < N_TRANSPORTS && error == 0; t++) {
				progress_step(progress, "round %u of %u, %u bytes, %s", round + 1,
				              m->options->n_rounds, sizes[s], names[t]);
				error = run_cell(m, (enum transport)t, s, round, why);
			}
		}
	return error;
}

static void evaluate(struct measurement *m)
{
	for (unsigned t = 0; t < N_TRANSPORTS; t++)
		for (size_t s = 0; s < N_SIZES; s++) {
			struct cell *cell = &m->cell[t][s];

			cell->round_trip = stats_of(cell->round_trip_us,
			                            (size_t)m->options->n_rounds * cell->n_round_trips);
			cell->rate = stats_of(cell->bytes_per_second, m->options->n_rounds);
		}
	for (size_t s = 0; s < N_SIZES; s++)
		m->copy[s] = stats_of(m->copy_rate[s], m->options->n_rounds);
}

static int measure(struct measurement *m, struct launcher *launcher, char why[static WHY_BYTES])
{
	struct progress progress;
	cpu_set_t before;
	int error = take_cores(m, &before, why);

	if (error < 0)
		return error;
	progress_begin(&progress, (uint64_t)m->options->n_rounds * N_SIZES * N_TRANSPORTS);
	error = cells_create(m);
	if (error < 0)
		snprintf(why, WHY_BYTES, "%s", strerror(-error));
	if (error == 0)
		error = guest_open(m, launcher, why);
	if (error == 0)
		error = run_rounds(m, &progress, why);
	ipc_guest_close(m->guest);
	if (error == 0)
		error = ipc_count_exits(launcher, m->options->program_dir, EXIT_MESSAGES, &m->exits, why);
	progress_end(&progress);
	sched_setaffinity(0, sizeof(before), &before);
	if (error == 0)
		evaluate(m);
	return error;
}

/* ---- what is printed ---- */

static int print_json(const struct measurement *m)
{
	json_t *rows = json_array(), *copies = json_array();
	json_t *json;

	for (size_t s = 0; s < N_SIZES; s++)
		json_array_append_new(copies, json_pack("{s:i s:f}", "bytes", (int)sizes[s],
		                                        "bytes_per_second", m->copy[s].median));
	for (unsigned t = 0; t < N_TRANSPORTS; t++)
		for (size_t s = 0; s < N_SIZES; s++)
			json_array_append_new(rows, json_pack("{s:s s:i s:o s:f}", "transport", names[t],
			                                      "bytes", (int)sizes[s], "round_trip",
			                                      stats_json(&m->cell[t][s].round_trip),
			                                      "bytes_per_second", m->cell[t][s].rate.median));
	json = json_pack("{s:o s:o s:[i i] s:i s:i s:I s:f}", "rows", rows, "memcpy", copies, "cores",
	                 m->cores[0], m->cores[1], "rounds", (int)m->options->n_rounds, "exit_messages",
	                 (int)EXIT_MESSAGES, "exits", (json_int_t)m->exits, "exits_per_message",
	                 (double)m->exits / EXIT_MESSAGES);
	if (!json) {
		fputs("portcullis bench ipc: out of memory\n", stderr);
		return 1;
	}
	json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return 0;
}

enum figure {
	FIGURE_MEDIAN,
	FIGURE_P99,
	FIGURE_RATIO,
	FIGURE_RATE,
	N_FIGURES
};

static double figure_of(const struct measurement *m, enum figure figure, unsigned t, size_t s)
{
	const struct cell *cell = &m->cell[t][s];
	double raw = m->cell[TRANSPORT_RAW][s].round_trip.median;

	if (figure == FIGURE_MEDIAN)
		return cell->round_trip.median;
	if (figure == FIGURE_P99)
		return cell->round_trip.p99;
	if (figure == FIGURE_RATIO)
		return raw > 0 ? cell->round_trip.median / raw : 0;
	return cell->rate.median / 1e6;
}

static void print_figure(const struct measurement *m, enum figure figure)
{
	static const char *const titles[N_FIGURES] = {
		"Round trip, median, microseconds",
		"Round trip, 99th percentile, microseconds",
		"Round trip, median, times that of raw-shared-memory",
		"One way, MB a second",
	};
	bool copies = figure == FIGURE_RATE;
	struct table *table = table_create(1 + N_TRANSPORTS + copies);

	table_cell(table, "bytes");
	for (unsigned t = 0; t < N_TRANSPORTS; t++)
		table_cell(table, "%s", names[t]);
	if (copies)
		table_cell(table, "memcpy");
	for (size_t s = 0; s < N_SIZES; s++) {
		table_cell(table, "%u", sizes[s]);
		for (unsigned t = 0; t < N_TRANSPORTS; t++)
			table_cell(table, copies ? "%.0f" : "%.2f", figure_of(m, figure, t, s));
		if (copies)
			table_cell(table, "%.0f", m->copy[s].median / 1e6);
	}
	printf("%s\n\n", titles[figure]);
	table_print(table, stdout);
	putchar('\n');
	table_free(table);
}

static int print_human(const struct measurement *m)
{
	printf("Cores %d and %d, %u rounds.\n\n", m->cores[0], m->cores[1], m->options->n_rounds);
	for (unsigned figure = 0; figure < N_FIGURES; figure++)
		print_figure(m, (enum figure)figure);
	printf("Exits to user space while %u messages passed: %llu (exits_per_message %g).\n", EXIT_MESSAGES,
	       (unsigned long long)m->exits, (double)m->exits / EXIT_MESSAGES);
	return 0;
}

int ipc_main(int argc, char **argv, struct launcher *launcher)
{
	static struct measurement m;
	struct options options;
	char why[WHY_BYTES];
	int status = parse(argc, argv, &options);

	if (status >= 0)
		return status;
	m = (struct measurement){.options = &options};
	if (measure(&m, launcher, why) < 0) {
		fprintf(stderr, "portcullis bench ipc: %s\n", why);
		status = 1;
	} else {
		status = options.json ? print_json(&m) : print_human(&m);
	}
	for (size_t s = 0; s < N_SIZES; s++)
		free(m.copy_rate[s]);
	for (unsigned t = 0; t < N_TRANSPORTS; t++)
		for (size_t s = 0; s < N_SIZES; s++) {
			free(m.cell[t][s].round_trip_us);
			free(m.cell[t][s].bytes_per_second);
		}
	return status;
}
