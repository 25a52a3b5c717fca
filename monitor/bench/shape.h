/*
 * Who is connected with whom while revocation is measured, as manifest and
 * policy text. The domains run guest/programs/hold.c.
 *
 *	chain	client -> relay 1 -> ... -> server: n connections, n + 1 domains
 *	pairs	n of `most` clients, each with a server of its own: the number of
 *		domains is the same for every n
 *	fan	one client with n channels to one server
 */
#ifndef PORTCULLIS_MONITOR_BENCH_SHAPE_H
#define PORTCULLIS_MONITOR_BENCH_SHAPE_H

#include <stdint.h>

enum shape {
	SHAPE_CHAIN,
	SHAPE_PAIRS,
	SHAPE_FAN,
	N_SHAPES
};

const char *shape_name(enum shape shape);
/* -1: none of them. */
int shape_find(const char *name);

/* The most connections that it can have: domains and slots of a guest are bounded. */
uint32_t shape_limit(enum shape shape);

/* Of n connections, of which there may be `most`. */
uint32_t shape_n_domains(enum shape shape, uint32_t n, uint32_t most);

/* Domains of those that hold a channel: they come first. */
uint32_t shape_n_holders(enum shape shape, uint32_t n);

/* malloc; NULL: no memory. policy: all links allowed, or none. */
char *shape_manifest(enum shape shape, uint32_t n, uint32_t most, uint32_t n_vcpus);
char *shape_policy(enum shape shape, uint32_t n, uint32_t most, int allow);

#endif
