/*
 * A guest with many channels, for rows that domains would need minutes to open:
 * the monitor puts the channels there itself, while the guest stands. From then on they are as any
 * others. The domains (guest/programs/hold.c, touch) read two pages of every slot
 * before a cut, so that every page is in the guest's tables, and again after it. One thread.
 *
 *	adjacent		slots in the same order at both ends: neighbours are one host mapping
 *	mapping-per-slot	opposite orders: neighbours, each a mapping of its own
 *	scattered		every second slot keeps a channel that the change does not cut
 *	interleaved		the same channels, opened in the same order, where the monitor places them
 */
#ifndef PORTCULLIS_MONITOR_BENCH_PLANTED_H
#define PORTCULLIS_MONITOR_BENCH_PLANTED_H

#include <stdint.h>

#include "monitor/bench/scene.h"

enum planted_layout {
	LAYOUT_ADJACENT,
	LAYOUT_MAPPING_PER_SLOT,
	LAYOUT_SCATTERED,
	LAYOUT_INTERLEAVED,
	N_LAYOUTS
};

const char *layout_name(enum planted_layout layout);
/* -1: none of them. */
int layout_find(const char *name);

#define PLANTED_MAX_PAIRS 1024u /* 32 clients, 32 servers */
#define PLANTED_MAX_CHANNELS 16384u

struct planted {
	/* What to do. */
	uint32_t n;       /* channels that the strict policy cuts */
	uint32_t n_pairs; /* of labels, over which they are spread; 1 but for LAYOUT_ADJACENT */
	enum planted_layout layout;
	uint32_t n_vcpus;
	const char *load; /* what one more domain on each vCPU does (hold.c): idle, spin, storm; NULL: none */
	bool bystander;   /* a second guest, whose one domain looks for gaps (guest/programs/gaps.h) */
	const char *program_dir;

	/* Filled in by planted_open. */
	struct scene *scene;
	char *allow, *deny; /* policy texts */
	uint32_t n_clients, n_servers;
};

/* -ENOSPC: the host's vm.max_map_count allows no such guest, and the line says which would. planted_close
 * also then. */
int planted_open(struct planted *planted, struct launcher *launcher, char why[static WHY_BYTES]);
void planted_close(struct planted *planted);

/* The guest of which nothing is cut. */
struct guest *planted_bystander(struct planted *planted);

/* The channels, each page of which was read by its domain. */
int planted_fill(struct planted *planted, char why[static WHY_BYTES]);

/* After a cut: both records, both windows, what the domains see, and the kept channels. */
int planted_check(struct planted *planted, char why[static WHY_BYTES]);

/* Ends all channels. */
int planted_empty(struct planted *planted, char why[static WHY_BYTES]);

#endif
