/* Images that are refused, and what the message teaches; symbols; nonsense. No VM. */
#include <criterion/criterion.h>

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/memory.h"
#include "vmm/elf.h"

/* An image under construction: two segments, a symbol table. */
struct draft {
	Elf64_Ehdr header;
	Elf64_Phdr segment[3];
	uint8_t code[64], data[64];
	Elf64_Sym symbol[4];
	char names[64];
	Elf64_Shdr section[3];
	uint8_t padding[256];
};

static struct draft draft_make(void)
{
	struct draft draft = {
		.header =
			{
				.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
	                                    EV_CURRENT},
				.e_type = ET_EXEC,
				.e_machine = EM_X86_64,
				.e_entry = VA_IMAGE + 16,
				.e_phoff = offsetof(struct draft, segment),
				.e_phentsize = sizeof(Elf64_Phdr),
				.e_phnum = 2,
				.e_shoff = offsetof(struct draft, section),
				.e_shentsize = sizeof(Elf64_Shdr),
				.e_shnum = 3,
			},
		.segment =
			{
				{.p_type = PT_LOAD,
	                         .p_flags = PF_R | PF_X,
	                         .p_offset = offsetof(struct draft, code),
	                         .p_vaddr = VA_IMAGE,
	                         .p_filesz = 64,
	                         .p_memsz = 64},
				{.p_type = PT_LOAD,
	                         .p_flags = PF_R | PF_W,
	                         .p_offset = offsetof(struct draft, data),
	                         .p_vaddr = VA_IMAGE + 0x1040,
	                         .p_filesz = 64,
	                         .p_memsz = 5000},
			},
		.symbol =
			{
				{.st_name = 1,
	                         .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
	                         .st_shndx = 1,
	                         .st_value = VA_IMAGE + 32},
				{.st_name = 6,
	                         .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
	                         .st_shndx = 1,
	                         .st_value = VA_IMAGE + 16},
				{.st_name = 60,
	                         .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
	                         .st_shndx = 1,
	                         .st_value = VA_IMAGE + 40},
				{.st_name = 4000,
	                         .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
	                         .st_shndx = 1,
	                         .st_value = VA_IMAGE + 41},
			},
		.names = "\0main\0_start",
		.section =
			{
				{.sh_type = SHT_NULL},
				{.sh_type = SHT_SYMTAB,
	                         .sh_link = 2,
	                         .sh_offset = offsetof(struct draft, symbol),
	                         .sh_size = 4 * sizeof(Elf64_Sym)},
				{.sh_type = SHT_STRTAB,
	                         .sh_offset = offsetof(struct draft, names),
	                         .sh_size = 64},
			},
	};

	/* A name that runs to the end of the table without a NUL. */
	memset(draft.names + 60, 'x', 4);
	return draft;
}

static int decode(const void *image, size_t bytes, struct elf *elf, char *why)
{
	return elf_decode(image, bytes, VA_IMAGE, VA_IMAGE_END, elf, why);
}

static void assert_refused(const struct draft *draft, const char *part)
{
	struct elf elf;
	char why[WHY_BYTES] = "";
	int error = decode(draft, sizeof(*draft), &elf, why);

	cr_expect_eq(error, -EINVAL, "accepted although: %s", part);
	cr_expect_not_null(strstr(why, part), "it says '%s', not '%s'", why, part);
}

Test(elf, a_good_image_is_decoded)
{
	struct draft draft = draft_make();
	struct elf elf;
	char why[WHY_BYTES];
	uint64_t offset;

	cr_assert_eq(decode(&draft, sizeof(draft), &elf, why), 0, "%s", why);
	cr_expect_eq(elf.n_segments, 2);
	cr_expect_eq(elf.segment[0].va, VA_IMAGE);
	cr_expect(elf.segment[0].execute && !elf.segment[0].write);
	cr_expect_eq(elf.segment[1].va, VA_IMAGE + 0x1000);
	cr_expect_eq(elf.segment[1].lead, 0x40);
	cr_expect_eq(elf.segment[1].bytes, 0x2000);
	cr_expect(elf.segment[1].write && !elf.segment[1].execute);
	cr_expect_eq(elf_extent(&elf), 0x3000);
	/* The two broken names are left out. */
	cr_expect_eq(elf.symbols.n_symbols, 2);
	cr_expect_str_eq(elf_symbol_at(&elf, VA_IMAGE + 20, &offset), "_start");
	cr_expect_eq(offset, 4);
	cr_expect_str_eq(elf_symbol_at(&elf, VA_IMAGE + 0x2000, &offset), "main");
	cr_expect_null(elf_symbol_at(&elf, VA_IMAGE + 15, &offset));
	cr_expect_null(elf_symbol_at(&elf, VA_IMAGE + 0x3000, &offset));
	cr_expect_null(elf_symbol_at(&elf, 0, &offset));
	cr_expect_eq(elf_symbol_find(&elf, "main"), VA_IMAGE + 32);
	cr_expect_eq(elf_symbol_find(&elf, "nobody"), 0);
	elf_release(&elf);
}

