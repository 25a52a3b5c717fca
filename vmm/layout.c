#include "vmm/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/memory.h"
#include "vmm/check.h"
#include "vmm/pages.h"

/* Top tables, one per address space, and the tables of the kernel half. */
#define KERNEL_HALF_TABLES 64u

#define refuse(why, ...) (snprintf(why, WHY_BYTES, __VA_ARGS__), -EINVAL)

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static uint64_t pages_up(uint64_t bytes)
{
	return round_up(bytes, ABI_PAGE_BYTES);
}

uint64_t layout_cpu_va(uint32_t vcpu)
{
	return VA_KERNEL_CPU + (uint64_t)vcpu * KERNEL_CPU_STRIDE;
}

uint64_t layout_stack_top_va(uint32_t vcpu)
{
	return VA_KERNEL_STACK + (uint64_t)(vcpu + 1) * KERNEL_STACK_STRIDE;
}

uint64_t layout_record_offset(const struct layout *layout, uint32_t domain, uint32_t slot)
{
	const struct domain_layout *d = &layout->domain[domain];

	return d->record_offset + RECORD_OFFSET(slot - d->first_slot);
}

static struct span take(uint64_t *gpa, uint64_t bytes)
{
	struct span span = {*gpa, pages_up(bytes)};

	*gpa += span.bytes;
	return span;
}

static uint64_t stride_for(uint64_t bulk_bytes)
{
	uint64_t stride = SLOT_BULK_OFFSET;

	while (stride < SLOT_BULK_OFFSET + bulk_bytes)
		stride *= 2;
	return stride;
}

static int numbers_check(const struct machine_spec *spec, char *why)
{
	if (spec->n_domains == 0 || spec->n_domains > MAX_DOMAINS)
		return refuse(why, "guest %s: %u domains: it needs 1 to %u", spec->name, spec->n_domains,
		              MAX_DOMAINS);
	if (spec->bulk_bytes % ABI_PAGE_BYTES != 0 || spec->bulk_bytes > MAX_BULK_BYTES)
		return refuse(why, "guest %s: bulk area of %" PRIu64 " bytes: whole pages, at most %u",
		              spec->name, spec->bulk_bytes, MAX_BULK_BYTES);
	return 0;
}

static int name_check(const char *name, const char *what, char *why)
{
	size_t length = name == NULL ? 0 : strnlen(name, MAX_NAME_BYTES);

	if (length == 0 || length == MAX_NAME_BYTES)
		return refuse(why, "the name of a %s has 1 to %u bytes", what, MAX_NAME_BYTES - 1);
	return 0;
}

static int arguments_check(const struct domain_spec *domain, char *why)
{
	size_t bytes = 0;

	if (domain->n_arguments > MAX_ARGUMENTS)
		return refuse(why, "domain %s: %u arguments: at most %u", domain->name, domain->n_arguments,
		              MAX_ARGUMENTS);
	for (uint32_t i = 0; i < domain->n_arguments; i++) {
		bytes += strnlen(domain->arguments[i], MAX_ARGUMENT_BYTES) + 1;
		if (bytes > MAX_ARGUMENT_BYTES)
			return refuse(why, "domain %s: its arguments have more than %u bytes", domain->name,
			              MAX_ARGUMENT_BYTES);
	}
	return 0;
}

static int domain_check(const struct domain_spec *domain, uint32_t n_vcpus, char *why)
{
	int error = name_check(domain->name, "domain", why);

	if (error != 0)
		return error;
	if (domain->vcpu >= n_vcpus)
		return refuse(why, "domain %s: vCPU %u: the guest has 0 to %u", domain->name, domain->vcpu,
		              n_vcpus - 1);
	if (domain->n_slots == 0 || domain->n_slots > MAX_SLOTS)
		return refuse(why, "domain %s: %u slots: 1 to %u", domain->name, domain->n_slots, MAX_SLOTS);
	if (domain->heap_bytes > MAX_HEAP_BYTES)
		return refuse(why, "domain %s: heap of %" PRIu64 " bytes: at most %u", domain->name,
		              domain->heap_bytes, MAX_HEAP_BYTES);
	if (domain->stack_bytes == 0 || domain->stack_bytes > MAX_STACK_BYTES)
		return refuse(why, "domain %s: stack of %" PRIu64 " bytes: 1 to %u", domain->name,
		              domain->stack_bytes, MAX_STACK_BYTES);
	if (domain->data_bytes > MAX_DATA_BYTES || (domain->data_fd < 0 && domain->data_bytes != 0))
		return refuse(why, "domain %s: data file of %" PRIu64 " bytes: at most %u", domain->name,
		              domain->data_bytes, MAX_DATA_BYTES);
	return arguments_check(domain, why);
}

static int image_decode(const struct domain_spec *spec, struct domain_layout *domain, char *why)
{
	char reason[WHY_BYTES];
	int error = elf_decode(spec->image, spec->image_bytes, VA_IMAGE, VA_IMAGE_END, &domain->elf, reason);

	if (error != 0)
		snprintf(why, WHY_BYTES, "domain %s: %.160s: %.300s", spec->name,
		         spec->image_name != NULL ? spec->image_name : "its image", reason);
	return error;
}

