/*
 * Raw KVM: opening it, what it must offer, and ioctls with -errno and a line.
 * The loop thread only, but for kvm_wake.
 *
 * Source: Linux Documentation/virt/kvm/api.rst; sections are named at each call.
 */
#ifndef PORTCULLIS_VMM_KVM_H
#define PORTCULLIS_VMM_KVM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/abi/limits.h"

/* Who may open /dev/kvm. */
struct kvm_access {
	mode_t mode;
	gid_t gid;
	const char *group; /* its name, or number */
	bool member;       /* whether we are in it */
};

/* A line that says what would let this user open it; error: of open(2), EACCES or EPERM. */
void kvm_explain_denial(int error, const struct kvm_access *access, char why[static WHY_BYTES]);

/*
 * Creates a VM with the local APICs in the kernel and no other device. Returns
 * its descriptor, or -errno and a line.
 */
int kvm_vm_create(int kvm_fd, char why[static WHY_BYTES]);

/* 4.52 KVM_SET_GSI_ROUTING: lines 0 to MAX_GUESTS - 1 are vectors from the first on, of the vCPU with APIC ID
 * 0. */
int kvm_routes_set(int vm_fd, uint8_t first_vector, char why[static WHY_BYTES]);

/* 4.35 KVM_SET_USER_MEMORY_REGION. -errno and a line that names `what`. */
int kvm_memslot_add(int vm_fd, uint32_t id, uint64_t gpa, const void *memory, uint64_t bytes, bool read_only,
                    const char *what, char why[static WHY_BYTES]);

/* 4.77 KVM_SIGNAL_MSI: a fixed, edge-triggered interrupt. Any thread, any state of the vCPU. */
void kvm_wake(int vm_fd, uint32_t apic_id, uint8_t vector);

#endif
