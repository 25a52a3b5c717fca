/*
 * Builds x86-64 page tables in a guest's RAM, before the first instruction.
 *
 * Entries are complete from the start: accessed and dirty are set, so that no
 * paging mode has to write them. A virtual page is mapped once; a second time is a bug.
 * Tables are taken from a range that the caller reserved with pages_bound.
 * The loop thread only. Must never be used on a machine that runs: shadow
 * paging does not see what the host stores into a page table.
 *
 * Source: Intel SDM vol. 3A, 4.5 (4-level paging).
 */
#ifndef PORTCULLIS_VMM_PAGES_H
#define PORTCULLIS_VMM_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#define PAGES_PRESENT 0x001ull
#define PAGES_WRITE 0x002ull
#define PAGES_USER 0x004ull
#define PAGES_ACCESSED 0x020ull
#define PAGES_DIRTY 0x040ull
#define PAGES_HUGE 0x080ull
#define PAGES_NX 0x8000000000000000ull
#define PAGES_ADDRESS 0x000ffffffffff000ull

struct pages {
	uint8_t *ram;  /* host address of guest-physical 0; zeroed where tables go */
	uint64_t next; /* guest-physical of the next free table page */
	uint64_t end;
};

/* A new, empty top table; its guest-physical address is a CR3. */
uint64_t pages_root(struct pages *pages);

/*
 * Maps bytes (whole pages) at va to gpa with flags (PAGES_WRITE, PAGES_USER,
 * PAGES_NX); by 2 MiB entries where both are aligned.
 */
void pages_map(struct pages *pages, uint64_t root, uint64_t va, uint64_t gpa, uint64_t bytes, uint64_t flags);

/* Makes root share other's top-level entry for va: one kernel half for all address spaces. */
void pages_share(struct pages *pages, uint64_t root, uint64_t other, uint64_t va);

/*
 * Table pages that mapping bytes can take at most, the top table left out.
 * huge: va and gpa are 2 MiB aligned, so 4 KiB entries serve the tail alone.
 */
uint64_t pages_bound(uint64_t bytes, bool huge);

#endif
