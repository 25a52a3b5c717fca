/*
 * libvirt's filters of lists and statistics: VIR_CONNECT_LIST_DOMAINS_... Pure functions; any thread.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_FILTER_H
#define PORTCULLIS_MONITOR_LIBVIRT_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/lifecycle.h"

#define FILTER_ALL_FLAGS 0xffffu

/* Flags come in groups; a guest has to fit one flag of every group that has any. */
bool filter_wants(const struct definition *definition, uint32_t flags);

#endif
