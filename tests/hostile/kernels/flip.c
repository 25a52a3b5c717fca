/*
 * The hypercall page and the call page change while the host reads them. (H2, H13: XSA-155, XSA-166.) vCPU 0
 * asks, vCPU 1 changes call, domain, length and text without pause. The test checks that what reaches its
 * handlers is always a checked whole.
 */
#include "tests/hostile/kernels/kit.h"

static void ask(struct kernel_cpu *cpu)
{
	for (;;) {
		port_out();
		bump(&mail(cpu)->counter);
	}
}

static void flip(struct kernel_cpu *cpu, struct hypercall_page *page, struct call_page *text)
{
	static const uint32_t domains[] = {0, 1, 0, NO_DOMAIN, 0, 1u << 31};
	static const uint64_t lengths[] = {1, 8, MAX_NAME_BYTES - 1, MAX_NAME_BYTES, MAX_LOG_BYTES, ~0ull};
	static const uint32_t calls[] = {
		HYPERCALL_CONNECT, HYPERCALL_LOG, HYPERCALL_CONNECT, HYPERCALL_INFO, 0, ~0u};

	for (uint32_t i = 0;; i++) {
		__atomic_store_n(&page->domain, domains[i % 6], __ATOMIC_RELAXED);
		__atomic_store_n(&page->call, calls[i / 2 % 6], __ATOMIC_RELAXED);
		__atomic_store_n(&page->argument[0], lengths[i / 3 % 6], __ATOMIC_RELAXED);
		__atomic_store_n(&text->text[i % 8], (char)(i % 3 == 0 ? '\n' : 'a' + i % 26),
		                 __ATOMIC_RELAXED);
		bump(&mail(cpu)->counter);
	}
}

void kernel_entry(struct kernel_cpu *cpu)
{
	struct call_page *text = (struct call_page *)((struct kernel_domain *)VA_KERNEL_DOMAIN)->call_page;

	if (cpu->vcpu == 0)
		ask(cpu);
	else
		flip(cpu, (struct hypercall_page *)(VA_KERNEL_CPU + ABI_PAGE_BYTES), text);
}
