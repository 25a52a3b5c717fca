/*
 * `portcullis bench ipc`: what a message costs through a channel, and what the
 * same two cores can do without one (docs/performance.md). One thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_IPC_H
#define PORTCULLIS_MONITOR_BENCH_IPC_H

struct launcher;

/* argv[0] is "ipc". The exit status. */
int ipc_main(int argc, char **argv, struct launcher *launcher);

#endif
