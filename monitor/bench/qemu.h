/*
 * A peer for stopping: QEMU with as many vCPUs, halted before any firmware
 * ends, told to stop and go on over QMP. One thread. Skipped where there is none.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_QEMU_H
#define PORTCULLIS_MONITOR_BENCH_QEMU_H

#include <stdint.h>

#include "guest/abi/limits.h"

struct qemu;

/* -ENOENT: qemu-system-x86_64 is not installed. -errno and a line. */
int qemu_open(uint32_t n_vcpus, struct qemu **qemu, char why[static WHY_BYTES]);

/* Ends it; NULL is allowed. */
void qemu_close(struct qemu *qemu);

/* QMP stop, answered, then cont, answered: microseconds of both together. 0 or -errno. */
int qemu_stop_resume(struct qemu *qemu, double *us);

#endif
