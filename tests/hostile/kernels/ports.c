/*
 * Reads a port whose value grows by one with each read. (P7: cloud-hypervisor 3658.)
 * A read whose completion was lost or done twice, or an RIP advanced twice, breaks the sequence.
 */
#include "tests/hostile/kernels/kit.h"

void kernel_entry(struct kernel_cpu *cpu)
{
	uint32_t last = 0, value;

	for (;;) {
		asm volatile("inl %%dx, %%eax\n\t"
		             "addq $1, %1\n\t"
		             : "=a"(value), "+m"(mail(cpu)->events)
		             : "d"(HYPERCALL_PORT));
		ASSERT(cpu, value == last + 1);
		ASSERT(cpu, load(&mail(cpu)->events) == value);
		last = value;
		bump(&mail(cpu)->counter);
	}
}
