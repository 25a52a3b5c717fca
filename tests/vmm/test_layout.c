/*
 * The memory that the host builds, walked as the processor would: W^X, NX, guard pages, and
 * a kernel that ring 3 cannot reach (design: 4; I6). No VM.
 */
#include "tests/vmm/rig.h"

#include <stdlib.h>
#include <string.h>

#include "guest/abi/memory.h"
#include "vmm/pages.h"

extern const uint8_t kernel_elf[];
extern const uint64_t kernel_elf_bytes;

#define TABLE_ENTRIES 512

struct built {
	struct layout layout;
	struct machine_spec spec;
	struct domain_spec domain[3];
	uint8_t *ram;
	void *image;
};

static int plan(struct built *built, char *why)
{
	return layout_plan(&built->spec, kernel_elf, kernel_elf_bytes, &built->layout, why);
}

static struct built *built_new(void)
{
	static const char *const arguments[] = {"one", "", "three"};
	const uint8_t code[] = {0xeb, 0xfe};
	struct built *built = calloc(1, sizeof(*built));
	size_t bytes;

	built->image = image_make(code, sizeof(code), &bytes);
	for (int i = 0; i < 3; i++)
		built->domain[i] = (struct domain_spec){
			.name = "d",
			.image_name = "image",
			.image = built->image,
			.image_bytes = bytes,
			.arguments = arguments,
			.n_arguments = 3,
			.vcpu = i == 2 ? 1 : 0,
			.n_slots = i == 1 ? 40 : 5,
			.heap_bytes = i == 1 ? (5 << 20) + 4096 : 12345,
			.stack_bytes = 20000,
			.data_fd = -1,
		};
	built->spec = (struct machine_spec){
		.name = "g",
		.n_vcpus = 2,
		.n_domains = 3,
		.domains = built->domain,
		.bulk_bytes = 65536,
	};
	return built;
}

static struct built *built_filled(void)
{
	const struct boot_facts facts = {.tsc_khz = 1000000, .start_tsc = 7, .start_unix_ns = 9};
	struct built *built = built_new();
	char why[WHY_BYTES];

	cr_assert_eq(plan(built, why), 0, "%s", why);
	built->ram = aligned_alloc(4096, built->layout.ram_bytes);
	memset(built->ram, 0, built->layout.ram_bytes);
	cr_assert_eq(layout_fill(&built->layout, &built->spec, kernel_elf, &facts, built->ram), 0);
	return built;
}

static void built_free(struct built *built)
{
	layout_release(&built->layout);
	free(built->ram);
	free(built->image);
	free(built);
}

/* Visits every leaf of an address space with the rights that all levels together give. */
struct leaf {
	uint64_t va, gpa, bytes;
	bool write, user, execute;
};

typedef void visit_fn(const struct leaf *leaf, void *context);

static void walk(const uint8_t *ram, uint64_t table, int level, struct leaf above, visit_fn *visit,
                 void *context)
{
	const uint64_t *entries = (const uint64_t *)(ram + table);

	for (uint64_t i = 0; i < TABLE_ENTRIES; i++) {
		uint64_t entry = entries[i];
		struct leaf leaf = above;

		if ((entry & PAGES_PRESENT) == 0)
			continue;
		leaf.va |= i << (12 + 9 * level);
		if (level == 3 && i >= 256)
			leaf.va |= 0xffff000000000000;
		leaf.write = leaf.write && (entry & PAGES_WRITE) != 0;
		leaf.user = leaf.user && (entry & PAGES_USER) != 0;
		leaf.execute = leaf.execute && (entry & PAGES_NX) == 0;
		leaf.gpa = entry & PAGES_ADDRESS;
		leaf.bytes = 1ull << (12 + 9 * level);
		if (level == 0 || (level == 1 && (entry & PAGES_HUGE) != 0))
			visit(&leaf, context);
		else
			walk(ram, leaf.gpa, level - 1, leaf, visit, context);
	}
}

static void walk_all(const struct built *built, uint64_t cr3, visit_fn *visit, void *context)
{
	const struct leaf all = {.write = true, .user = true, .execute = true};

	walk(built->ram, cr3, 3, all, visit, context);
}

static bool overlaps(const struct leaf *leaf, uint64_t gpa, uint64_t bytes)
{
	return leaf->gpa < gpa + bytes && gpa < leaf->gpa + leaf->bytes;
}

static bool in_window(const struct leaf *leaf, uint64_t window)
{
	return leaf->gpa >= window && leaf->gpa < window + WINDOW_MAX_BYTES;
}

struct check {
	const struct built *built;
	uint32_t domain; /* NO_DOMAIN: the kernel's space */
	uint64_t n_user, n_leaves;
};

