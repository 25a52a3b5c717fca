#include "vmm/elf.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MASK ((uint64_t)ABI_PAGE_BYTES - 1)

struct image {
	const uint8_t *bytes;
	size_t n_bytes;
	uint64_t low, high;
	char *why;
};

#define refuse(image, ...) (snprintf((image)->why, WHY_BYTES, __VA_ARGS__), -EINVAL)

/* offset + bytes <= size, without the overflow. */
static bool fits(uint64_t offset, uint64_t bytes, uint64_t size)
{
	return offset <= size && bytes <= size - offset;
}

static int header_check(const struct image *image, Elf64_Ehdr *header)
{
	if (image->n_bytes < sizeof(*header))
		return refuse(image, "not an ELF image: %zu bytes are less than a header", image->n_bytes);
	if (image->n_bytes > MAX_IMAGE_BYTES)
		return refuse(image, "%zu bytes are too many: an image has at most %u", image->n_bytes,
		              MAX_IMAGE_BYTES);
	memcpy(header, image->bytes, sizeof(*header));
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return refuse(image, "not an ELF image");
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64)
		return refuse(image, "not an ELF image for x86-64");
	if (header->e_type == ET_DYN)
		return refuse(image, "position-independent or dynamic: link with -static -no-pie");
	if (header->e_type != ET_EXEC)
		return refuse(image, "not an executable (ELF type %u): link it", header->e_type);
	if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum == 0)
		return refuse(image, "no program headers: link it as an executable");
	if (!fits(header->e_phoff, (uint64_t)header->e_phnum * sizeof(Elf64_Phdr), image->n_bytes))
		return refuse(image, "truncated: the program headers lie behind the end of the file");
	return 0;
}

static int segment_check(const struct image *image, const Elf64_Phdr *raw, struct elf_segment *segment)
{
	if (!fits(raw->p_offset, raw->p_filesz, image->n_bytes))
		return refuse(image,
		              "truncated: the segment at 0x%" PRIx64 " lies behind the end of the file",
		              raw->p_vaddr);
	if (raw->p_filesz > raw->p_memsz)
		return refuse(image, "the segment at 0x%" PRIx64 " has more bytes in the file than in memory",
		              raw->p_vaddr);
	if (raw->p_vaddr < image->low ||
	    !fits(raw->p_vaddr - image->low, raw->p_memsz, image->high - image->low))
		return refuse(image,
		              "the segment at 0x%" PRIx64 " (%" PRIu64 " bytes) is outside 0x%" PRIx64
		              "-0x%" PRIx64 ": link with the linker script that comes with Portcullis",
		              raw->p_vaddr, raw->p_memsz, image->low, image->high);
	if (raw->p_memsz > MAX_IMAGE_BYTES)
		return refuse(image,
		              "the segment at 0x%" PRIx64 " has %" PRIu64 " bytes in memory: at most %u",
		              raw->p_vaddr, raw->p_memsz, MAX_IMAGE_BYTES);
	if ((raw->p_flags & (PF_W | PF_X)) == (PF_W | PF_X))
		return refuse(image,
		              "the segment at 0x%" PRIx64
		              " is writable and executable: link code and data apart (-z separate-code)",
		              raw->p_vaddr);

	segment->lead = raw->p_vaddr & PAGE_MASK;
	segment->va = raw->p_vaddr - segment->lead;
	segment->bytes = (segment->lead + raw->p_memsz + PAGE_MASK) & ~PAGE_MASK;
	segment->file_offset = raw->p_offset;
	segment->file_bytes = raw->p_filesz;
	segment->write = (raw->p_flags & PF_W) != 0;
	segment->execute = (raw->p_flags & PF_X) != 0;
	return 0;
}

