/*
 * Every byte of its outboxes and its RAM gets nonsense, with hypercalls in between; in the end it overwrites
 * itself and is lost. (H13.) Survival: the host's state is unchanged and the machine is marked crashed.
 */
#include "tests/hostile/kernels/paging.h"

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t nonsense(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void fill(uint64_t from, uint64_t bytes)
{
	uint64_t words = bytes / 8;
	void *to = (void *)from;

	asm volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(nonsense()) : "memory");
}

static void talk(struct kernel_cpu *cpu)
{
	struct hypercall_page *page = hypercall_page(cpu);

	for (int i = 0; i < 500; i++) {
		/* No panic: that would be an orderly end. */
		page->call = nonsense() % 9;
		page->domain = nonsense() % 4 == 0 ? (uint32_t)nonsense() : 0;
		page->argument[0] = nonsense() % 2 == 0 ? nonsense() : nonsense() % 64;
		port_out();
	}
}

void kernel_entry(struct kernel_cpu *cpu)
{
	map_everything();
	fill(GPA_OUTBOX, 2 << 20);
	talk(cpu);
	store(&mail(cpu)->counter, 1);
	/* Over its own state, the domains' and the page tables; the image lies below. */
	for (uint64_t gpa = GPA_KERNEL + (128 << 10);; gpa += 4096)
		fill(gpa, 4096);
}
