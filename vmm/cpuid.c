#include "vmm/cpuid.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#define BIT(n) (1u << (n))

#define ANY 0xffffffffu
#define CR4_UMIP (1ull << 11)
#define CR4_SMEP (1ull << 20)
#define CR4_SMAP (1ull << 21)

/* A leaf that is not in here does not exist for the guest. */
static const struct leaf {
	uint32_t function, index;
	uint32_t eax, ebx, ecx, edx; /* bits that pass */
} leaves[] = {
	{0x00000000, 0, 0, ANY, ANY, ANY},
	{
		0x00000001,
		0,
		ANY,
		0x0000ffff, /* brand, CLFLUSH size */
		/* SSE3 PCLMUL SSSE3 CX16 SSE4.1 SSE4.2 x2APIC POPCNT TSC-deadline AES RDRAND hypervisor */
		BIT(0) | BIT(1) | BIT(9) | BIT(13) | BIT(19) | BIT(20) | BIT(21) | BIT(23) | BIT(24) |
			BIT(25) | BIT(30) | BIT(31),
		/* FPU DE PSE TSC MSR PAE MCE CX8 APIC SEP PGE CMOV PAT CLFSH MMX FXSR SSE SSE2 */
		BIT(0) | BIT(2) | BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(9) | BIT(11) |
			BIT(13) | BIT(15) | BIT(16) | BIT(19) | BIT(23) | BIT(24) | BIT(25) | BIT(26),
	},
	/* SMEP ERMS RDSEED SMAP; UMIP */
	{0x00000007, 0, 0, BIT(7) | BIT(9) | BIT(18) | BIT(20), BIT(2), 0},
	{0x80000000, 0, 0, ANY, ANY, ANY},
	/* LAHF; SYSCALL NX LM */
	{0x80000001, 0, 0, 0, BIT(0), BIT(11) | BIT(20) | BIT(29)},
	{0x80000002, 0, ANY, ANY, ANY, ANY},
	{0x80000003, 0, ANY, ANY, ANY, ANY},
	{0x80000004, 0, ANY, ANY, ANY, ANY},
	{0x80000007, 0, 0, 0, 0, BIT(8)}, /* invariant TSC */
	{0x80000008, 0, 0x0000ffff, 0, 0, 0},
};

static const struct leaf *leaf_find(uint32_t function, uint32_t index)
{
	for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++)
		if (leaves[i].function == function && leaves[i].index == index)
			return &leaves[i];
	return NULL;
}

static void entry_allow(const struct kvm_cpuid_entry2 *raw, const struct leaf *leaf,
                        struct kvm_cpuid_entry2 *entry)
{
	*entry = *raw;
	entry->eax &= leaf->eax;
	entry->ebx &= leaf->ebx;
	entry->ecx &= leaf->ecx;
	entry->edx &= leaf->edx;
}

/* What depends on the vCPU or on this list rather than on the host. */
static void entry_adapt(struct kvm_cpuid_entry2 *entry, uint32_t apic_id, uint32_t n_vcpus)
{
	switch (entry->function) {
	case 0x00000000:
		entry->eax = 0xb; /* the highest leaf */
		break;
	case 0x00000001:
		entry->ebx |= n_vcpus << 16 | apic_id << 24;
		entry->edx |= n_vcpus > 1 ? BIT(28) : 0;
		entry->ecx |= BIT(31); /* a hypervisor is there */
		break;
	case 0x80000000:
		entry->eax = 0x80000008;
		break;
	}
}

/* Leaf 0xb, levels 0 (one thread a core) and 1 (all in one package): where the x2APIC id stands. */
static void topology_add(struct cpuid_table *allowed, uint32_t apic_id, uint32_t n_vcpus)
{
	const struct kvm_cpuid_entry2 levels[] = {
		{.function = 0xb,
	         .index = 0,
	         .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
	         .eax = 0,
	         .ebx = 1,
	         .ecx = 1 << 8 | 0,
	         .edx = apic_id},
		{.function = 0xb,
	         .index = 1,
	         .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
	         .eax = 4,
	         .ebx = n_vcpus,
	         .ecx = 2 << 8 | 1,
	         .edx = apic_id},
	};

	for (size_t i = 0; i < 2 && allowed->n_entries < CPUID_MAX_ENTRIES; i++)
		allowed->entry[allowed->n_entries++] = levels[i];
}

int cpuid_read(int kvm_fd, struct cpuid_table *supported)
{
	memset(supported, 0, sizeof(*supported));
	supported->n_entries = CPUID_MAX_ENTRIES;
	return ioctl(kvm_fd, KVM_GET_SUPPORTED_CPUID, supported) < 0 ? -errno : 0;
}

void cpuid_allow(const struct cpuid_table *supported, uint32_t apic_id, uint32_t n_vcpus,
                 struct cpuid_table *allowed)
{
	memset(allowed, 0, sizeof(*allowed));
	for (uint32_t i = 0; i < supported->n_entries && i < CPUID_MAX_ENTRIES; i++) {
		const struct kvm_cpuid_entry2 *raw = &supported->entry[i];
		const struct leaf *leaf = leaf_find(raw->function, raw->index);

		if (leaf == NULL)
			continue;
		struct kvm_cpuid_entry2 *entry = &allowed->entry[allowed->n_entries++];
		entry_allow(raw, leaf, entry);
		entry_adapt(entry, apic_id, n_vcpus);
	}
	topology_add(allowed, apic_id, n_vcpus);
}

uint64_t cpuid_cr4(const struct cpuid_table *allowed)
{
	for (uint32_t i = 0; i < allowed->n_entries; i++) {
		const struct kvm_cpuid_entry2 *entry = &allowed->entry[i];

		if (entry->function == 7)
			return ((entry->ebx & BIT(7)) != 0 ? CR4_SMEP : 0) |
			       ((entry->ebx & BIT(20)) != 0 ? CR4_SMAP : 0) |
			       ((entry->ecx & BIT(2)) != 0 ? CR4_UMIP : 0);
	}
	return 0;
}
