/*
 * The windows: mapping a peer's outbox into an inbox slot, and taking it away.
 *
 * The inbox window is one reserved range of anonymous zero pages in the host
 * (tombstones), a KVM_MEM_READONLY memslot that never changes. Opening maps
 * the writer's outbox file (from a read-only descriptor, PROT_READ) over a
 * slot; severing maps zero pages over it. KVM's MMU notifiers make the cut
 * complete when mmap returns (measured; portcullis doctor repeats it).
 *
 * The caller serialises calls on one reader (registry lock). The order that a
 * cut needs - record, sever, inspect, wake - is the caller's (design: 7).
 */
#ifndef PORTCULLIS_VMM_WINDOW_H
#define PORTCULLIS_VMM_WINDOW_H

#include <stdint.h>

#include "vmm/machine.h"

/* What of the peer's outbox stands in an inbox slot. */
enum window_part {
	WINDOW_NONE,   /* tombstone */
	WINDOW_HEADER, /* header page: we write to the peer with flowctl, and may not read it */
	WINDOW_ALL,
};

/*
 * Makes reader_slot of reader show `part` of writer_slot of writer, whatever it
 * showed before. -ENOMEM at vm.max_map_count: the slot may then still show the old pages,
 * so a caller that was taking away must kill the reader (machine_kill).
 */
int window_set(struct machine *reader, uint32_t reader_slot, const struct machine *writer,
               uint32_t writer_slot, enum window_part part);

/* Tombstones over n neighbouring slots by one mapping. -ENOMEM as above. */
int window_sever(struct machine *reader, uint32_t first_slot, uint32_t n_slots);

/*
 * The same where the slots stand in n_mappings mappings of the host or so. Where that is few and the reader's
 * vCPUs all stand, what was there is moved aside instead of being freed; window_discard frees it. On
 * -ENOMEM the whole inbox window is closed already, and the reader must be killed.
 */
int window_sever_run(struct machine *reader, uint32_t first_slot, uint32_t n_slots, uint32_t n_mappings);
void window_discard(struct machine *reader);

/* Calls that changed mappings of the machine's inbox window, and of what was moved out of it, ever. */
uint64_t window_mapping_calls(const struct machine *machine);

/* Counters of an outbox, as its owner wrote them; each read once, nothing believed. */
struct outbox_counters {
	uint64_t written, written_bytes;
	uint64_t read, read_bytes;
};
struct outbox_counters window_outbox_counters(const struct machine *writer, uint32_t slot);

/* Gives the slot's outbox memory back to the host: it reads zero afterwards (I8). 0 or -errno. */
int window_outbox_reset(struct machine *writer, uint32_t slot);

/*
 * Host mappings that a machine can use for windows (design: 7). The sum over
 * machines plus a reserve must stay under vm.max_map_count.
 */
uint64_t window_worst_mappings(const struct machine *machine);

/* A host view of a slot's outbox, and of what the guest sees in the inbox slot: for tests and for doctor. */
void *window_outbox(struct machine *machine, uint32_t slot);
const void *window_inbox(const struct machine *machine, uint32_t slot);

#endif
