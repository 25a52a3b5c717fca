/*
 * The libvirt sockets of run and serve: where they are, and whether there are any. Loop thread.
 */
#ifndef PORTCULLIS_MONITOR_RUN_LIBVIRT_H
#define PORTCULLIS_MONITOR_RUN_LIBVIRT_H

#include "monitor/cli.h"
#include "monitor/monitor.h"

struct tap;

/*
 * --libvirt-socket PATH, or "none"; without it `serve` takes libvirt's own place if it runs as root and
 * nobody else has it. Opens --images too. After monitor_create, before confine_process. A CLI_... status.
 */
int run_libvirt_open(const struct cli_call *call, struct monitor *monitor, struct tap *tap, bool for_ever);

/* The directory of --images, for confine_process; -1: none. */
int run_libvirt_images(const struct monitor *monitor);

#endif
