/*
 * The heap arena, and the few functions on bytes and text that programs and the
 * compiler expect.
 */
#include "guest/lib/domain.h"

static uint8_t *heap_next;
static size_t heap_free;

void heap_start(void)
{
	heap_next = (uint8_t *)VA_HEAP;
	heap_free = DOMAIN_BOOT->heap_bytes;
}

/* The host gives zeroed memory, and nothing is given twice. */
void *heap_alloc(size_t bytes)
{
	uint8_t *memory = heap_next;
	size_t rounded = (bytes + 15) & ~(size_t)15;

	if (rounded < bytes || rounded > heap_free)
		return NULL;
	heap_next += rounded;
	heap_free -= rounded;
	return memory;
}

size_t heap_left(void)
{
	return heap_free;
}

const void *data_file(size_t *bytes)
{
	*bytes = DOMAIN_BOOT->data_bytes;
	return *bytes != 0 ? (const void *)VA_DATA : NULL;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
	void *t = to;

	asm volatile("rep movsb" : "+D"(t), "+S"(from), "+c"(bytes) : : "memory");
	return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
	uint8_t *t = (uint8_t *)to + bytes - 1;
	const uint8_t *f = (const uint8_t *)from + bytes - 1;

	if ((uintptr_t)to - (uintptr_t)from >= bytes)
		return memcpy(to, from, bytes);
	asm volatile("std; rep movsb; cld" : "+D"(t), "+S"(f), "+c"(bytes) : : "memory");
	return to;
}

void *memset(void *to, int byte, size_t bytes)
{
	void *t = to;

	asm volatile("rep stosb" : "+D"(t), "+c"(bytes) : "a"(byte) : "memory");
	return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
	const uint8_t *x = a, *y = b;

	for (size_t i = 0; i < bytes; i++) {
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	}
	return 0;
}

size_t strlen(const char *text)
{
	size_t n = 0;

	while (text[n] != '\0') {
		n++;
		asm volatile(""); /* or the compiler finds strlen here, and calls it */
	}
	return n;
}

int strcmp(const char *a, const char *b)
{
	while (*a != '\0' && *a == *b) {
		a++;
		b++;
	}
	return (int)(unsigned char)*a - (int)(unsigned char)*b;
}

bool text_number(const char *text, uint64_t *number)
{
	uint64_t value = 0;

	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++) {
		uint64_t digit = (uint64_t)*text - '0';

		if (digit > 9 || value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*number = value;
	return true;
}
