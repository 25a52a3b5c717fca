/* A machine's memory in the host: RAM, the three windows, data files, and their memslots. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/abi/memory.h"
#include "vmm/aside.h"
#include "vmm/kvm.h"
#include "vmm/machine_state.h"

enum memslot {
	MEMSLOT_RAM,
	MEMSLOT_OUTBOX,
	MEMSLOT_INBOX,
	MEMSLOT_RECORD,
	MEMSLOT_DATA, /* + domain */
};

static int failed(const struct machine *machine, const char *what, char *why)
{
	int error = errno;

	snprintf(why, WHY_BYTES, "guest %s: %s: %s", machine->name, what, strerror(error));
	return -error;
}

/* A machine without a VM has the memory alone. */
static int memslot_add(const struct machine *machine, uint32_t memslot, uint64_t gpa, void *memory,
                       uint64_t bytes, bool read_only, const char *what, char *why)
{
	if (machine->vm_fd < 0)
		return 0;
	return kvm_memslot_add(machine->vm_fd, memslot, gpa, memory, bytes, read_only, what, why);
}

/* Zero pages, 2 MiB aligned so that huge pages are possible. NULL and errno. */
uint8_t *memory_reserve(uint64_t bytes, int protection)
{
	const uint64_t align = ABI_HUGE_PAGE_BYTES;
	uint8_t *raw =
		mmap(NULL, bytes + align, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (raw == MAP_FAILED)
		return NULL;
	uint8_t *start = (uint8_t *)(((uintptr_t)raw + align - 1) & ~(align - 1));
	if (start != raw)
		munmap(raw, (size_t)(start - raw));
	munmap(start + bytes, (size_t)(raw + align - start));
	return start;
}

static void release(uint8_t **memory, uint64_t bytes)
{
	if (*memory != NULL)
		munmap(*memory, bytes);
	*memory = NULL;
}

/* No copy of a guest's memory in a child or in a core file. */
static int keep_private(void *memory, uint64_t bytes)
{
	return madvise(memory, bytes, MADV_DONTFORK) < 0 || madvise(memory, bytes, MADV_DONTDUMP) < 0 ? -1
	                                                                                              : 0;
}

static int ram_create(struct machine *machine, char *why)
{
	if (machine->layout.ram_bytes == 0)
		return 0;
	machine->ram = memory_reserve(machine->layout.ram_bytes, PROT_READ | PROT_WRITE);
	if (machine->ram == NULL || keep_private(machine->ram, machine->layout.ram_bytes) != 0)
		return failed(machine, "RAM", why);
	return memslot_add(machine, MEMSLOT_RAM, GPA_RAM, machine->ram, machine->layout.ram_bytes, false,
	                   "memslot of RAM", why);
}

/* The writable descriptor stays for punching holes; peers map the read-only one. */
static int outbox_files_open(struct machine *machine)
{
	char path[64];

	machine->outbox_fd = memfd_create("portcullis-outbox", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (machine->outbox_fd < 0 || ftruncate(machine->outbox_fd, (off_t)machine->window_bytes) < 0 ||
	    fcntl(machine->outbox_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", machine->outbox_fd);
	machine->outbox_read_fd = open(path, O_RDONLY | O_CLOEXEC);
	return machine->outbox_read_fd < 0 ? -1 : 0;
}

static int outbox_create(struct machine *machine, char *why)
{
	if (outbox_files_open(machine) != 0)
		return failed(machine, "outbox file", why);
	machine->outbox = memory_reserve(machine->window_bytes, PROT_NONE);
	if (machine->outbox == NULL ||
	    mmap(machine->outbox, machine->window_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
	         machine->outbox_fd, 0) == MAP_FAILED ||
	    keep_private(machine->outbox, machine->window_bytes) != 0)
		return failed(machine, "outbox window", why);
	return memslot_add(machine, MEMSLOT_OUTBOX, GPA_OUTBOX, machine->outbox, machine->window_bytes, false,
	                   "memslot of the outbox window", why);
}

/*
 * Tombstones from end to end. Not marked like the rest: they hold nothing, and
 * a tombstone that window_sever maps later must merge with its neighbours.
 */
static int inbox_create(struct machine *machine, char *why)
{
	machine->inbox = memory_reserve(machine->window_bytes, PROT_READ);
	if (machine->inbox == NULL)
		return failed(machine, "inbox window", why);
	aside_create(machine);
	return memslot_add(machine, MEMSLOT_INBOX, GPA_INBOX, machine->inbox, machine->window_bytes, true,
	                   "memslot of the inbox window", why);
}

static int record_create(struct machine *machine, char *why)
{
	machine->record = memory_reserve(machine->layout.record_bytes, PROT_READ | PROT_WRITE);
	if (machine->record == NULL || keep_private(machine->record, machine->layout.record_bytes) != 0)
		return failed(machine, "record window", why);
	return memslot_add(machine, MEMSLOT_RECORD, GPA_RECORD, machine->record, machine->layout.record_bytes,
	                   true, "memslot of the record window", why);
}

/* Its size must hold for good: a file that shrinks would end the guest, one that changes was not agreed on.
 */
static int data_check(const struct domain_spec *spec, char *why)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	struct stat status;
	int found = fcntl(spec->data_fd, F_GET_SEALS);

	if (found < 0 || (found & seals) != seals || fstat(spec->data_fd, &status) < 0 ||
	    (uint64_t)status.st_size != spec->data_bytes) {
		snprintf(why, WHY_BYTES, "domain %s: its data is no sealed file of %llu bytes", spec->name,
		         (unsigned long long)spec->data_bytes);
		return -EINVAL;
	}
	return 0;
}

static int data_create(struct machine *machine, uint32_t domain, const struct domain_spec *spec, char *why)
{
	const struct span *span = &machine->layout.domain[domain].data;

	if (span->bytes == 0)
		return 0;
	int error = data_check(spec, why);
	if (error != 0)
		return error;
	uint8_t *memory = memory_reserve(span->bytes, PROT_NONE);
	if (memory == NULL)
		return failed(machine, "data file", why);
	machine->data[domain] = memory;
	/* Private and never written: the file's own pages, also where a sealed file refuses shared mappings.
	 */
	if (mmap(memory, span->bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, spec->data_fd, 0) == MAP_FAILED ||
	    keep_private(memory, span->bytes) != 0)
		return failed(machine, "data file", why);
	machine->ranges.data_end = span->gpa + span->bytes;
	return memslot_add(machine, MEMSLOT_DATA + domain, span->gpa, memory, span->bytes, true,
	                   "memslot of a data file", why);
}

/* A table from 2 MiB units of window to domains: each domain's slots are whole units. */
static int units_create(struct machine *machine, char *why)
{
	uint64_t n_units = machine->window_bytes / ABI_HUGE_PAGE_BYTES;

	machine->slots_per_unit = (uint32_t)(ABI_HUGE_PAGE_BYTES / machine->layout.slot_stride);
	machine->domain_of_unit = malloc(n_units);
	if (machine->domain_of_unit == NULL)
		return failed(machine, "slot table", why);
	for (uint32_t i = 0; i < machine->layout.n_domains; i++) {
		const struct domain_layout *domain = &machine->layout.domain[i];

		memset(machine->domain_of_unit + domain->first_slot / machine->slots_per_unit, (int)i,
		       domain->n_slots / machine->slots_per_unit);
	}
	return 0;
}

uint32_t memory_domain_of(const struct machine *machine, uint32_t slot)
{
	return machine->domain_of_unit[slot / machine->slots_per_unit];
}

int memory_create(struct machine *machine, const struct machine_spec *spec, char why[static WHY_BYTES])
{
	const struct layout *layout = &machine->layout;

	machine->window_bytes = layout->n_slots * layout->slot_stride;
	machine->ranges =
		(struct exit_ranges){0, GPA_INBOX + machine->window_bytes, GPA_RECORD + layout->record_bytes};
	int error = ram_create(machine, why);
	if (error == 0)
		error = outbox_create(machine, why);
	if (error == 0)
		error = inbox_create(machine, why);
	if (error == 0)
		error = record_create(machine, why);
	for (uint32_t i = 0; error == 0 && i < layout->n_domains; i++)
		error = data_create(machine, i, &spec->domains[i], why);
	return error == 0 ? units_create(machine, why) : error;
}

void memory_retire(struct machine *machine)
{
	release(&machine->ram, machine->layout.ram_bytes);
	release(&machine->inbox, machine->window_bytes);
	aside_destroy(machine);
	release(&machine->record, machine->layout.record_bytes);
	for (uint32_t i = 0; i < machine->layout.n_domains; i++)
		release(&machine->data[i], machine->layout.domain[i].data.bytes);
}

void memory_destroy(struct machine *machine)
{
	memory_retire(machine);
	release(&machine->outbox, machine->window_bytes);
	if (machine->outbox_fd >= 0)
		close(machine->outbox_fd);
	if (machine->outbox_read_fd >= 0)
		close(machine->outbox_read_fd);
	free(machine->domain_of_unit);
}

_Static_assert(ABI_HUGE_PAGE_BYTES >= SLOT_BULK_OFFSET + MAX_BULK_BYTES, "a unit holds a slot at least");
