/* The guest kernel, built in: machine_create's kernel when the spec names none. */
	.section .rodata
	.balign 4096
	.globl kernel_elf
	.globl kernel_elf_bytes
kernel_elf:
	.incbin KERNEL_ELF
kernel_elf_end:
	.balign 8
kernel_elf_bytes:
	.quad kernel_elf_end - kernel_elf
	.section .note.GNU-stack, "", @progbits
