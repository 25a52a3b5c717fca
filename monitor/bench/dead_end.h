/*
 * What must be true of each end of a channel that was cut, whatever was
 * measured. Under the registry lock.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_DEAD_END_H
#define PORTCULLIS_MONITOR_BENCH_DEAD_END_H

#include "monitor/channel.h"

/* Why it is not as dead as it must be; NULL: it is. */
const char *dead_end_fault(const struct channel *channel, enum channel_side side);

#endif
