/*
 * Ids that are no ids. (H8: CVE-2011-2512.) vCPU 1's domains asked for on vCPU 0, -1, 2^31, one past the
 * last, calls that do not exist, texts that are too long or no names. Each must be refused, and a proper call
 * still served after.
 */
#include "tests/hostile/kernels/kit.h"

static void refused_everywhere(struct kernel_cpu *cpu, uint32_t domain)
{
	for (uint32_t call = HYPERCALL_CONNECT; call <= HYPERCALL_FAULT; call++) {
		ASSERT(cpu, hypercall(cpu, call, domain, 1) == CALL_BAD_ARGUMENT);
		bump(&mail(cpu)->events);
	}
}

static void name_refused(struct kernel_cpu *cpu, char *text, uint64_t bytes)
{
	(void)text;
	ASSERT(cpu, hypercall(cpu, HYPERCALL_CONNECT, 0, bytes) == CALL_BAD_ARGUMENT);
	bump(&mail(cpu)->events);
}

static void call_refused(struct kernel_cpu *cpu, uint32_t call)
{
	ASSERT(cpu, hypercall(cpu, call, 0, 1) == CALL_NO_CALL);
	bump(&mail(cpu)->events);
}

void kernel_entry(struct kernel_cpu *cpu)
{
	const struct kernel_boot *boot = (const struct kernel_boot *)VA_KERNEL_BOOT;
	struct call_page *page = (struct call_page *)((struct kernel_domain *)VA_KERNEL_DOMAIN)->call_page;

	while (cpu->vcpu != 0)
		asm volatile("hlt");
	refused_everywhere(cpu, NO_DOMAIN);
	refused_everywhere(cpu, 1u << 31);
	refused_everywhere(cpu, boot->n_domains);
	refused_everywhere(cpu, boot->n_domains - 1); /* the other vCPU's */
	call_refused(cpu, 0);
	call_refused(cpu, HYPERCALL_READY + 1);
	call_refused(cpu, 1u << 31);
	call_refused(cpu, 0xffffffffu);
	page->text[0] = 'a';
	name_refused(cpu, page->text, 0);
	name_refused(cpu, page->text, MAX_NAME_BYTES);
	name_refused(cpu, page->text, MAX_LOG_BYTES + 1);
	name_refused(cpu, page->text, 1ull << 31);
	name_refused(cpu, page->text, ~0ull);
	page->text[0] = '\033';
	name_refused(cpu, page->text, 1);
	page->text[0] = '\0';
	name_refused(cpu, page->text, 1);
	ASSERT(cpu, hypercall(cpu, HYPERCALL_LOG, 0, MAX_LOG_BYTES + 1) == CALL_BAD_ARGUMENT);
	bump(&mail(cpu)->events);
	page->text[0] = 'a';
	ASSERT(cpu, hypercall(cpu, HYPERCALL_CONNECT, 0, 1) == CALL_OK);
	/* One that has exited asks for nothing more. */
	ASSERT(cpu, hypercall(cpu, HYPERCALL_EXIT, 0, 0) == CALL_OK);
	refused_everywhere(cpu, 0);
	ASSERT(cpu, hypercall(cpu, HYPERCALL_READY, NO_DOMAIN, 0) == CALL_OK);
	ASSERT(cpu, hypercall(cpu, HYPERCALL_READY, NO_DOMAIN, 0) == CALL_BAD_ARGUMENT);
	bump(&mail(cpu)->events);
	store(&mail(cpu)->counter, 1);
	for (;;)
		asm volatile("hlt");
}
