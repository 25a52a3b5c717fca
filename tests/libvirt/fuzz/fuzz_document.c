/*
 * libFuzzer: XML of libvirt's clients.
 */
#include "tests/libvirt/fuzz/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	decode_document(bytes, n);
	return 0;
}
