/* Writes what layout.c planned: images, page tables, boot records, vCPU state in memory. */
#include "vmm/layout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "guest/abi/memory.h"
#include "vmm/check.h"
#include "vmm/pages.h"

#define APIC_TICK_NS 1 /* KVM's APIC bus: 1 GHz, timer at divide-by-1 */
#define SLICE_US 5000
#define USER_RFLAGS 0x202        /* interrupts on */
#define GATE_INTERRUPT 0x8e00ull /* present, ring 0, interrupts off */

static void image_copy(const struct elf *elf, const struct span *span, const uint8_t *image, uint8_t *ram)
{
	for (uint32_t i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *segment = &elf->segment[i];

		memcpy(ram + span[i].gpa + segment->lead, image + segment->file_offset, segment->file_bytes);
	}
}

static void image_map(struct pages *pages, uint64_t root, const struct elf *elf, const struct span *span,
                      uint64_t flags)
{
	for (uint32_t i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *segment = &elf->segment[i];

		pages_map(pages, root, segment->va, span[i].gpa, segment->bytes,
		          flags | (segment->write ? PAGES_WRITE : 0) | (segment->execute ? 0 : PAGES_NX));
	}
}

static void span_map(struct pages *pages, uint64_t root, uint64_t va, struct span span, uint64_t flags)
{
	pages_map(pages, root, va, span.gpa, span.bytes, flags | PAGES_NX);
}

/* 0: the kernel makes its own IDT. */
static uint64_t stubs_of(const struct layout *layout)
{
	return elf_symbol_find(&layout->kernel, "trap_stubs");
}

static void kernel_half_map(const struct layout *layout, struct pages *pages, uint64_t root)
{
	image_map(pages, root, &layout->kernel, layout->kernel_segment, 0);
	span_map(pages, root, VA_KERNEL_BOOT, layout->kernel_boot, 0);
	span_map(pages, root, VA_KERNEL_IDT, layout->idt, stubs_of(layout) ? 0 : PAGES_WRITE);
	span_map(pages, root, VA_KERNEL_CPU, layout->cpus, PAGES_WRITE);
	span_map(pages, root, VA_KERNEL_DOMAIN, layout->domains, PAGES_WRITE);
	span_map(pages, root, VA_KERNEL_CALL, layout->calls, PAGES_WRITE);
	span_map(pages, root, VA_KERNEL_RECORD, (struct span){GPA_RECORD, layout->record_bytes}, 0);
	for (uint32_t i = 0; i < layout->n_vcpus; i++)
		pages_map(pages, root, layout_stack_top_va(i) - KERNEL_STACK_BYTES,
		          layout->stacks.gpa + (uint64_t)i * KERNEL_STACK_BYTES, KERNEL_STACK_BYTES,
		          PAGES_WRITE | PAGES_NX);
}

static void domain_map(const struct layout *layout, const struct domain_layout *domain, struct pages *pages)
{
	uint64_t root = domain->cr3;
	uint64_t window_offset = domain->first_slot * layout->slot_stride;
	uint64_t window_bytes = domain->n_slots * layout->slot_stride;
	struct span outbox = {GPA_OUTBOX + window_offset, window_bytes};
	struct span inbox = {GPA_INBOX + window_offset, window_bytes};
	struct span record = {GPA_RECORD + domain->record_offset, domain->record_bytes};

	image_map(pages, root, &domain->elf, domain->segment, PAGES_USER);
	span_map(pages, root, VA_BOOT, domain->boot, PAGES_USER);
	span_map(pages, root, VA_CALL, domain->call, PAGES_USER | PAGES_WRITE);
	span_map(pages, root, VA_HEAP, domain->heap, PAGES_USER | PAGES_WRITE);
	span_map(pages, root, VA_DATA, domain->data, PAGES_USER);
	span_map(pages, root, VA_STACK_TOP - domain->stack.bytes, domain->stack, PAGES_USER | PAGES_WRITE);
	span_map(pages, root, VA_OUTBOX + window_offset, outbox, PAGES_USER | PAGES_WRITE);
	span_map(pages, root, VA_INBOX + window_offset, inbox, PAGES_USER);
	span_map(pages, root, VA_RECORD, record, PAGES_USER);
}

