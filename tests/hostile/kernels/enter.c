/* Goes to ring 3 at once: the vCPU then runs its first domain at native speed, interrupts off. */
#include "tests/hostile/kernels/kit.h"

void kernel_entry(struct kernel_cpu *cpu)
{
	domain_enter(cpu, cpu->first_domain, 0x2);
}
