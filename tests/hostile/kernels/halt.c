/*
 * In HLT but for interrupts. (P8.) counter: times that HLT ended; events: interrupts taken.
 * command 1: interrupts stay off, so that a wake-up stays pending and HLT does not end. 2: spin.
 */
#include "tests/hostile/kernels/kit.h"

#define MSR_X2APIC_EOI 0x80b

struct gate {
	uint16_t low, selector, type, middle;
	uint32_t high, reserved;
};

void wake_interrupt(void);

/* 4064 is MAILBOX_OFFSET, events its second word. */
asm(".globl wake_interrupt\n"
    "wake_interrupt:\n"
    "	pushq %rax\n"
    "	pushq %rcx\n"
    "	pushq %rdx\n"
    "	incq %gs:4064 + 8\n"
    "	movl $0x80b, %ecx\n"
    "	xorl %eax, %eax\n"
    "	xorl %edx, %edx\n"
    "	wrmsr\n"
    "	popq %rdx\n"
    "	popq %rcx\n"
    "	popq %rax\n"
    "	iretq\n");

_Static_assert(MAILBOX_OFFSET == 4064, "wake_interrupt uses it");

static void gate_set(struct gate *gate, uint64_t handler)
{
	*gate = (struct gate){
		.low = (uint16_t)handler,
		.selector = SELECTOR_KERNEL_CODE,
		.type = 0x8e00,
		.middle = (uint16_t)(handler >> 16),
		.high = (uint32_t)(handler >> 32),
	};
}

void kernel_entry(struct kernel_cpu *cpu)
{
	gate_set((struct gate *)VA_KERNEL_IDT + VECTOR_WAKE, (uint64_t)wake_interrupt);
	hypercall(cpu, HYPERCALL_READY, NO_DOMAIN, 0);
	for (;;) {
		if (load(&mail(cpu)->command) == 1)
			asm volatile("cli\n\thlt" : : : "memory");
		else if (load(&mail(cpu)->command) != 2)
			asm volatile("sti\n\thlt" : : : "memory");
		bump(&mail(cpu)->counter);
	}
}
