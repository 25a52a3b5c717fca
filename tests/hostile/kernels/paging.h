/*
 * Tables of a kernel's own: all RAM and all windows, writable, at virtual =
 * physical; the host's kernel half stays. What a hostile kernel does first, since nothing
 * stops it: I6 must hold without the tables that the host built.
 */
#ifndef PORTCULLIS_TEST_KERNEL_PAGING_H
#define PORTCULLIS_TEST_KERNEL_PAGING_H

#include "tests/hostile/kernels/kit.h"

#define TABLE_ENTRIES 512
#define ENTRY_TABLE 3ull   /* present, writable */
#define ENTRY_HUGE 0x83ull /* and a 2 MiB page */
#define GIB (1ull << 30)

struct table {
	uint64_t entry[TABLE_ENTRIES];
} __attribute__((aligned(4096)));

static struct table top, low, kernel_middle, kernel_directory, kernel_pages, directories[4];

static inline uint64_t physical(const void *address)
{
	return (uint64_t)address - VA_KERNEL + GPA_KERNEL;
}

static inline void gib_map(struct table *directory, uint64_t gpa)
{
	for (uint64_t i = 0; i < TABLE_ENTRIES; i++)
		directory->entry[i] = (gpa + i * ABI_HUGE_PAGE_BYTES) | ENTRY_HUGE;
	low.entry[gpa / GIB] = physical(directory) | ENTRY_TABLE;
}

/* Afterwards any guest-physical address below 1 GiB, and the first GiB of each window, can be used as a
 * pointer. */
static inline void map_everything(void)
{
	uint64_t host_top = read_cr3();

	gib_map(&directories[0], GPA_RAM);
	gib_map(&directories[1], GPA_OUTBOX);
	gib_map(&directories[2], GPA_INBOX);
	gib_map(&directories[3], GPA_RECORD);
	top.entry[0] = physical(&low) | ENTRY_TABLE;

	/* A kernel half for the moment of the switch: this image, and no stack. */
	for (uint64_t i = 0; i < TABLE_ENTRIES; i++)
		kernel_pages.entry[i] = (GPA_KERNEL + i * ABI_PAGE_BYTES) | ENTRY_TABLE;
	kernel_directory.entry[0] = physical(&kernel_pages) | ENTRY_TABLE;
	kernel_middle.entry[510] = physical(&kernel_directory) | ENTRY_TABLE;
	top.entry[511] = physical(&kernel_middle) | ENTRY_TABLE;
	asm volatile("movq %1, %%cr3\n\t"
	             "movq %c2(%0), %%rax\n\t"
	             "movq %%rax, top+%c2(%%rip)\n\t"
	             "movq %1, %%cr3"
	             :
	             : "r"(host_top), "r"(physical(&top)), "i"(511 * 8)
	             : "rax", "memory");
}

#endif
