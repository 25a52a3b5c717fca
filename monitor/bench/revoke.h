/*
 * `portcullis bench revoke`: how long a policy change takes that revokes every
 * connection there is (Flask, USENIX Security 1999, the table of revocation times;
 * docs/performance.md). One thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_REVOKE_H
#define PORTCULLIS_MONITOR_BENCH_REVOKE_H

#include <stdbool.h>

struct launcher;

/* argv[0] is "revoke". The exit status. */
int revoke_main(int argc, char **argv, struct launcher *launcher);

#endif
