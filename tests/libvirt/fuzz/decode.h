/*
 * The decoders as fuzzers and tests call them.
 */
#ifndef PORTCULLIS_TESTS_LIBVIRT_FUZZ_DECODE_H
#define PORTCULLIS_TESTS_LIBVIRT_FUZZ_DECODE_H

#include <stddef.h>
#include <stdint.h>

enum decode_outcome {
	DECODE_GOOD,
	DECODE_MALFORMED, /* no frame, or arguments that are not in their form */
	DECODE_UNKNOWN,   /* a frame, but of no procedure that is served */
};

/* A frame with its header, as client.c and call.c take it apart. */
int decode_message(const uint8_t *bytes, size_t n);

/* A document: its last byte says of which kind. */
int decode_document(const uint8_t *bytes, size_t n);

#endif