static void check_leaf(const struct leaf *leaf, void *context)
{
	struct check *check = context;
	const struct layout *layout = &check->built->layout;

	check->n_leaves++;
	check->n_user += leaf->user;
	cr_assert(!(leaf->write && leaf->execute), "writable and executable at 0x%lx", leaf->va);
	cr_assert_eq(leaf->user, leaf->va < 1ull << 47, "0x%lx is on the wrong side", leaf->va);
	cr_assert(!overlaps(leaf, layout->tables.gpa, layout->tables.bytes), "tables are mapped at 0x%lx",
	          leaf->va);
	cr_assert(!(leaf->write && (in_window(leaf, GPA_INBOX) || in_window(leaf, GPA_RECORD))),
	          "a read-only window is writable at 0x%lx", leaf->va);
	if (in_window(leaf, GPA_OUTBOX) || in_window(leaf, GPA_INBOX))
		cr_assert(leaf->user && !leaf->execute);
	else if (!in_window(leaf, GPA_RECORD))
		cr_assert(leaf->gpa + leaf->bytes <= layout->ram_bytes, "0x%lx maps what is no memory",
		          leaf->va);
}

/* A page of one domain is in no other domain's ring-3 half. */
static void check_foreign(const struct leaf *leaf, void *context)
{
	const struct check *check = context;
	const struct layout *layout = &check->built->layout;

	if (!leaf->user)
		return;
	for (uint32_t i = 0; i < layout->n_domains; i++) {
		const struct domain_layout *other = &layout->domain[i];
		uint64_t first = other->first_slot * layout->slot_stride,
			 bytes = other->n_slots * layout->slot_stride;

		if (i == check->domain)
			continue;
		cr_assert(!overlaps(leaf, other->boot.gpa, other->boot.bytes));
		cr_assert(!overlaps(leaf, other->call.gpa, other->call.bytes));
		cr_assert(!overlaps(leaf, other->stack.gpa, other->stack.bytes));
		cr_assert(!overlaps(leaf, other->heap.gpa, other->heap.bytes));
		cr_assert(!overlaps(leaf, other->segment[0].gpa, other->segment[0].bytes));
		cr_assert(!overlaps(leaf, GPA_OUTBOX + first, bytes));
		cr_assert(!overlaps(leaf, GPA_INBOX + first, bytes));
		cr_assert(!overlaps(leaf, GPA_RECORD + other->record_offset, other->record_bytes));
	}
	const struct span *const kernel[] = {&layout->kernel_boot, &layout->idt, &layout->cpus,
	                                     &layout->stacks, &layout->domains};
	for (size_t i = 0; i < sizeof(kernel) / sizeof(kernel[0]); i++)
		cr_assert(!overlaps(leaf, kernel[i]->gpa, kernel[i]->bytes));
	for (uint32_t i = 0; i < layout->kernel.n_segments; i++)
		cr_assert(!overlaps(leaf, layout->kernel_segment[i].gpa, layout->kernel_segment[i].bytes));
}

Test(layout, i6_every_page_of_every_address_space)
{
	struct built *built = built_filled();
	struct check kernel = {.built = built, .domain = NO_DOMAIN};

	walk_all(built, built->layout.cr3, check_leaf, &kernel);
	cr_expect_eq(kernel.n_user, 0, "the kernel-only space maps ring-3 pages");
	for (uint32_t i = 0; i < 3; i++) {
		struct check check = {.built = built, .domain = i};

		walk_all(built, built->layout.domain[i].cr3, check_leaf, &check);
		cr_expect_eq(check.n_leaves - check.n_user, kernel.n_leaves, "the kernel half differs");
		walk_all(built, built->layout.domain[i].cr3, check_foreign, &check);
	}
	built_free(built);
}

struct lookup {
	uint64_t va;
	struct leaf found;
};

static void look(const struct leaf *leaf, void *context)
{
	struct lookup *lookup = context;

	if (lookup->va >= leaf->va && lookup->va - leaf->va < leaf->bytes)
		lookup->found = *leaf;
}

static struct leaf leaf_at(const struct built *built, uint64_t cr3, uint64_t va)
{
	struct lookup lookup = {.va = va};

	walk_all(built, cr3, look, &lookup);
	return lookup.found;
}

#define IS_MAPPED(cr3, va) (leaf_at(built, cr3, va).bytes != 0)

/* Gate `vector` as the processor reads it: SDM vol. 3A, 6.14.1. */
static uint64_t gate_target(const struct built *built, uint32_t vector)
{
	const uint64_t(*idt)[2] = (const void *)(built->ram + built->layout.idt.gpa);
	uint64_t low = idt[vector][0];

	if (low == 0 && idt[vector][1] == 0)
		return 0;
	cr_assert_eq(low >> 16 & 0xffff, SELECTOR_KERNEL_CODE);
	cr_assert_eq(low >> 32 & 0xffff, 0x8e00, "present, ring 0, interrupts off");
	return (low & 0xffff) | (low >> 48) << 16 | idt[vector][1] << 32;
}