static int segment_add(const struct image *image, const Elf64_Phdr *raw, struct elf *elf)
{
	struct elf_segment segment;
	uint32_t at = elf->n_segments;

	if (raw->p_memsz == 0)
		return 0;
	if (elf->n_segments == ELF_MAX_SEGMENTS)
		return refuse(image, "more than %u loadable segments", ELF_MAX_SEGMENTS);
	int error = segment_check(image, raw, &segment);
	if (error != 0)
		return error;
	for (; at > 0 && elf->segment[at - 1].va > segment.va; at--)
		elf->segment[at] = elf->segment[at - 1];
	elf->segment[at] = segment;
	elf->n_segments++;
	return 0;
}

static int program_headers_read(const struct image *image, const Elf64_Ehdr *header, struct elf *elf)
{
	for (uint32_t i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr raw;

		memcpy(&raw, image->bytes + header->e_phoff + i * sizeof(raw), sizeof(raw));
		if (raw.p_type == PT_INTERP || raw.p_type == PT_DYNAMIC)
			return refuse(image, "dynamically linked: link with -static -no-pie");
		if (raw.p_type == PT_TLS && raw.p_memsz != 0)
			return refuse(image, "uses thread-local variables, which domains do not have");
		if (raw.p_type != PT_LOAD)
			continue;
		int error = segment_add(image, &raw, elf);
		if (error != 0)
			return error;
	}
	return 0;
}

static int segments_check(const struct image *image, const struct elf *elf)
{
	if (elf->n_segments == 0)
		return refuse(image, "nothing to load: no PT_LOAD segment");
	for (uint32_t i = 1; i < elf->n_segments; i++) {
		const struct elf_segment *below = &elf->segment[i - 1];

		if (below->va + below->bytes > elf->segment[i].va)
			return refuse(image,
			              "the segments at 0x%" PRIx64 " and 0x%" PRIx64
			              " share a page: link with -z max-page-size=4096 -z separate-code",
			              below->va, elf->segment[i].va);
	}
	if (elf_extent(elf) > MAX_IMAGE_BYTES)
		return refuse(image, "the segments span %" PRIu64 " bytes: at most %u", elf_extent(elf),
		              MAX_IMAGE_BYTES);
	for (uint32_t i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *segment = &elf->segment[i];

		if (segment->execute && elf->entry - segment->va < segment->bytes)
			return 0;
	}
	return refuse(image, "the entry point 0x%" PRIx64 " is in no executable segment", elf->entry);
}

