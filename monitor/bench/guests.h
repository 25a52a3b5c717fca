/*
 * `portcullis bench guests`: what a change costs that cuts half of the channels between
 * many guests, under traffic (docs/performance.md). One thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_GUESTS_H
#define PORTCULLIS_MONITOR_BENCH_GUESTS_H

struct launcher;

/* argv[0] is "guests". The exit status. */
int guests_main(int argc, char **argv, struct launcher *launcher);

#endif
