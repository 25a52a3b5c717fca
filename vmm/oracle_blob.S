/* The reader of the cut oracle, built in: doctor needs no file. */
	.section .rodata
	.balign 4096
	.globl oracle_elf
	.globl oracle_elf_bytes
oracle_elf:
	.incbin ORACLE_ELF
oracle_elf_end:
	.balign 8
oracle_elf_bytes:
	.quad oracle_elf_end - oracle_elf
	.section .note.GNU-stack, "", @progbits
