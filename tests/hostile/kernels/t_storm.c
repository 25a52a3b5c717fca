/*
 * Writes into the read-only windows for ever, on vCPU 0. (H13.) Each is an exit; past the rate the guest is
 * ended, and nobody else is the worse for it.
 */
#include "tests/hostile/kernels/paging.h"

void kernel_entry(struct kernel_cpu *cpu)
{
	while (cpu->vcpu != 0)
		asm volatile("hlt");
	map_everything();
	for (uint64_t i = 0;; i++)
		store((uint64_t *)((i % 2 ? GPA_INBOX : GPA_RECORD) + i % 512 * 8), ~i);
}
