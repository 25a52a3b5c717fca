/*
 * Between guest/programs/oracle.c and vmm/oracle.c: what the reader of the cut
 * oracle looks at, and what it reports. Offsets count from the start of a slot.
 *
 * The reader reads ORACLE_PLACES words of its first inbox slot, over and over,
 * and writes struct oracle_report to its second outbox slot. The host plays the
 * peer: it writes those words in the outbox of the third slot, which it maps into
 * the first and cuts off again.
 */
#ifndef PORTCULLIS_ABI_ORACLE_H
#define PORTCULLIS_ABI_ORACLE_H

#include <stdint.h>

#include "guest/abi/limits.h"
#include "guest/abi/memory.h"

#define ORACLE_BULK_BYTES 65536u
#define ORACLE_PLACES 4u

/* A word of the header, of the cells, and the first and the last of the bulk area. */
static const uint32_t oracle_place[ORACLE_PLACES] = {
	SLOT_HEADER_OFFSET,
	SLOT_CELLS_OFFSET,
	SLOT_BULK_OFFSET,
	SLOT_BULK_OFFSET + ORACLE_BULK_BYTES - 8,
};

#define ORACLE_READER_SLOT 0u
#define ORACLE_REPORT_SLOT 1u
#define ORACLE_SOURCE_SLOT 2u
#define ORACLE_SLOTS 3u

struct oracle_report {
	uint64_t readings;     /* of all places; stored last */
	uint64_t seen;         /* the latest reading: all places, or-ed */
	uint64_t highest;      /* any word of any reading */
	uint64_t last_nonzero; /* number of the latest reading that was not zero everywhere */
};

#endif
