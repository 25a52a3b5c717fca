/* `portcullis bench stop`: stopping and resuming vCPUs, alone. One thread, the loop. */
#ifndef PORTCULLIS_MONITOR_BENCH_STOP_H
#define PORTCULLIS_MONITOR_BENCH_STOP_H

struct launcher;

/* argv[0] is "stop". The exit status. */
int bench_stop_main(int argc, char **argv, struct launcher *launcher);

#endif
