/*
 * Rings doorbells as often as it is told to, whether it has them or not, and counts those that ring here, on
 * line 5 alone: an interrupt on any other is its end. (I10, H13.) A new command, with a wake-up: rings number
 * value % 2^32, value / 2^32 times; then counter is the command. events: rings heard.
 */
#include "tests/hostile/kernels/kit.h"

#define LINE 5

struct gate {
	uint16_t low, selector, type, middle;
	uint32_t high, reserved;
};

void bell_interrupt(void);
void wake_interrupt(void);

/* 4064 is MAILBOX_OFFSET, events its second word. */
asm(".globl bell_interrupt\n"
    ".globl wake_interrupt\n"
    "bell_interrupt:\n"
    "	incq %gs:4064 + 8\n"
    "wake_interrupt:\n"
    "	pushq %rax\n"
    "	pushq %rcx\n"
    "	pushq %rdx\n"
    "	movl $0x80b, %ecx\n" /* end of interrupt */
    "	xorl %eax, %eax\n"
    "	xorl %edx, %edx\n"
    "	wrmsr\n"
    "	popq %rdx\n"
    "	popq %rcx\n"
    "	popq %rax\n"
    "	iretq\n");

_Static_assert(MAILBOX_OFFSET == 4064, "bell_interrupt uses it");

static void gate_set(uint32_t vector, uint64_t handler)
{
	((struct gate *)VA_KERNEL_IDT)[vector] = (struct gate){
		.low = (uint16_t)handler,
		.selector = SELECTOR_KERNEL_CODE,
		.type = 0x8e00,
		.middle = (uint16_t)(handler >> 16),
		.high = (uint32_t)(handler >> 32),
	};
}

static void ring(uint64_t value)
{
	for (uint64_t n = value >> 32; n != 0; n--)
		asm volatile("outl %0, %1" : : "a"((uint32_t)value), "d"((uint16_t)DOORBELL_PORT) : "memory");
}

void kernel_entry(struct kernel_cpu *cpu)
{
	while (cpu->vcpu != 0)
		asm volatile("hlt");
	gate_set(VECTOR_DOORBELL + LINE, (uint64_t)bell_interrupt);
	gate_set(VECTOR_WAKE, (uint64_t)wake_interrupt);
	hypercall(cpu, HYPERCALL_READY, NO_DOMAIN, 0);
	for (;;) {
		uint64_t command = load(&mail(cpu)->command);

		if (command == load(&mail(cpu)->counter)) {
			asm volatile("sti\n\thlt\n\tcli" : : : "memory");
			continue;
		}
		ring(load(&mail(cpu)->value));
		store(&mail(cpu)->counter, command);
	}
}