static void domain_place(const struct domain_spec *spec, struct domain_layout *domain, uint64_t *gpa)
{
	for (uint32_t i = 0; i < domain->elf.n_segments; i++)
		domain->segment[i] = take(gpa, domain->elf.segment[i].bytes);
	domain->boot = take(gpa, sizeof(struct boot_record));
	domain->stack = take(gpa, spec->stack_bytes);
	if (spec->heap_bytes >= ABI_HUGE_PAGE_BYTES)
		*gpa = round_up(*gpa, ABI_HUGE_PAGE_BYTES);
	domain->heap = take(gpa, spec->heap_bytes);
}

static int data_place(const struct domain_spec *spec, struct domain_layout *domain, uint64_t *gpa, char *why)
{
	uint64_t bytes = spec->data_fd >= 0 ? pages_up(spec->data_bytes) : 0;

	if (bytes > GPA_OUTBOX - *gpa)
		return refuse(why, "domain %s: the data files of this guest have more than %llu bytes",
		              spec->name, GPA_OUTBOX - GPA_DATA);
	domain->data = (struct span){*gpa, bytes};
	*gpa += round_up(bytes, ABI_HUGE_PAGE_BYTES);
	return 0;
}

static int slots_place(struct layout *layout, const struct machine_spec *spec, char *why)
{
	uint64_t unit =
		layout->slot_stride < ABI_HUGE_PAGE_BYTES ? ABI_HUGE_PAGE_BYTES / layout->slot_stride : 1;
	uint64_t limit = WINDOW_MAX_BYTES / layout->slot_stride;
	uint64_t n_slots = 0;

	if (limit > MAX_SLOTS)
		limit = MAX_SLOTS;
	for (uint32_t i = 0; i < layout->n_domains; i++) {
		struct domain_layout *domain = &layout->domain[i];

		domain->first_slot = (uint32_t)n_slots;
		domain->n_slots = (uint32_t)round_up(spec->domains[i].n_slots, unit);
		domain->record_offset = layout->record_bytes;
		domain->record_bytes = round_up(RECORD_OFFSET(domain->n_slots), ABI_HUGE_PAGE_BYTES);
		layout->record_bytes += domain->record_bytes;
		n_slots += domain->n_slots;
		if (n_slots > limit)
			return refuse(why,
			              "guest %s: more than %" PRIu64 " slots with a bulk area of %" PRIu64
			              " bytes: ask for fewer slots or a smaller bulk area",
			              spec->name, limit, layout->bulk_bytes);
	}
	layout->n_slots = (uint32_t)n_slots;
	layout->doorbell_offset = layout->record_bytes;
	layout->record_bytes += ABI_HUGE_PAGE_BYTES;
	return 0;
}

/* Links the domains of each vCPU to a ring, in the order of the manifest. */
static void rings_link(struct layout *layout)
{
	for (uint32_t i = 0; i < layout->n_domains; i++) {
		struct domain_layout *domain = &layout->domain[i];

		domain->next = i;
		for (uint32_t step = 1; step <= layout->n_domains; step++) {
			uint32_t other = (i + step) % layout->n_domains;

			if (layout->domain[other].vcpu == domain->vcpu) {
				domain->next = other;
				break;
			}
		}
	}
}

static void kernel_place(struct layout *layout, uint64_t *gpa)
{
	for (uint32_t i = 0; i < layout->kernel.n_segments; i++) {
		const struct elf_segment *segment = &layout->kernel.segment[i];

		layout->kernel_segment[i] =
			(struct span){GPA_KERNEL + (segment->va - VA_KERNEL), segment->bytes};
		*gpa = layout->kernel_segment[i].gpa + segment->bytes;
	}
	layout->kernel_boot = take(gpa, sizeof(struct kernel_boot));
	layout->idt = take(gpa, ABI_PAGE_BYTES);
	layout->cpus = take(gpa, (uint64_t)layout->n_vcpus * KERNEL_CPU_STRIDE);
	layout->stacks = take(gpa, (uint64_t)layout->n_vcpus * KERNEL_STACK_BYTES);
	layout->domains = take(gpa, layout->n_domains * sizeof(struct kernel_domain));
	layout->calls = take(gpa, layout->n_domains * sizeof(struct call_page));
}