static void tables_fill(struct layout *layout, uint8_t *ram)
{
	struct pages pages = {ram, layout->tables.gpa, layout->tables.gpa + layout->tables.bytes};

	layout->cr3 = pages_root(&pages);
	kernel_half_map(layout, &pages, layout->cr3);
	for (uint32_t i = 0; i < layout->n_domains; i++) {
		struct domain_layout *domain = &layout->domain[i];

		domain->cr3 = pages_root(&pages);
		pages_share(&pages, domain->cr3, layout->cr3, VA_KERNEL);
		domain_map(layout, domain, &pages);
	}
}

static void arguments_fill(const struct domain_spec *spec, struct boot_record *boot)
{
	uint32_t used = 0;

	boot->n_arguments = spec->n_arguments;
	for (uint32_t i = 0; i < spec->n_arguments; i++) {
		size_t bytes = strlen(spec->arguments[i]) + 1;

		memcpy(boot->text + used, spec->arguments[i], bytes);
		boot->argument[i] = used;
		used += (uint32_t)bytes;
	}
}

static int boot_record_fill(const struct layout *layout, const struct domain_spec *spec, uint32_t index,
                            const struct boot_facts *facts, struct boot_record *boot)
{
	const struct domain_layout *domain = &layout->domain[index];

	*boot = (struct boot_record){
		.magic = BOOT_MAGIC,
		.tsc_khz = facts->tsc_khz,
		.start_tsc = facts->start_tsc,
		.start_unix_ns = facts->start_unix_ns,
		.heap_bytes = domain->heap.bytes,
		.data_bytes = spec->data_fd >= 0 ? spec->data_bytes : 0,
		.slot_stride = layout->slot_stride,
		.bulk_bytes = layout->bulk_bytes,
		.first_slot = domain->first_slot,
		.n_slots = domain->n_slots,
		.domain = index,
		.vcpu = domain->vcpu,
		.flags = domain->next != index ? BOOT_SHARED_VCPU : 0,
	};
	snprintf(boot->name, sizeof(boot->name), "%s", spec->name);
	arguments_fill(spec, boot);
	/* 32 bytes are always given whole once the pool is ready. */
	if (getrandom(&boot->canary, sizeof(boot->canary), 0) != sizeof(boot->canary) ||
	    getrandom(boot->random, sizeof(boot->random), 0) != sizeof(boot->random))
		return errno != 0 ? -errno : -EIO;
	return 0;
}

static void kernel_domain_fill(const struct layout *layout, uint32_t index, struct kernel_domain *state)
{
	const struct domain_layout *domain = &layout->domain[index];
	const uint16_t x87_control = 0x37f;
	const uint32_t mxcsr = 0x1f80;

	state->state = DOMAIN_RUNNABLE;
	state->vcpu = domain->vcpu;
	state->cr3 = domain->cr3;
	state->wake_deadline = UINT64_MAX;
	state->call_page = VA_KERNEL_CALL + index * sizeof(struct call_page);
	state->record = VA_KERNEL_RECORD + domain->record_offset;
	state->first_slot = domain->first_slot;
	state->n_slots = domain->n_slots;
	state->next = domain->next;
	state->index = index;
	state->frame.rdi = VA_BOOT;
	state->frame.rip = domain->elf.entry;
	state->frame.cs = SELECTOR_USER_CODE;
	state->frame.rflags = USER_RFLAGS;
	state->frame.rsp = VA_STACK_TOP;
	state->frame.ss = SELECTOR_USER_DATA;
	memcpy(state->fpu, &x87_control, sizeof(x87_control));
	memcpy(state->fpu + 24, &mxcsr, sizeof(mxcsr));
}

/* Long-mode descriptors: SDM vol. 3A, 3.4.5 and 7.2.3. */
static void gdt_fill(uint64_t gdt[16], uint64_t tss_va)
{
	const uint64_t limit = sizeof(((struct kernel_cpu *)0)->tss) - 1;

	gdt[SELECTOR_KERNEL_CODE >> 3] = 0x00af9b000000ffff;
	gdt[SELECTOR_KERNEL_DATA >> 3] = 0x00cf93000000ffff;
	gdt[SELECTOR_USER_DATA >> 3] = 0x00cff3000000ffff;
	gdt[SELECTOR_USER_CODE >> 3] = 0x00affb000000ffff;
	/* A busy 64-bit TSS: the task register is loaded already. */
	gdt[SELECTOR_TSS >> 3] =
		limit | (tss_va & 0xffffff) << 16 | 0x8bull << 40 | (tss_va >> 24 & 0xff) << 56;
	gdt[(SELECTOR_TSS >> 3) + 1] = tss_va >> 32;
}

