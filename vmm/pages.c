#include "vmm/pages.h"

#include "guest/abi/limits.h"
#include "vmm/check.h"

#define LEVELS 4
#define ENTRY_BITS 9
#define UPPER_HALF 0xffff800000000000ull

static uint64_t *table_at(struct pages *pages, uint64_t gpa)
{
	return (uint64_t *)(pages->ram + (gpa & PAGES_ADDRESS));
}

static uint64_t table_new(struct pages *pages)
{
	uint64_t gpa = pages->next;

	CHECK(gpa + ABI_PAGE_BYTES <= pages->end);
	pages->next += ABI_PAGE_BYTES;
	return gpa;
}

/* Level 0 is the table of 4 KiB entries, level 3 the top. */
static uint32_t entry_index(uint64_t va, int level)
{
	return va >> (12 + ENTRY_BITS * level) & 511;
}

/* The entry for va at the wanted level; tables on the way are made. */
static uint64_t *entry_for(struct pages *pages, uint64_t root, uint64_t va, int wanted)
{
	/* Rights are the leaf's; but nothing below the upper half's top entry is ever ring 3's. */
	uint64_t rights = PAGES_PRESENT | PAGES_WRITE | PAGES_ACCESSED | (va < UPPER_HALF ? PAGES_USER : 0);
	uint64_t table = root;

	for (int level = LEVELS - 1; level > wanted; level--) {
		uint64_t *entry = &table_at(pages, table)[entry_index(va, level)];

		if (*entry == 0)
			*entry = table_new(pages) | rights;
		CHECK((*entry & PAGES_HUGE) == 0);
		table = *entry & PAGES_ADDRESS;
	}
	return &table_at(pages, table)[entry_index(va, wanted)];
}

uint64_t pages_root(struct pages *pages)
{
	return table_new(pages);
}

void pages_map(struct pages *pages, uint64_t root, uint64_t va, uint64_t gpa, uint64_t bytes, uint64_t flags)
{
	const uint64_t huge_mask = ABI_HUGE_PAGE_BYTES - 1;
	uint64_t leaf =
		PAGES_PRESENT | PAGES_ACCESSED | flags | ((flags & PAGES_WRITE) != 0 ? PAGES_DIRTY : 0);

	CHECK(((va | gpa | bytes) & (ABI_PAGE_BYTES - 1)) == 0);
	/* Writable and executable at once: never. */
	CHECK((flags & PAGES_WRITE) == 0 || (flags & PAGES_NX) != 0);
	while (bytes > 0) {
		bool huge = ((va | gpa) & huge_mask) == 0 && bytes >= ABI_HUGE_PAGE_BYTES;
		uint64_t step = huge ? ABI_HUGE_PAGE_BYTES : ABI_PAGE_BYTES;
		uint64_t *entry = entry_for(pages, root, va, huge ? 1 : 0);

		CHECK(*entry == 0);
		*entry = gpa | leaf | (huge ? PAGES_HUGE : 0);
		va += step;
		gpa += step;
		bytes -= step;
	}
}

void pages_share(struct pages *pages, uint64_t root, uint64_t other, uint64_t va)
{
	uint32_t index = entry_index(va, LEVELS - 1);

	CHECK(table_at(pages, root)[index] == 0);
	table_at(pages, root)[index] = table_at(pages, other)[index];
}

uint64_t pages_bound(uint64_t bytes, bool huge)
{
	uint64_t bound = huge ? 1 : 0;

	/* bytes can touch one more table than they fill, at each level below the top. */
	for (int level = huge ? 1 : 0; level < LEVELS - 1; level++)
		bound += (bytes >> (12 + ENTRY_BITS * (level + 1))) + 2;
	return bound;
}
