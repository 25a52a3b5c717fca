/*
 * Writes into the read-only windows without end. (H13.) Each is an exit; none may change anything; the storm
 * is counted, and past the rate the guest is ended. events: writes that were made. value: how many to make at
 * most.
 */
#include "tests/hostile/kernels/paging.h"

void kernel_entry(struct kernel_cpu *cpu)
{
	static const uint64_t windows[] = {GPA_INBOX, GPA_RECORD};
	uint64_t limit = load(&mail(cpu)->value);

	map_everything();
	for (uint64_t i = 0; i < limit; i++) {
		uint64_t *word = (uint64_t *)(windows[i % 2] + i % 512 * 8);
		uint64_t before = load(word);

		store(word, 0x5741524d00000000 + i);
		ASSERT(cpu, load(word) == before);
		bump(&mail(cpu)->events);
	}
	store(&mail(cpu)->counter, 1);
	for (;;)
		asm volatile("hlt");
}
