/*
 * `portcullis bench avc`: what a decision costs that is cached, and one that the
 * security server has to make (docs/performance.md). One thread; needs no KVM.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_AVC_H
#define PORTCULLIS_MONITOR_BENCH_AVC_H

struct launcher;

/* argv[0] is "avc". The exit status. */
int avc_main(int argc, char **argv, struct launcher *launcher);

#endif