static int by_address(const void *left, const void *right)
{
	const struct elf_symbol *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

static bool symbol_wanted(const Elf64_Sym *raw, const struct elf *elf)
{
	unsigned type = ELF64_ST_TYPE(raw->st_info);
	uint64_t first = elf->segment[0].va;

	return (type == STT_FUNC || type == STT_NOTYPE || type == STT_OBJECT) && raw->st_shndx != SHN_UNDEF &&
	       raw->st_shndx != SHN_ABS && raw->st_value - first < elf_extent(elf);
}

/* Copies a name if all of it is within the string table; false: leave the symbol out. */
static bool name_copy(struct elf_symbols *symbols, uint32_t *used, const char *strings, uint64_t n_strings,
                      uint64_t name, uint32_t *copied)
{
	if (name >= n_strings || strings[name] == '\0')
		return false;
	size_t length = strnlen(strings + name, n_strings - name);
	if (length == n_strings - name || length >= ELF_MAX_SYMBOL_BYTES - *used)
		return false;
	memcpy(symbols->names + *used, strings + name, length + 1);
	*copied = *used;
	*used += (uint32_t)length + 1;
	return true;
}

static int symbols_copy(const struct image *image, const Elf64_Shdr *table, const Elf64_Shdr *names,
                        struct elf *elf)
{
	struct elf_symbols *symbols = &elf->symbols;
	uint64_t n_raw = table->sh_size / sizeof(Elf64_Sym);
	uint64_t n_names = names->sh_size < ELF_MAX_SYMBOL_BYTES ? names->sh_size : ELF_MAX_SYMBOL_BYTES;
	uint32_t used = 0;

	if (n_raw > ELF_MAX_SYMBOLS)
		n_raw = ELF_MAX_SYMBOLS;
	/* Names that share a tail in the file are copied once each, so the pool may be the larger. */
	symbols->symbol = malloc((n_raw + 1) * sizeof(*symbols->symbol));
	symbols->names = malloc(ELF_MAX_SYMBOL_BYTES);
	if (symbols->symbol == NULL || symbols->names == NULL) {
		snprintf(image->why, WHY_BYTES, "no memory for its symbols");
		return -ENOMEM;
	}
	for (uint64_t i = 0; i < n_raw; i++) {
		struct elf_symbol *symbol = &symbols->symbol[symbols->n_symbols];
		Elf64_Sym raw;

		memcpy(&raw, image->bytes + table->sh_offset + i * sizeof(raw), sizeof(raw));
		symbol->address = raw.st_value;
		if (symbol_wanted(&raw, elf) &&
		    name_copy(symbols, &used, (const char *)image->bytes + names->sh_offset, n_names,
		              raw.st_name, &symbol->name))
			symbols->n_symbols++;
	}
	qsort(symbols->symbol, symbols->n_symbols, sizeof(*symbols->symbol), by_address);
	char *shrunk = realloc(symbols->names, used + 1);
	if (shrunk != NULL)
		symbols->names = shrunk;
	return 0;
}

/* Symbols only serve messages: an image without them, or with broken ones, is as good. */
static int symbols_read(const struct image *image, const Elf64_Ehdr *header, struct elf *elf)
{
	if (header->e_shentsize != sizeof(Elf64_Shdr) ||
	    !fits(header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr), image->n_bytes))
		return 0;
	for (uint32_t i = 0; i < header->e_shnum; i++) {
		Elf64_Shdr table, names;

		memcpy(&table, image->bytes + header->e_shoff + i * sizeof(table), sizeof(table));
		if (table.sh_type != SHT_SYMTAB)
			continue;
		if (table.sh_link >= header->e_shnum || !fits(table.sh_offset, table.sh_size, image->n_bytes))
			return 0;
		memcpy(&names, image->bytes + header->e_shoff + table.sh_link * sizeof(names), sizeof(names));
		if (names.sh_type != SHT_STRTAB || !fits(names.sh_offset, names.sh_size, image->n_bytes))
			return 0;
		return symbols_copy(image, &table, &names, elf);
	}
	return 0;
}

int elf_decode(const void *image, size_t image_bytes, uint64_t low, uint64_t high, struct elf *elf,
               char why[static WHY_BYTES])
{
	const struct image parts = {image, image_bytes, low, high, why};
	Elf64_Ehdr header;

	memset(elf, 0, sizeof(*elf));
	int error = header_check(&parts, &header);
	if (error == 0) {
		elf->entry = header.e_entry;
		error = program_headers_read(&parts, &header, elf);
	}
	if (error == 0)
		error = segments_check(&parts, elf);
	if (error == 0)
		error = symbols_read(&parts, &header, elf);
	if (error != 0)
		elf_release(elf);
	return error;
}

void elf_release(struct elf *elf)
{
	free(elf->symbols.symbol);
	free(elf->symbols.names);
	memset(&elf->symbols, 0, sizeof(elf->symbols));
}

uint64_t elf_extent(const struct elf *elf)
{
	const struct elf_segment *last = &elf->segment[elf->n_segments - 1];

	return last->va + last->bytes - elf->segment[0].va;
}

const char *elf_symbol_at(const struct elf *elf, uint64_t address, uint64_t *offset)
{
	const struct elf_symbols *symbols = &elf->symbols;
	uint32_t low = 0, high = symbols->n_symbols;

	if (elf->n_segments == 0 || address - elf->segment[0].va >= elf_extent(elf))
		return NULL;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (symbols->symbol[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	*offset = address - symbols->symbol[low - 1].address;
	return symbols->names + symbols->symbol[low - 1].name;
}

uint64_t elf_symbol_find(const struct elf *elf, const char *name)
{
	for (uint32_t i = 0; i < elf->symbols.n_symbols; i++)
		if (strcmp(elf->symbols.names + elf->symbols.symbol[i].name, name) == 0)
			return elf->symbols.symbol[i].address;
	return 0;
}