Test(elf, headers_that_are_refused)
{
	struct draft draft = draft_make();

	draft.header.e_ident[0] = 0;
	assert_refused(&draft, "not an ELF image");
	draft = draft_make();
	draft.header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_refused(&draft, "not an ELF image for x86-64");
	draft = draft_make();
	draft.header.e_machine = EM_AARCH64;
	assert_refused(&draft, "not an ELF image for x86-64");
	draft = draft_make();
	draft.header.e_type = ET_DYN;
	assert_refused(&draft, "link with -static -no-pie");
	draft = draft_make();
	draft.header.e_type = ET_REL;
	assert_refused(&draft, "not an executable");
	draft = draft_make();
	draft.header.e_phnum = 0;
	assert_refused(&draft, "no program headers");
	draft = draft_make();
	draft.header.e_phoff = UINT64_MAX - 8;
	assert_refused(&draft, "truncated");
	draft = draft_make();
	draft.header.e_phnum = 0xffff;
	assert_refused(&draft, "truncated");
	draft = draft_make();
	draft.header.e_phnum = 3;
	draft.segment[2].p_type = PT_INTERP;
	assert_refused(&draft, "dynamically linked");
	draft.segment[2].p_type = PT_DYNAMIC;
	assert_refused(&draft, "dynamically linked");
	draft.segment[2] = (Elf64_Phdr){.p_type = PT_TLS, .p_memsz = 8};
	assert_refused(&draft, "thread-local");
	draft = draft_make();
	draft.header.e_entry = VA_IMAGE + 0x1040;
	assert_refused(&draft, "is in no executable segment");
}

Test(elf, segments_that_are_refused)
{
	struct draft draft = draft_make();

	draft.segment[1].p_flags = PF_R | PF_W | PF_X;
	assert_refused(&draft, "writable and executable");
	draft = draft_make();
	draft.segment[1].p_filesz = 1 << 20;
	draft.segment[1].p_memsz = 1 << 20;
	assert_refused(&draft, "behind the end of the file");
	draft = draft_make();
	draft.segment[1].p_offset = UINT64_MAX - 4;
	assert_refused(&draft, "behind the end of the file");
	draft = draft_make();
	draft.segment[1].p_memsz = 8;
	assert_refused(&draft, "more bytes in the file than in memory");
	draft = draft_make();
	draft.segment[1].p_vaddr = VA_IMAGE - 0x1000;
	assert_refused(&draft, "is outside");
	draft.segment[1].p_vaddr = VA_IMAGE_END - 4096;
	assert_refused(&draft, "is outside");
	draft.segment[1].p_vaddr = VA_KERNEL;
	assert_refused(&draft, "is outside");
	draft.segment[1].p_vaddr = UINT64_MAX - 100;
	assert_refused(&draft, "is outside");
	draft = draft_make();
	draft.segment[1].p_memsz = UINT64_MAX;
	assert_refused(&draft, "is outside");
	draft.segment[1].p_memsz = (uint64_t)MAX_IMAGE_BYTES + 1;
	assert_refused(&draft, "at most");
	draft = draft_make();
	draft.segment[1].p_vaddr = VA_IMAGE + 0x20000000;
	assert_refused(&draft, "span");
	draft = draft_make();
	draft.segment[1].p_vaddr = VA_IMAGE + 0xf00;
	assert_refused(&draft, "share a page");
	draft.segment[1].p_vaddr = VA_IMAGE;
	assert_refused(&draft, "share a page");
	draft = draft_make();
	draft.segment[0].p_type = draft.segment[1].p_type = PT_NULL;
	assert_refused(&draft, "nothing to load");
}

Test(elf, oversized_and_truncated_files)
{
	struct draft draft = draft_make();
	struct elf elf;
	char why[WHY_BYTES];

	cr_expect_eq(decode(&draft, (size_t)MAX_IMAGE_BYTES + 1, &elf, why), -EINVAL);
	/* From an exact-size copy, so that the address sanitizer sees one byte too many. */
	for (size_t bytes = 0; bytes < offsetof(struct draft, symbol); bytes++) {
		void *copy = malloc(bytes + 1);

		memcpy(copy, &draft, bytes);
		cr_expect_eq(decode(copy, bytes, &elf, why), -EINVAL, "%zu bytes were enough", bytes);
		free(copy);
	}
}

/* H11: whatever bytes are changed, it is decoded within bounds or refused. */
Test(elf, nonsense_is_survived)
{
	unsigned seed = 1;

	for (int round = 0; round < 100000; round++) {
		struct draft *draft = malloc(sizeof(*draft));
		struct elf elf;
		char why[WHY_BYTES];

		*draft = draft_make();
		for (int i = rand_r(&seed) % 8; i >= 0; i--) {
			size_t at = (size_t)rand_r(&seed) % sizeof(*draft);
			uint8_t byte = rand_r(&seed) % 3 == 0 ? 0xff : (uint8_t)rand_r(&seed);

			((uint8_t *)draft)[at] = byte;
		}
		if (decode(draft, sizeof(*draft), &elf, why) == 0) {
			uint64_t offset;

			for (uint32_t i = 0; i < elf.n_segments; i++) {
				cr_assert(!(elf.segment[i].write && elf.segment[i].execute));
				cr_assert(elf.segment[i].va >= VA_IMAGE);
				cr_assert(elf.segment[i].file_offset + elf.segment[i].file_bytes <=
				          sizeof(*draft));
				cr_assert(elf.segment[i].lead + elf.segment[i].file_bytes <=
				          elf.segment[i].bytes);
			}
			(void)elf_symbol_at(&elf, elf.entry, &offset);
			elf_release(&elf);
		}
		free(draft);
	}
}
