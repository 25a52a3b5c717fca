/*
 * Hypercalls: the vCPU's page, then a write to the port; and the two reports
 * that a domain or the kernel has failed. Its own vCPU only.
 */
#include "guest/kernel/cpu.h"
#include "guest/kernel/kernel.h"

int64_t hypercall(struct kernel_cpu *cpu, enum hypercall call, uint32_t domain, uint64_t a0, uint64_t a1)
{
	struct hypercall_page *page = (struct hypercall_page *)cpu->hypercall;

	page->call = call;
	page->domain = domain;
	page->argument[0] = a0;
	page->argument[1] = a1;
	out_port(HYPERCALL_PORT);
	return page->result;
}

static void report(struct kernel_cpu *cpu, enum hypercall call, uint32_t domain, const uint64_t *trap)
{
	struct hypercall_page *page = (struct hypercall_page *)cpu->hypercall;

	page->argument[2] = trap[2];
	page->argument[3] = read_cr2();
	page->argument[4] = trap[5];
	hypercall(cpu, call, domain, trap[0], trap[1]);
}

/* The running domain trapped; its frame holds vector, error and what the processor pushed. */
void domain_fault(void)
{
	struct kernel_cpu *cpu = this_cpu();
	struct kernel_domain *domain = domain_running(cpu);

	report(cpu, HYPERCALL_FAULT, domain->index, &domain->frame.vector);
	domain_end(cpu, domain);
	schedule();
}

/* trap: vector, error, rip, cs, rflags, rsp, ss. The host ends the guest; if not, this vCPU rests. */
void kernel_panic(const uint64_t *trap)
{
	report(this_cpu(), HYPERCALL_PANIC, NO_DOMAIN, trap);
	for (;;)
		asm volatile("cli; hlt");
}
