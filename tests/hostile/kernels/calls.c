/* Every hypercall, in a loop, from each vCPU's first domain: an exit storm to stop in. (P5: cloud-hypervisor
 * PR 8092.) */
#include "tests/hostile/kernels/kit.h"

void kernel_entry(struct kernel_cpu *cpu)
{
	struct call_page *page =
		(struct call_page *)((struct kernel_domain *)VA_KERNEL_DOMAIN)[cpu->first_domain].call_page;

	page->text[0] = 'x';
	hypercall(cpu, HYPERCALL_READY, NO_DOMAIN, 0);
	for (;;)
		for (uint32_t call = HYPERCALL_CONNECT; call <= HYPERCALL_LOG; call++) {
			ASSERT(cpu, hypercall(cpu, call, cpu->first_domain, 1) == CALL_OK);
			bump(&mail(cpu)->counter);
		}
}