/* The kernel's own stubs, and nobody can write there any more. */
Test(layout, i6_the_idt_is_made_by_the_host)
{
	struct built *built = built_filled();
	uint64_t stub = elf_symbol_find(&built->layout.kernel, "trap_stubs");
	struct leaf leaf = leaf_at(built, built->layout.cr3, VA_KERNEL_IDT);
	uint32_t n = 0;

	cr_assert_neq(stub, 0);
	for (uint32_t vector = 0; vector < 256; vector++) {
		uint64_t target = gate_target(built, vector);
		bool meant = vector < N_EXCEPTIONS || vector == VECTOR_TIMER || vector == VECTOR_WAKE ||
		             vector == VECTOR_SPURIOUS ||
		             (vector >= VECTOR_DOORBELL && vector < VECTOR_DOORBELL + MAX_GUESTS);

		cr_assert_eq(target != 0, meant, "vector %u", vector);
		if (vector < VECTOR_SPURIOUS && vector < VECTOR_DOORBELL && meant)
			cr_assert_eq(target, stub + n++ * TRAP_STUB_BYTES, "vector %u", vector);
	}
	cr_assert_eq(gate_target(built, VECTOR_SPURIOUS), stub + n++ * TRAP_STUB_BYTES);
	for (uint32_t i = 0; i < MAX_GUESTS; i++)
		cr_assert_eq(gate_target(built, VECTOR_DOORBELL + i), stub + n++ * TRAP_STUB_BYTES);
	cr_assert_eq(leaf.gpa, built->layout.idt.gpa);
	cr_assert(!leaf.write && !leaf.execute && !leaf.user);
	built_free(built);
}

Test(layout, guard_pages_are_absent)
{
	struct built *built = built_filled();
	uint64_t cr3 = built->layout.domain[0].cr3;

	cr_expect(IS_MAPPED(cr3, VA_STACK_TOP - 1));
	cr_expect(!IS_MAPPED(cr3, VA_STACK_TOP));
	cr_expect(IS_MAPPED(cr3, VA_STACK_TOP - 20000));
	cr_expect(!IS_MAPPED(cr3, VA_STACK_TOP - 20480 - 1));
	cr_expect(!IS_MAPPED(cr3, 0), "null");
	cr_expect(!IS_MAPPED(cr3, VA_HEAP - 1) && !IS_MAPPED(cr3, VA_HEAP + 16384));
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t top = layout_stack_top_va(i);

		cr_expect(IS_MAPPED(cr3, top - 1) && IS_MAPPED(cr3, top - KERNEL_STACK_BYTES));
		cr_expect(!IS_MAPPED(cr3, top - KERNEL_STACK_BYTES - 1) && !IS_MAPPED(cr3, top));
	}
	built_free(built);
}

Test(layout, both_sides_agree_on_windows_and_records)
{
	struct built *built = built_filled();
	const struct layout *layout = &built->layout;
	const struct kernel_domain *states = (const void *)(built->ram + layout->domains.gpa);

	cr_expect_eq(layout->slot_stride, 131072);
	for (uint32_t i = 0; i < 3; i++) {
		const struct domain_layout *domain = &layout->domain[i];
		const struct boot_record *boot = (const void *)(built->ram + domain->boot.gpa);
		uint64_t slot_offset = domain->first_slot * layout->slot_stride;

		cr_expect_eq(slot_offset % ABI_HUGE_PAGE_BYTES, 0);
		cr_expect_geq(domain->n_slots, built->domain[i].n_slots);
		cr_expect_eq(leaf_at(built, domain->cr3, VA_OUTBOX + slot_offset).gpa,
		             GPA_OUTBOX + slot_offset);
		cr_expect_eq(leaf_at(built, domain->cr3, VA_INBOX + slot_offset).gpa,
		             GPA_INBOX + slot_offset);
		cr_expect_eq(leaf_at(built, domain->cr3, VA_RECORD).gpa, GPA_RECORD + domain->record_offset);
		cr_expect_eq(leaf_at(built, domain->cr3, VA_OUTBOX + slot_offset).bytes, ABI_HUGE_PAGE_BYTES);
		/* The kernel finds the same pages under its own addresses. */
		cr_expect_eq(leaf_at(built, layout->cr3, states[i].record).gpa,
		             GPA_RECORD + domain->record_offset);
		cr_expect_eq(leaf_at(built, layout->cr3, states[i].call_page).gpa, domain->call.gpa);
		cr_expect_eq(leaf_at(built, domain->cr3, VA_CALL).gpa, domain->call.gpa);
		cr_expect_eq(states[i].cr3, domain->cr3);
		cr_expect_eq(boot->magic, BOOT_MAGIC);
		cr_expect_eq(boot->first_slot, domain->first_slot);
		cr_expect_eq(boot->flags, i < 2 ? BOOT_SHARED_VCPU : 0u);
		cr_expect_eq(boot->n_arguments, 3);
		cr_expect_str_eq(boot->text + boot->argument[0], "one");
		cr_expect_str_eq(boot->text + boot->argument[1], "");
		cr_expect_str_eq(boot->text + boot->argument[2], "three");
	}
	cr_expect_eq(states[0].next, 1);
	cr_expect_eq(states[1].next, 0);
	cr_expect_eq(states[2].next, 2);
	cr_expect_eq(layout_record_offset(layout, 1, layout->domain[1].first_slot + 3),
	             layout->domain[1].record_offset + RECORD_OFFSET(3));
	const struct boot_record *one = (const void *)(built->ram + layout->domain[0].boot.gpa);
	const struct boot_record *two = (const void *)(built->ram + layout->domain[1].boot.gpa);
	cr_expect_neq(memcmp(one->random, two->random, sizeof(one->random)), 0,
	              "the same random bytes twice");
	built_free(built);
}

