/*
 * The CPUID that a guest sees: an allow-list over what KVM supports.
 *
 * Not on it: nested virtualisation, paravirtual leaves, the PMU, XSAVE (so no
 * AVX: wider registers are not switched between domains), FSGSBASE, MONITOR.
 * Needs no VM but for cpuid_read. The loop thread only.
 *
 * Source: Intel SDM vol. 2A, CPUID; AMD APM vol. 3, appendix E.
 */
#ifndef PORTCULLIS_VMM_CPUID_H
#define PORTCULLIS_VMM_CPUID_H

#include <linux/kvm.h>
#include <stdint.h>

#define CPUID_MAX_ENTRIES 128u

/* A struct kvm_cpuid2 with room. */
struct cpuid_table {
	uint32_t n_entries;
	uint32_t padding;
	struct kvm_cpuid_entry2 entry[CPUID_MAX_ENTRIES];
};

/* What KVM can offer (4.46 KVM_GET_SUPPORTED_CPUID). -errno. */
int cpuid_read(int kvm_fd, struct cpuid_table *supported);

/* The allowed part of it, with the x2APIC id of one vCPU of n. */
void cpuid_allow(const struct cpuid_table *supported, uint32_t apic_id, uint32_t n_vcpus,
                 struct cpuid_table *allowed);

/* CR4 bits SMEP, SMAP and UMIP, as far as allowed offers them. */
uint64_t cpuid_cr4(const struct cpuid_table *allowed);

#endif
