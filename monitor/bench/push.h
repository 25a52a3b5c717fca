/* `portcullis bench push`: what a change costs before anything is stopped. One thread, the loop. */
#ifndef PORTCULLIS_MONITOR_BENCH_PUSH_H
#define PORTCULLIS_MONITOR_BENCH_PUSH_H

struct launcher;

/* argv[0] is "push". The exit status. */
int push_main(int argc, char **argv, struct launcher *launcher);

#endif
