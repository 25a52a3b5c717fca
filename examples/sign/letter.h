/*
 * What the three domains of the example say to each other.
 *
 *	in (standard input) -> parser -> vault -> formatter -> out (standard output)
 *
 * Text in messages of any length; an empty message: that was all. The vault then sends one struct seal.
 */
#ifndef PORTCULLIS_EXAMPLES_LETTER_H
#define PORTCULLIS_EXAMPLES_LETTER_H

#include <portcullis.h>

struct seal {
	uint8_t public_key[32];
	uint8_t signature[64]; /* Ed25519ph (RFC 8032) over the text */
};

/* Logs what failed and ends the domain. */
static inline _Noreturn void give_up(const char *what, int64_t result)
{
	log_line("%s: %s", what, call_error(result));
	domain_exit(STATUS_FAILED);
}

static inline void *buffer_of(size_t bytes)
{
	void *buffer = heap_alloc(bytes);

	if (buffer == NULL) {
		log_line("the heap has no room for a message of %zu bytes", bytes);
		domain_exit(STATUS_FAILED);
	}
	return buffer;
}

#endif