static void assert_refused(struct built *built, const char *part)
{
	char why[WHY_BYTES] = "";

	cr_expect_eq(plan(built, why), -EINVAL, "accepted although: %s", part);
	cr_expect_not_null(strstr(why, part), "it says '%s', not '%s'", why, part);
	free(built->image);
	free(built);
}

#define REFUSED(change, part)                                                                                \
	do {                                                                                                 \
		struct built *b = built_new();                                                               \
		change;                                                                                      \
		assert_refused(b, part);                                                                     \
	} while (0)

Test(layout, numbers_that_are_refused)
{
	static const char *many[MAX_ARGUMENTS + 1];
	static char long_argument[MAX_ARGUMENT_BYTES + 1];
	const char *const one_long[] = {long_argument};

	memset(long_argument, 'x', sizeof(long_argument) - 1);
	for (uint32_t i = 0; i <= MAX_ARGUMENTS; i++)
		many[i] = "";
	REFUSED(b->spec.n_vcpus = 0, "guest g: 0 vCPUs");
	REFUSED(b->spec.n_vcpus = MAX_VCPUS + 1, "17 vCPUs");
	REFUSED(b->spec.n_domains = 0, "0 domains");
	REFUSED(b->spec.n_domains = MAX_DOMAINS + 1, "65 domains");
	REFUSED(b->spec.bulk_bytes = 100, "bulk area of 100 bytes");
	REFUSED(b->spec.bulk_bytes = MAX_BULK_BYTES + 4096, "bulk area");
	REFUSED(b->spec.name = "", "the name of a guest");
	REFUSED(b->domain[1].name = "0123456789012345678901234567890x", "the name of a domain");
	REFUSED(b->domain[1].vcpu = 2, "domain d: vCPU 2");
	REFUSED(b->domain[1].n_slots = 0, "0 slots");
	REFUSED(b->domain[1].n_slots = MAX_SLOTS + 1, "65537 slots");
	REFUSED(b->domain[1].n_slots = MAX_SLOTS - 20, "more than 65536 slots");
	REFUSED((b->domain[1].n_slots = 9000, b->spec.bulk_bytes = MAX_BULK_BYTES), "a smaller bulk area");
	REFUSED(b->domain[1].heap_bytes = MAX_HEAP_BYTES + 1, "heap");
	REFUSED(b->domain[1].stack_bytes = MAX_STACK_BYTES + 1, "stack");
	REFUSED(b->domain[1].stack_bytes = 0, "stack");
	REFUSED(b->domain[1].data_bytes = 1, "data file");
	REFUSED((b->domain[1].arguments = many, b->domain[1].n_arguments = MAX_ARGUMENTS + 1),
	        "33 arguments");
	REFUSED((b->domain[1].arguments = one_long, b->domain[1].n_arguments = 1), "more than 2048 bytes");
	REFUSED(b->domain[1].image_bytes = 8, "domain d: image: not an ELF image");
}

Test(layout, the_largest_windows_fit_their_bound)
{
	struct built *built = built_new();
	char why[WHY_BYTES];

	built->domain[1].n_slots = MAX_SLOTS - 100;
	built->domain[1].heap_bytes = MAX_HEAP_BYTES;
	cr_assert_eq(plan(built, why), 0, "%s", why);
	built->ram = aligned_alloc(4096, built->layout.ram_bytes);
	memset(built->ram, 0, built->layout.ram_bytes);
	const struct boot_facts facts = {.tsc_khz = 1};
	cr_expect_eq(layout_fill(&built->layout, &built->spec, kernel_elf, &facts, built->ram), 0);
	built_free(built);
}
