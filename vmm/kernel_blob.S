/* The guest kernel, built in: machine_create's kernel when the spec names none. */
	.section .rodata
	.balign 4096
	.globl kernel_elf
	.globl kernel_elf_end
kernel_elf:
	.incbin KERNEL_ELF
kernel_elf_end:
	.section .note.GNU-stack, "", @progbits
