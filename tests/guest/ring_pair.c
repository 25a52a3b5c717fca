#include "tests/guest/ring_pair.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#define MOST_READS 4096

struct shim shim;

static struct {
	uintptr_t address;
	size_t bytes;
} reads[MOST_READS];
static unsigned n_reads;

static void note(const volatile void *address, size_t bytes)
{
	unsigned i = __atomic_fetch_add(&n_reads, 1, __ATOMIC_RELAXED);

	if (i >= MOST_READS)
		return;
	reads[i].address = (uintptr_t)address;
	reads[i].bytes = bytes;
}

uint64_t shim_load(const volatile void *address, size_t bytes, int unused)
{
	uint64_t value;

	(void)unused;
	if (shim.before != NULL)
		shim.before(address, bytes);
	note(address, bytes);
	if (bytes == sizeof(uint32_t))
		value = __atomic_load_n((const volatile uint32_t *)address, __ATOMIC_ACQUIRE);
	else
		value = __atomic_load_n((const volatile uint64_t *)address, __ATOMIC_ACQUIRE);
	if (shim.after != NULL)
		shim.after(address, bytes);
	return value;
}

void shim_copy(void *to, const void *from, size_t bytes)
{
	note(from, bytes);
	ring_copy(to, from, bytes);
	if (shim.after != NULL)
		shim.after(from, bytes);
}

unsigned shim_reads(const volatile void *begin, size_t bytes)
{
	uintptr_t first = (uintptr_t)begin;
	unsigned n = 0;

	for (unsigned i = 0; i < n_reads && i < MOST_READS; i++)
		n += reads[i].address < first + bytes && first < reads[i].address + reads[i].bytes;
	return n;
}

void shim_forget(void)
{
	n_reads = 0;
}

static struct outbox_header *slot_map(void)
{
	void *slot = mmap(NULL, PAIR_SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(slot, MAP_FAILED);
	return slot;
}

void pair_open(struct ring_pair *pair, uint64_t bits_0, uint64_t bits_1)
{
	uint64_t bits[2] = {bits_0, bits_1};

	for (int i = 0; i < 2; i++) {
		pair->memory[i] = slot_map();
		pair->word[i] = 7ull << RECORD_GENERATION_SHIFT | RECORD_LIVE | bits[i];
	}
	for (int i = 0; i < 2; i++)
		ring_open(&pair->end[i], pair->memory[i], pair->memory[1 - i], &pair->word[i], PAIR_BULK);
	shim_forget();
}

void pair_close(struct ring_pair *pair)
{
	for (int i = 0; i < 2; i++)
		munmap(pair->memory[i], PAIR_SLOT);
}

static uint8_t byte_of(uint64_t n, size_t i)
{
	return (uint8_t)(n * 31 + i * 7 + (i >> 8) + 1);
}

void message_fill(uint8_t *bytes, size_t n_bytes, uint64_t n)
{
	for (size_t i = 0; i < n_bytes; i++)
		bytes[i] = byte_of(n, i);
}

bool message_is(const uint8_t *bytes, size_t n_bytes, uint64_t n)
{
	for (size_t i = 0; i < n_bytes; i++) {
		if (bytes[i] != byte_of(n, i))
			return false;
	}
	return true;
}

#include "guest/lib/ring.c"
