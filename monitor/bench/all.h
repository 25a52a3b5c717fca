/*
 * `portcullis bench --all`: every measurement, each in a process of its own, one
 * after the other; with --json their documents in one. No launcher, no guest here.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_ALL_H
#define PORTCULLIS_MONITOR_BENCH_ALL_H

/* argv[0] is "--all". The exit status: 1 if a measurement failed, with what the others gave. */
int all_main(int argc, char **argv);

#endif