static void cpu_fill(const struct layout *layout, uint32_t vcpu, struct kernel_cpu *cpu)
{
	const uint64_t stack_top = layout_stack_top_va(vcpu);
	const uint16_t no_bitmap = sizeof(cpu->tss);

	cpu->self = layout_cpu_va(vcpu);
	cpu->kernel_rsp = stack_top;
	cpu->hypercall = cpu->self + ABI_PAGE_BYTES;
	cpu->vcpu = vcpu;
	cpu->apic_id = vcpu;
	cpu->first_domain = NO_DOMAIN;
	for (uint32_t i = layout->n_domains; i-- > 0;) {
		if (layout->domain[i].vcpu != vcpu)
			continue;
		cpu->first_domain = i;
		cpu->n_domains++;
	}
	cpu->current = NO_DOMAIN;
	gdt_fill(cpu->gdt, cpu->self + offsetof(struct kernel_cpu, tss));
	memcpy(cpu->tss + 4, &stack_top, sizeof(stack_top)); /* rsp0 */
	memcpy(cpu->tss + 102, &no_bitmap, sizeof(no_bitmap));
}

/* Long-mode gates: SDM vol. 3A, 6.14.1. From one vector on, as many as that; the next stub's address. */
static uint64_t gates_fill(uint64_t (*idt)[2], uint32_t vector, uint32_t n, uint64_t stub)
{
	for (; n > 0; n--, vector++, stub += TRAP_STUB_BYTES) {
		idt[vector][0] = (stub & 0xffff) | (uint64_t)SELECTOR_KERNEL_CODE << 16 |
		                 GATE_INTERRUPT << 32 | (stub >> 16 & 0xffff) << 48;
		idt[vector][1] = stub >> 32;
	}
	return stub;
}

static void idt_fill(const struct layout *layout, uint64_t (*idt)[2])
{
	uint64_t stub = stubs_of(layout);

	if (stub == 0)
		return;
	stub = gates_fill(idt, 0, N_EXCEPTIONS, stub);
	stub = gates_fill(idt, VECTOR_TIMER, 1, stub);
	stub = gates_fill(idt, VECTOR_WAKE, 1, stub);
	stub = gates_fill(idt, VECTOR_SPURIOUS, 1, stub);
	gates_fill(idt, VECTOR_DOORBELL, MAX_GUESTS, stub);
}

static void kernel_fill(const struct layout *layout, const struct boot_facts *facts, uint8_t *ram)
{
	struct kernel_boot *boot = (struct kernel_boot *)(ram + layout->kernel_boot.gpa);

	*boot = (struct kernel_boot){
		.magic = BOOT_MAGIC,
		.tsc_khz = facts->tsc_khz,
		.n_vcpus = layout->n_vcpus,
		.n_domains = layout->n_domains,
		.apic_tick_ns = APIC_TICK_NS,
		.slice_us = SLICE_US,
		.doorbells = VA_KERNEL_RECORD + layout->doorbell_offset,
	};
	idt_fill(layout, (uint64_t(*)[2])(ram + layout->idt.gpa));
	for (uint32_t i = 0; i < layout->n_vcpus; i++)
		cpu_fill(layout, i, (struct kernel_cpu *)(ram + layout->cpus.gpa + i * KERNEL_CPU_STRIDE));
	for (uint32_t i = 0; i < layout->n_domains; i++)
		kernel_domain_fill(layout, i, (struct kernel_domain *)(ram + layout->domains.gpa) + i);
}

int layout_fill(struct layout *layout, const struct machine_spec *spec, const void *kernel_image,
                const struct boot_facts *facts, uint8_t *ram)
{
	tables_fill(layout, ram);
	image_copy(&layout->kernel, layout->kernel_segment, kernel_image, ram);
	kernel_fill(layout, facts, ram);
	for (uint32_t i = 0; i < layout->n_domains; i++) {
		struct domain_layout *domain = &layout->domain[i];

		image_copy(&domain->elf, domain->segment, spec->domains[i].image, ram);
		int error = boot_record_fill(layout, &spec->domains[i], i, facts,
		                             (struct boot_record *)(ram + domain->boot.gpa));
		if (error != 0)
			return error;
	}
	return 0;
}