static uint64_t tables_bound(const struct layout *layout)
{
	uint64_t bound = 1 + KERNEL_HALF_TABLES + pages_bound(layout->record_bytes, true);

	for (uint32_t i = 0; i < layout->kernel.n_segments; i++)
		bound += pages_bound(layout->kernel_segment[i].bytes, false);
	for (uint32_t i = 0; i < layout->n_domains; i++) {
		const struct domain_layout *domain = &layout->domain[i];
		uint64_t window_bytes = domain->n_slots * layout->slot_stride;

		bound += 1 + 2 * pages_bound(ABI_PAGE_BYTES, false) +
		         pages_bound(domain->stack.bytes, false) +
		         pages_bound(domain->heap.bytes, domain->heap.bytes >= ABI_HUGE_PAGE_BYTES) +
		         pages_bound(domain->data.bytes, true) + 2 * pages_bound(window_bytes, true) +
		         pages_bound(domain->record_bytes, true);
		for (uint32_t j = 0; j < domain->elf.n_segments; j++)
			bound += pages_bound(domain->segment[j].bytes, false);
	}
	return bound;
}

static int domains_plan(struct layout *layout, const struct machine_spec *spec, uint64_t *gpa, char *why)
{
	uint64_t data_gpa = GPA_DATA;

	for (uint32_t i = 0; i < layout->n_domains; i++) {
		struct domain_layout *domain = &layout->domain[i];
		int error = domain_check(&spec->domains[i], spec->n_vcpus, why);

		if (error == 0)
			error = image_decode(&spec->domains[i], domain, why);
		if (error == 0)
			error = data_place(&spec->domains[i], domain, &data_gpa, why);
		if (error != 0)
			return error;
		domain->vcpu = spec->domains[i].vcpu;
		domain_place(&spec->domains[i], domain, gpa);
		domain->call = (struct span){layout->calls.gpa + i * sizeof(struct call_page),
		                             sizeof(struct call_page)};
	}
	return 0;
}

static int kernel_decode(struct layout *layout, const void *image, size_t bytes, char *why)
{
	char reason[WHY_BYTES];
	int error =
		elf_decode(image, bytes, VA_KERNEL, VA_KERNEL + MAX_KERNEL_BYTES, &layout->kernel, reason);

	if (error != 0)
		snprintf(why, WHY_BYTES, "guest kernel: %.400s", reason);
	return error;
}

static int plan(struct layout *layout, const struct machine_spec *spec, char *why)
{
	uint64_t gpa = 0;

	layout->n_vcpus = spec->n_vcpus;
	layout->n_domains = spec->n_domains;
	layout->bulk_bytes = spec->bulk_bytes;
	layout->slot_stride = stride_for(spec->bulk_bytes);
	kernel_place(layout, &gpa);
	int error = domains_plan(layout, spec, &gpa, why);
	if (error == 0)
		error = slots_place(layout, spec, why);
	if (error != 0)
		return error;
	rings_link(layout);
	layout->tables = take(&gpa, tables_bound(layout) * ABI_PAGE_BYTES);
	layout->ram_bytes = round_up(gpa, ABI_HUGE_PAGE_BYTES);
	if (layout->ram_bytes > MAX_RAM_BYTES)
		return refuse(why,
		              "guest %s needs %" PRIu64
		              " MiB of RAM: at most %llu. Use smaller heaps, stacks or fewer "
		              "domains",
		              spec->name, layout->ram_bytes >> 20, MAX_RAM_BYTES >> 20);
	return 0;
}

int layout_plan(const struct machine_spec *spec, const void *kernel_image, size_t kernel_bytes,
                struct layout *layout, char why[static WHY_BYTES])
{
	memset(layout, 0, sizeof(*layout));
	int error = name_check(spec->name, "guest", why);
	if (error == 0 && (spec->n_vcpus == 0 || spec->n_vcpus > MAX_VCPUS))
		error = refuse(why, "guest %s: %u vCPUs: it needs 1 to %u", spec->name, spec->n_vcpus,
		               MAX_VCPUS);
	if (error == 0)
		error = numbers_check(spec, why);
	if (error == 0)
		error = kernel_decode(layout, kernel_image, kernel_bytes, why);
	if (error == 0)
		error = plan(layout, spec, why);
	if (error != 0)
		layout_release(layout);
	return error;
}

int layout_plan_windows(const struct machine_spec *spec, struct layout *layout, char why[static WHY_BYTES])
{
	memset(layout, 0, sizeof(*layout));
	int error = name_check(spec->name, "guest", why);
	if (error == 0)
		error = numbers_check(spec, why);
	for (uint32_t i = 0; error == 0 && i < spec->n_domains; i++) {
		const struct domain_spec *domain = &spec->domains[i];

		error = name_check(domain->name, "port", why);
		if (error == 0 && (domain->n_slots == 0 || domain->n_slots > MAX_SLOTS))
			error = refuse(why, "port %s: %u slots: 1 to %u", domain->name, domain->n_slots,
			               MAX_SLOTS);
	}
	if (error != 0)
		return error;
	layout->n_domains = spec->n_domains;
	layout->bulk_bytes = spec->bulk_bytes;
	layout->slot_stride = stride_for(spec->bulk_bytes);
	return slots_place(layout, spec, why);
}

void layout_release(struct layout *layout)
{
	elf_release(&layout->kernel);
	for (uint32_t i = 0; i < layout->n_domains; i++)
		elf_release(&layout->domain[i].elf);
}
