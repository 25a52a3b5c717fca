/*
 * `portcullis bench revoke --load`: one connection is revoked in a guest whose vCPUs all do something else:
 * sleep, compute, or make one exit after the other. One thread, the loop.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_LOADS_H
#define PORTCULLIS_MONITOR_BENCH_LOADS_H

#include <stdbool.h>

struct launcher;
struct revoke_options;

/* Is it one of halted, spin, storm, all? */
bool loads_known(const char *name);

/* Measures and prints as the options say; the exit status. */
int loads_main(const struct revoke_options *options, struct launcher *launcher);

#endif
