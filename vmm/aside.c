#include "vmm/aside.h"

#include <sys/mman.h>

#include "vmm/machine_state.h"

void aside_create(struct machine *machine)
{
	machine->aside = memory_reserve(machine->window_bytes, PROT_NONE);
}

void aside_destroy(struct machine *machine)
{
	if (machine->aside != NULL)
		munmap(machine->aside, machine->window_bytes);
	machine->aside = NULL;
}

/* Whatever the host did with the range: it may belong to somebody else by now, so it is nobody's to reuse. */
static void give_up(struct machine *machine, uint64_t offset, uint64_t bytes)
{
	uint64_t end = offset + bytes;

	if (offset != 0)
		munmap(machine->aside, offset);
	if (end != machine->window_bytes)
		munmap(machine->aside + end, machine->window_bytes - end);
	machine->aside = NULL;
	machine->aside_bytes = 0;
}

bool aside_move(struct machine *machine, uint8_t *start, uint64_t bytes)
{
	uint64_t offset = (uint64_t)(start - machine->inbox);

	if (machine->aside == NULL)
		return false;
	machine_count_mapping(machine);
	if (mremap(start, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, machine->aside + offset) ==
	    MAP_FAILED) {
		/* Linux before 6.17 moves one mapping at a time; it has emptied the target all the same. */
		give_up(machine, offset, bytes);
		return false;
	}
	machine->aside_bytes += bytes;
	return true;
}

void aside_discard(struct machine *machine)
{
	if (machine->aside == NULL || machine->aside_bytes == 0)
		return;
	machine_count_mapping(machine);
	/* The pages first, which holds up no fault of a vCPU. */
	(void)madvise(machine->aside, machine->window_bytes, MADV_DONTNEED);
	machine_count_mapping(machine);
	/* At the limit of mappings it fails and stays; the next move then replaces what lies in its way. */
	if (mmap(machine->aside, machine->window_bytes, PROT_NONE,
	         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
		machine->aside_bytes = 0;
}
