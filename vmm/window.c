#include "vmm/window.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "guest/abi/memory.h"
#include "vmm/aside.h"
#include "vmm/check.h"
#include "vmm/machine_state.h"

/* RAM, outbox, record, kernel pages around them, and what one mmap may split for a moment. */
#define FIXED_MAPPINGS 16u

static uint8_t *inbox_at(const struct machine *machine, uint32_t slot)
{
	CHECK(slot < machine->layout.n_slots);
	return machine->inbox + slot * machine->layout.slot_stride;
}

static bool is_killed(const struct machine *machine)
{
	return __atomic_load_n(&machine->killed, __ATOMIC_SEQ_CST) != 0;
}

/*
 * machine_kill sets the mark, then takes the window away; a mapping that was
 * made meanwhile is taken away by whoever made it.
 */
static int finish(const struct machine *machine, uint8_t *start, uint64_t bytes)
{
	if (is_killed(machine) && machine->wake_fd < 0)
		CHECK(mprotect(start, bytes, PROT_NONE) == 0);
	return 0;
}

static int tombstone(struct machine *reader, uint8_t *start, uint64_t bytes)
{
	if (bytes == 0)
		return 0;
	machine_count_mapping(reader);
	return mmap(start, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
	            0) == MAP_FAILED
	               ? -errno
	               : 0;
}

static int outbox_map(struct machine *reader, uint8_t *start, uint64_t bytes, const struct machine *writer,
                      uint32_t slot)
{
	uint64_t offset = slot * writer->layout.slot_stride;

	machine_count_mapping(reader);
	if (mmap(start, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, writer->outbox_read_fd, (off_t)offset) ==
	    MAP_FAILED)
		return -errno;
	/* Advice: what fails here is only that a core file or a child would hold it. */
	(void)madvise(start, bytes, MADV_DONTFORK);
	(void)madvise(start, bytes, MADV_DONTDUMP);
	return 0;
}

int window_set(struct machine *reader, uint32_t reader_slot, const struct machine *writer,
               uint32_t writer_slot, enum window_part part)
{
	const uint64_t stride = reader->layout.slot_stride;
	uint8_t *start = inbox_at(reader, reader_slot);
	uint64_t shown = 0;

	CHECK(part == WINDOW_NONE || writer_slot < writer->layout.n_slots);
	if (is_killed(reader))
		return 0;
	if (part == WINDOW_HEADER)
		shown = ABI_PAGE_BYTES;
	else if (part == WINDOW_ALL)
		shown = stride < writer->layout.slot_stride ? stride : writer->layout.slot_stride;
	/* What is taken away first: a failure leaves less, not more. */
	int error = tombstone(reader, start + shown, stride - shown);
	if (error == 0 && shown != 0)
		error = outbox_map(reader, start, shown, writer, writer_slot);
	return error != 0 ? error : finish(reader, start, stride);
}

int window_sever(struct machine *reader, uint32_t first_slot, uint32_t n_slots)
{
	uint8_t *start = inbox_at(reader, first_slot);
	uint64_t bytes = n_slots * reader->layout.slot_stride;

	CHECK(n_slots <= reader->layout.n_slots - first_slot);
	if (is_killed(reader))
		return 0;
	int error = tombstone(reader, start, bytes);
	return error != 0 ? error : finish(reader, start, bytes);
}

/* Measured: a move costs about as much as taking 24 slots out in place, each further mapping the same again.
 */
#define SLOTS_WORTH_A_MAPPING 24u

/* Neither what stands on its left nor on its right; a move that left a hole is the last thing done here. */
static void close_around(struct machine *reader, uint8_t *start, uint64_t bytes)
{
	uint8_t *end = start + bytes, *last = reader->inbox + reader->window_bytes;

	CHECK(start == reader->inbox ||
	      mprotect(reader->inbox, (size_t)(start - reader->inbox), PROT_NONE) == 0);
	CHECK(end == last || mprotect(end, (size_t)(last - end), PROT_NONE) == 0);
	__atomic_store_n(&reader->closed, 1, __ATOMIC_SEQ_CST);
}

int window_sever_run(struct machine *reader, uint32_t first_slot, uint32_t n_slots, uint32_t n_mappings)
{
	uint8_t *start = inbox_at(reader, first_slot);
	uint64_t bytes = n_slots * reader->layout.slot_stride;

	CHECK(n_slots <= reader->layout.n_slots - first_slot);
	if (n_slots / SLOTS_WORTH_A_MAPPING < n_mappings + 1 || is_killed(reader) ||
	    !machine_stands(reader) || !aside_move(reader, start, bytes))
		return window_sever(reader, first_slot, n_slots);
	int error = tombstone(reader, start, bytes);
	if (error != 0)
		close_around(reader, start, bytes);
	return error;
}

void window_discard(struct machine *reader)
{
	aside_discard(reader);
}

uint64_t window_mapping_calls(const struct machine *machine)
{
	return __atomic_load_n(&machine->n_mapping_calls, __ATOMIC_RELAXED);
}

void *window_outbox(struct machine *machine, uint32_t slot)
{
	CHECK(slot < machine->layout.n_slots);
	return machine->outbox + slot * machine->layout.slot_stride;
}

const void *window_inbox(const struct machine *machine, uint32_t slot)
{
	return inbox_at(machine, slot);
}

struct outbox_counters window_outbox_counters(const struct machine *writer, uint32_t slot)
{
	const struct outbox_header *header = window_outbox((struct machine *)writer, slot);

	return (struct outbox_counters){
		.written = __atomic_load_n(&header->written, __ATOMIC_ACQUIRE),
		.written_bytes = __atomic_load_n(&header->written_bytes, __ATOMIC_RELAXED),
		.read = __atomic_load_n(&header->read, __ATOMIC_RELAXED),
		.read_bytes = __atomic_load_n(&header->read_bytes, __ATOMIC_RELAXED),
	};
}

int window_outbox_reset(struct machine *writer, uint32_t slot)
{
	const uint64_t stride = writer->layout.slot_stride;

	CHECK(slot < writer->layout.n_slots);
	return fallocate(writer->outbox_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	                 (off_t)(slot * stride), (off_t)stride) < 0
	               ? -errno
	               : 0;
}

uint64_t window_worst_mappings(const struct machine *machine)
{
	/* A header, then a tombstone, in every slot. */
	return 2ull * machine->layout.n_slots + FIXED_MAPPINGS + MAX_DOMAINS + machine->layout.n_vcpus;
}
