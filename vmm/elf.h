/*
 * Decodes a static ELF64 image: segments, entry, symbols. Needs no VM.
 *
 * The image is untrusted: every offset and size in it is compared with the
 * image's own length before it is used, and what was checked stands in struct
 * elf, which never refers to the headers again. Any thread; no state.
 *
 * Source: System V ABI, "Object Files" and its x86-64 supplement.
 */
#ifndef PORTCULLIS_VMM_ELF_H
#define PORTCULLIS_VMM_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/abi/limits.h"

#define ELF_MAX_SEGMENTS 16u
#define ELF_MAX_SYMBOLS 32768u
#define ELF_MAX_SYMBOL_BYTES (1u << 20) /* names of all symbols of an image, with their NULs */

/* A PT_LOAD, page by page; segments of one image never share a page. */
struct elf_segment {
	uint64_t va;    /* page-aligned */
	uint64_t bytes; /* whole pages */
	uint64_t lead;  /* zero bytes before the first byte from the file, < a page */
	uint64_t file_offset;
	uint64_t file_bytes; /* lead + file_bytes <= bytes: the rest is zero */
	bool write, execute;
};

struct elf_symbol {
	uint64_t address;
	uint32_t name; /* offset into names */
};

struct elf_symbols {
	struct elf_symbol *symbol; /* ascending address */
	char *names;
	uint32_t n_symbols;
};

struct elf {
	uint64_t entry;
	uint32_t n_segments;
	struct elf_segment segment[ELF_MAX_SEGMENTS]; /* ascending va */
	struct elf_symbols symbols;
};

/*
 * Fills *elf. Every segment lies in [low, high), none is writable and
 * executable, the entry is in an executable one. -EINVAL and a line that says
 * what is wrong and how to link instead; -ENOMEM. On success the caller calls elf_release.
 */
int elf_decode(const void *image, size_t image_bytes, uint64_t low, uint64_t high, struct elf *elf,
               char why[static WHY_BYTES]);

/* Frees what elf_decode allocated; a zeroed struct is allowed. */
void elf_release(struct elf *elf);

/* Bytes from the start of the first segment's page to the end of the last. */
uint64_t elf_extent(const struct elf *elf);

/* The nearest symbol at or below address, within the image; NULL if none. *offset: bytes behind it. */
const char *elf_symbol_at(const struct elf *elf, uint64_t address, uint64_t *offset);

/* Address of the symbol of that name; 0 if there is none. */
uint64_t elf_symbol_find(const struct elf *elf, const char *name);

#endif
