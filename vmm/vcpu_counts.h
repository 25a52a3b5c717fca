/*
 * KVM's own counters of one vCPU: how often it left the guest, and why. For benchmarks and tests, which
 * show what a change costs a guest that is not concerned.
 *
 * Opened while the machine stands (KVM holds a vCPU's lock while it runs); read at any time, by one thread.
 * Source: Linux Documentation/virt/kvm/api.rst, KVM_GET_STATS_FD (since Linux 5.14).
 */
#ifndef PORTCULLIS_VMM_VCPU_COUNTS_H
#define PORTCULLIS_VMM_VCPU_COUNTS_H

#include <stdint.h>

#include "vmm/machine.h"

enum vcpu_count {
	VCPU_EXITS,        /* of any kind, most of which KVM answers itself */
	VCPU_SIGNAL_EXITS, /* to user space, because a signal was there */
	VCPU_IRQ_EXITS,    /* for an interrupt of the host: its timer, other processors' requests */
	N_VCPU_COUNTS
};

struct vcpu_counts {
	int fd; /* -1: closed */
	uint64_t offset[N_VCPU_COUNTS];
};

/* -EBUSY: the machine does not stand; -ENOTSUP: this KVM has no such counters; -errno; and a line. */
int vcpu_counts_open(const struct machine *machine, uint32_t vcpu, struct vcpu_counts *counts,
                     char why[static WHY_BYTES]);
void vcpu_counts_close(struct vcpu_counts *counts);

/* 0 or -errno. */
int vcpu_counts_read(const struct vcpu_counts *counts, uint64_t value[static N_VCPU_COUNTS]);

#endif
