/*
 * Ring-0 instructions, each as one inline function: all of them exist in KVM's
 * instruction emulator (tests/guest/instructions.c holds the kernel's object
 * code to that). Any vCPU. Source: Intel SDM vol. 2; vol. 3A, 10.12 (x2APIC).
 */
#ifndef PORTCULLIS_KERNEL_CPU_H
#define PORTCULLIS_KERNEL_CPU_H

#include <stdint.h>

#include "guest/abi/call.h"

#define MSR_FS_BASE 0xc0000100u
#define MSR_X2APIC_EOI 0x80bu
#define MSR_X2APIC_SPURIOUS 0x80fu
#define MSR_X2APIC_ICR 0x830u
#define MSR_X2APIC_TIMER 0x832u
#define MSR_X2APIC_TIMER_COUNT 0x838u
#define MSR_X2APIC_TIMER_DIVIDE 0x83eu

#define X2APIC_ENABLE 0x100u
#define X2APIC_DIVIDE_BY_1 0xbu

static inline struct kernel_cpu *this_cpu(void)
{
	struct kernel_cpu *cpu;

	asm volatile("movq %%gs:0, %0" : "=r"(cpu));
	return cpu;
}

static inline void write_msr(uint32_t msr, uint64_t value)
{
	asm volatile("wrmsr" : : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)) : "memory");
}

static inline uint64_t read_tsc(void)
{
	uint32_t low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static inline void write_cr3(uint64_t cr3)
{
	asm volatile("movq %0, %%cr3" : : "r"(cr3) : "memory");
}

static inline uint64_t read_cr2(void)
{
	uint64_t cr2;

	asm volatile("movq %%cr2, %0" : "=r"(cr2));
	return cr2;
}

static inline void out_port(uint16_t port)
{
	asm volatile("outl %%eax, %%dx" : : "a"(0), "d"(port) : "memory");
}

static inline void ring_doorbell(uint32_t number)
{
	asm volatile("outl %0, %1" : : "a"(number), "d"((uint16_t)DOORBELL_PORT) : "memory");
}

/* Of the lowest bit; not for 0. */
static inline uint32_t lowest_bit(uint64_t word)
{
	uint64_t bit;

	asm("bsfq %1, %0" : "=r"(bit) : "r"(word) : "cc");
	return (uint32_t)bit;
}

static inline void fpu_save(void *image)
{
	asm volatile("fxsave64 (%0)" : : "r"(image) : "memory");
}

static inline void fpu_load(const void *image)
{
	asm volatile("fxrstor64 (%0)" : : "r"(image) : "memory");
}

/* The domain's data selectors: ring 3 can load them, no frame holds them, and the next domain could read
 * them. */
static inline void clear_selectors(void)
{
	asm volatile("movl %0, %%ds; movl %0, %%es; movl %0, %%fs; swapgs; movl %0, %%gs; swapgs" : : "r"(0));
}

#endif
