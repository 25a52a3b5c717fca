/*
 * Two ends of a channel in this process, as two domains would see them, and the
 * shim through which the library under test reads all that a peer or the host writes.
 */
#ifndef PORTCULLIS_TESTS_GUEST_RING_PAIR_H
#define PORTCULLIS_TESTS_GUEST_RING_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring_pair;

#define RING_LOAD(address)                                                                                   \
	((__typeof__(*(address)))shim_load((address), sizeof(*(address)),                                    \
	                                   __builtin_classify_type(*(address))))
#define RING_COPY_IN(to, from, bytes) shim_copy((to), (from), (bytes))

uint64_t shim_load(const volatile void *address, size_t bytes, int unused);
void shim_copy(void *to, const void *from, size_t bytes);

#include "guest/lib/ring.h"

/*
 * What the shim does besides. `before` runs before each load with its address (so that a peer can
 * change what is about to be read), `after` after each load or copy.
 */
struct shim {
	void (*before)(const volatile void *address, size_t bytes);
	void (*after)(const volatile void *address, size_t bytes);
};
extern struct shim shim;

/* How often any byte of [begin, begin + bytes) was read since shim_forget. */
unsigned shim_reads(const volatile void *begin, size_t bytes);
void shim_forget(void);

#define PAIR_BULK (64u << 10)

/* Both words say RECORD_LIVE with the given bits, generation 7. */
struct ring_pair {
	struct outbox_header *memory[2]; /* outbox of end 0 and of end 1, PAIR_SLOT bytes each */
	uint64_t word[2];
	struct ring end[2];
};

#define PAIR_SLOT (SLOT_BULK_OFFSET + PAIR_BULK)
#define PAIR_BOTH (RECORD_OUT | RECORD_IN | RECORD_OUT_FLOWCTL | RECORD_IN_FLOWCTL)

void pair_open(struct ring_pair *pair, uint64_t bits_0, uint64_t bits_1);
void pair_close(struct ring_pair *pair);

/* Fresh rings over zeroed memory. */
static inline void pair_open_lossless(struct ring_pair *pair)
{
	pair_open(pair, PAIR_BOTH, PAIR_BOTH);
}

/* End 0 writes to end 1 and sees nothing of it. */
static inline void pair_open_diode(struct ring_pair *pair)
{
	pair_open(pair, RECORD_OUT, RECORD_IN);
}

/* Bytes that follow from n and the place: a mixture of two messages is found out. */
void message_fill(uint8_t *bytes, size_t n_bytes, uint64_t n);
bool message_is(const uint8_t *bytes, size_t n_bytes, uint64_t n);

#endif
