/*
 * A peer: QEMU (microvm) with as many vCPUs. For stopping: halted before any firmware ends, told to stop and
 * go on over QMP. For starting: until its first guest instruction. One thread. Skipped where there is none.
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

/*
 * Starts one with this much memory and ends it. *us: microseconds from before its start until a byte that the
 * guest's first instructions write to the serial port has come through the pipe that is its standard output.
 * The firmware is nothing but these, at the reset vector; no kernel is loaded. Errors as qemu_open.
 */
int qemu_first_instruction(uint32_t n_vcpus, uint32_t mib, double *us, char why[static WHY_BYTES]);

/* QMP stop, answered, then cont, answered: microseconds of both together. 0 or -errno. */
int qemu_stop_resume(struct qemu *qemu, double *us);

#endif
