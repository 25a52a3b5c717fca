/*
 * What a test kernel is made of: one file, one trick. A kernel starts at
 * kernel_entry with what guest/abi/boot.h says, talks to the test through a
 * mailbox in its own kernel_cpu page, and fails an assertion by a panic that carries the line.
 *
 * Ring 0; only instructions that KVM's emulator has.
 */
#ifndef PORTCULLIS_TEST_KERNEL_KIT_H
#define PORTCULLIS_TEST_KERNEL_KIT_H

#include <stdint.h>

#include "guest/abi/boot.h"
#include "guest/abi/call.h"
#include "guest/abi/memory.h"
#include "tests/hostile/mailbox.h"

void kernel_entry(struct kernel_cpu *cpu);

static inline struct mailbox *mail(struct kernel_cpu *cpu)
{
	return (struct mailbox *)((char *)cpu + MAILBOX_OFFSET);
}

static inline uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static inline void bump(uint64_t *word)
{
	store(word, load(word) + 1);
}

static inline void port_out(void)
{
	asm volatile("outl %%eax, %%dx" : : "a"(0), "d"(HYPERCALL_PORT) : "memory");
}

static inline struct hypercall_page *hypercall_page(struct kernel_cpu *cpu)
{
	return (struct hypercall_page *)((char *)cpu + ABI_PAGE_BYTES);
}

static inline int64_t hypercall(struct kernel_cpu *cpu, uint32_t call, uint32_t domain, uint64_t argument)
{
	struct hypercall_page *page = hypercall_page(cpu);

	page->call = call;
	page->domain = domain;
	page->argument[0] = argument;
	port_out();
	return __atomic_load_n(&page->result, __ATOMIC_RELAXED);
}

/* The line of the assertion stands in the crash as vector 0x1000 + line. */
static inline void assert_that(struct kernel_cpu *cpu, int holds, uint64_t line)
{
	if (!holds)
		hypercall(cpu, HYPERCALL_PANIC, NO_DOMAIN, 0x1000 + line);
}

#define ASSERT(cpu, holds) assert_that(cpu, holds, __LINE__)

static inline void write_msr(uint32_t msr, uint64_t value)
{
	asm volatile("wrmsr" : : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)) : "memory");
}

static inline void load_cr3(uint64_t cr3)
{
	asm volatile("movq %0, %%cr3" : : "r"(cr3) : "memory");
}

static inline uint64_t read_cr3(void)
{
	uint64_t cr3;

	asm volatile("movq %%cr3, %0" : "=r"(cr3));
	return cr3;
}

/* An empty IDT, then a fault: nothing can take it. */
static inline void triple_fault(void)
{
	static const struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) none = {0, 0};

	asm volatile("lidt %0\n\tud2" : : "m"(none));
}

/* Leaves ring 0 for a domain's entry point, with interrupts as `flags` says; for good. */
static inline void domain_enter(struct kernel_cpu *cpu, uint32_t index, uint64_t flags)
{
	struct kernel_domain *domain = (struct kernel_domain *)VA_KERNEL_DOMAIN + index;
	struct trap_frame *frame = &domain->frame;

	(void)cpu;
	load_cr3(domain->cr3);
	asm volatile("pushq %0\n\tpushq %1\n\tpushq %2\n\tpushq %3\n\tpushq %4\n\tswapgs\n\tiretq"
	             :
	             : "r"(frame->ss), "r"(frame->rsp), "r"(flags), "r"(frame->cs), "r"(frame->rip),
	               "D"(frame->rdi));
	__builtin_unreachable();
}

#endif
