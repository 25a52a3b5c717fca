/*
 * The unit that exits are counted in: a vCPU that does nothing but write to the hypercall port, in a guest
 * without a kernel, and a host that answers each write at once. One thread; the vCPU's thread only notes
 * times.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_BARE_EXIT_H
#define PORTCULLIS_MONITOR_BENCH_BARE_EXIT_H

#include <stdint.h>

#include "guest/abi/limits.h"

/*
 * From one exit to the next, n of them, in microseconds: KVM's way out and in, and the emulation of one OUT.
 * On the first core that this process may use, where vCPU 0 of a first guest is too. -errno and a line.
 */
int bare_exit_measure(double *us, uint32_t n, char why[static WHY_BYTES]);

#endif
