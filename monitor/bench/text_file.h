/*
 * Policy text as sources: the base policy that was built in, and another text
 * beside it, as sealed memfds. Any thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_TEXT_FILE_H
#define PORTCULLIS_MONITOR_BENCH_TEXT_FILE_H

#include "policy/server.h"

#define N_TEXT_SOURCES 2

/* -errno; then nothing is open. */
int text_sources_open(const char *policy, struct policy_source sources[N_TEXT_SOURCES]);
void text_sources_close(struct policy_source sources[N_TEXT_SOURCES]);

#endif
