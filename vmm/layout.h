/*
 * The plan of a guest's memory: where each piece stands, decided before any
 * memory exists. layout_plan checks the spec and decides; layout_fill (fill.c)
 * writes the pieces, the page tables and the boot records and cannot fail but
 * for random numbers. Nothing here needs a VM. The loop thread only.
 *
 * RAM, from guest-physical 0:
 *
 *	0 .. GPA_KERNEL	nothing: a null pointer in ring 0 finds no memory of use
 *	GPA_KERNEL	the kernel's image, then its boot page, IDT, CPUs, stacks, domains
 *	...		per domain: image, boot record, call page, stack, heap
 *	...		page tables
 *
 * No page is mapped writable and executable. A domain's address space holds its
 * own pieces, its own ranges of the windows, and the kernel half, which is
 * supervisor-only at its top-level entry.
 */
#ifndef PORTCULLIS_VMM_LAYOUT_H
#define PORTCULLIS_VMM_LAYOUT_H

#include "vmm/elf.h"
#include "vmm/machine.h"

#define MAX_KERNEL_BYTES (16u << 20)

struct span {
	uint64_t gpa, bytes; /* whole pages */
};

struct domain_layout {
	struct elf elf;
	struct span segment[ELF_MAX_SEGMENTS];
	struct span boot, call, stack, heap;
	struct span data; /* a memslot of its own, in GPA_DATA.. */
	uint64_t cr3;     /* set by layout_fill */
	uint32_t vcpu, first_slot, n_slots;
	uint32_t next;          /* of the ring of its vCPU's domains */
	uint64_t record_offset; /* of its part of the record window; 2 MiB aligned */
	uint64_t record_bytes;
};

struct layout {
	uint32_t n_vcpus, n_domains, n_slots;
	uint64_t bulk_bytes, slot_stride;
	uint64_t ram_bytes, record_bytes; /* whole 2 MiB */
	uint64_t doorbell_offset;         /* of struct doorbell_page in the record window */
	struct elf kernel;
	struct span kernel_segment[ELF_MAX_SEGMENTS];
	struct span kernel_boot, idt, cpus, stacks, domains, calls;
	struct span tables;
	uint64_t cr3; /* of the kernel-only address space; set by layout_fill */
	struct domain_layout domain[MAX_DOMAINS];
};

/* What the hardware and the clock say, for the boot records. */
struct boot_facts {
	uint64_t tsc_khz, start_tsc, start_unix_ns;
};

/*
 * -EINVAL with a line that names domain and image; -ENOMEM. On success the
 * caller calls layout_release.
 */
int layout_plan(const struct machine_spec *spec, const void *kernel_image, size_t kernel_bytes,
                struct layout *layout, char why[static WHY_BYTES]);

/* Windows alone, for a machine without vCPUs (machine.h): spec has names, slots and the bulk area. -EINVAL
 * and a line. */
int layout_plan_windows(const struct machine_spec *spec, struct layout *layout, char why[static WHY_BYTES]);

/* ram: layout->ram_bytes zeroed bytes. -errno of getrandom. */
int layout_fill(struct layout *layout, const struct machine_spec *spec, const void *kernel_image,
                const struct boot_facts *facts, uint8_t *ram);

void layout_release(struct layout *layout);

/* Kernel virtual addresses of a vCPU's pieces. */
uint64_t layout_cpu_va(uint32_t vcpu);
uint64_t layout_stack_top_va(uint32_t vcpu);

/* Offset of a slot's record from the start of the record window. */
uint64_t layout_record_offset(const struct layout *layout, uint32_t domain, uint32_t slot);

#endif
