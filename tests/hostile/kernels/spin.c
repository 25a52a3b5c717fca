/*
 * Never stops by itself: ring 0, interrupts off, no exit. (P1, P2, P3: cloud-hypervisor 7427, kvmtool.)
 * command 1: triple fault (P4).
 */
#include "tests/hostile/kernels/kit.h"

void kernel_entry(struct kernel_cpu *cpu)
{
	for (;;) {
		bump(&mail(cpu)->counter);
		if (load(&mail(cpu)->command) == 1)
			triple_fault();
	}
}
