/* Gives up in an orderly way: what it says of itself is shown with the kernel's symbol. */
#include "tests/hostile/kernels/kit.h"

void kernel_entry(struct kernel_cpu *cpu)
{
	struct hypercall_page *page = hypercall_page(cpu);

	page->argument[1] = 0x18;                       /* error code */
	page->argument[2] = (uint64_t)kernel_entry + 5; /* rip */
	page->argument[3] = 0;                          /* cr2 */
	page->argument[4] = cpu->kernel_rsp;
	hypercall(cpu, HYPERCALL_PANIC, NO_DOMAIN, 13);
	for (;;)
		bump(&mail(cpu)->counter);
}
