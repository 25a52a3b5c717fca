/*
 * `portcullis bench revoke --bystander`: what a guest notices of a change that cuts channels of another
 * guest. One thread, the loop.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_BYSTANDER_H
#define PORTCULLIS_MONITOR_BENCH_BYSTANDER_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "monitor/bench/planted.h"
#include "vmm/vcpu_counts.h"

struct launcher;
struct revoke_options;

/* Measures and prints as the options say; the exit status. */
int bystander_main(const struct revoke_options *options, struct launcher *launcher);

enum bystander_figure { /* of one change; what is counted runs from the finished plan to the report */
	BYSTANDER_MAPPING_CALLS, /* that the change made, in whatever guest */
	BYSTANDER_STOP_REQUESTS, /* that the bystander got */
	BYSTANDER_SIGNAL_EXITS,  /* its vCPU came back to this process for a signal */
	BYSTANDER_IRQ_EXITS,     /* it left the guest for an interrupt of the host, its timer's included */
	BYSTANDER_EXITS,         /* of any kind */
	BYSTANDER_LOST,          /* microseconds in gaps */
	BYSTANDER_LOST_BEFORE,   /* the same while the change was prepared */
	BYSTANDER_TOTAL,         /* microseconds of the change, from the begin of its stop to the report */
	N_BYSTANDER_FIGURES
};

/* A guest with channels and one that is not concerned. */
struct bystander {
	/* What to do. */
	struct planted planted; /* its first group of fields; bystander is set by bystander_open */

	/* Filled in by bystander_open. */
	bool has_counts;
	char no_counts[WHY_BYTES]; /* why KVM's counters are missing */
	bool loop_apart;           /* this thread keeps off the bystander's core until the close */
	double median_ns;          /* between two readings of the clock */

	/* Private. */
	struct vcpu_counts counts;
	const struct gaps *gaps;
	cpu_set_t cores;    /* of this thread, before */
	uint64_t n_seen;    /* gaps that were taken */
	uint64_t tsc_ahead; /* of this process's time stamp counter over the guest's */
};

/* -errno and a line; bystander_close also then. */
int bystander_open(struct bystander *bystander, struct launcher *launcher, char why[static WHY_BYTES]);
void bystander_close(struct bystander *bystander);

/*
 * Opens the channels, cuts them (or plans that), looks after what must be true, and ends them. Figures that
 * are not known are 0. -errno and a line.
 */
int bystander_run(struct bystander *bystander, enum stop_mode stop, bool plan_only,
                  double figure[static N_BYSTANDER_FIGURES], char why[static WHY_BYTES]);

#endif
