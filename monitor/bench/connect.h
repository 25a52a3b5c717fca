/*
 * `portcullis bench connect`: what it costs to open a channel, and to be refused
 * one (docs/performance.md). One thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_CONNECT_H
#define PORTCULLIS_MONITOR_BENCH_CONNECT_H

struct launcher;

/* argv[0] is "connect". The exit status. */
int connect_main(int argc, char **argv, struct launcher *launcher);

#endif
