/*
 * The memory of one channel end: what its owner writes and its peer reads.
 *
 *	page 0		struct outbox_header
 *	page 1		RING_CELLS cells of 64 bytes
 *	page 2...	the bulk area, bulk_bytes long
 *
 * Only the owner writes it. The peer has it mapped read-only, all of it while
 * the flow from the owner is open, the header alone while only the reverse flow
 * is open and has flowctl. Nothing in here is believed: a reader loads each
 * word once, compares it with what it expects, checks lengths against constants
 * of its own, copies out, and then looks at its slot record again
 * (record.h) before it hands the message on.
 *
 * Message n (from 1) stands in cell n % RING_CELLS. Its commit word is stored
 * last, by a locked exchange:
 *
 *	commit = n << RING_LENGTH_BITS | length
 *
 * so a cell carries a message n only if the sequence in it is n: neither zero
 * pages (a tombstone) nor an old lap can be taken for it. Up to
 * RING_INLINE_BYTES bytes stand in the cell; longer messages stand in the bulk
 * area at the offset in the cell's first word and do not wrap.
 *
 * A flow with flowctl is lossless: the writer goes on only as far as the
 * peer's `read` (clamped to what it sent) allows; what message n holds of the
 * bulk area it remembers in private memory. A flow without flowctl (a diode)
 * overwrites: the writer raises `reserved` and `bulk_reserved` before it
 * touches a cell or bulk bytes, and the reader checks them after its copy.
 */
#ifndef PORTCULLIS_ABI_RING_H
#define PORTCULLIS_ABI_RING_H

#include <stddef.h>
#include <stdint.h>

#define RING_CELLS 64u
#define RING_CELL_BYTES 64u
#define RING_INLINE_BYTES 56u
#define RING_LENGTH_BITS 24u
#define RING_LENGTH_MASK ((1ull << RING_LENGTH_BITS) - 1)

struct ring_cell {
	uint64_t commit;
	union {
		uint8_t bytes[RING_INLINE_BYTES];
		struct {
			uint64_t bulk_offset; /* from the start of the bulk area */
			uint64_t bulk_end;    /* diode: position (never wraps) behind this message's bytes */
		};
	};
};

/* Each group on lines of its own: 128 bytes, for the adjacent-line prefetcher. */
struct outbox_header {
	/* As writer of the flow out. */
	uint64_t written;       /* messages committed */
	uint64_t written_bytes; /* their payload */
	uint64_t reserved;      /* highest message number that may be partly overwritten (diode) */
	uint64_t bulk_reserved; /* bulk position up to which bytes may be overwritten (diode) */
	uint8_t pad0[96];
	uint32_t wants_room; /* writer is about to block for room: notify after reading */
	uint8_t pad1[124];

	/* As reader of the flow in. */
	uint64_t read;       /* messages taken */
	uint64_t read_bytes; /* their payload */
	uint8_t pad2[112];
	uint32_t wants_message; /* reader is about to block: notify after committing */
	uint8_t pad3[124];
};

_Static_assert(sizeof(struct ring_cell) == RING_CELL_BYTES, "a cell is a cache line");
_Static_assert(RING_CELLS *RING_CELL_BYTES == 4096, "the cells are a page");
_Static_assert(offsetof(struct outbox_header, wants_room) == 128, "lines of their own");
_Static_assert(offsetof(struct outbox_header, read) == 256, "lines of their own");
_Static_assert(offsetof(struct outbox_header, wants_message) == 384, "lines of their own");
_Static_assert(sizeof(struct outbox_header) == 512, "fits the header page");

#endif
