/*
 * `portcullis bench boot`: from text to a domain that runs (docs/performance.md).
 * One thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_BOOT_H
#define PORTCULLIS_MONITOR_BENCH_BOOT_H

struct launcher;

/* argv[0] is "boot". The exit status. */
int boot_main(int argc, char **argv, struct launcher *launcher);

#endif
