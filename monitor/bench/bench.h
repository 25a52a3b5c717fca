/*
 * `portcullis bench`: the measurements of the Flask paper and those of our own,
 * as ordinary programs on top of a monitor in this process (monitor/stage.h).
 * docs/performance.md says how each figure is made.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_BENCH_H
#define PORTCULLIS_MONITOR_BENCH_BENCH_H

/*
 * argv[0] is "bench". Exit status as everywhere: 0, 1 and one line on standard
 * error, 2 for wrong usage. Single-threaded so far, nothing but 0-2 open: it forks a launcher.
 */
int bench_main(int argc, char **argv);

#endif
