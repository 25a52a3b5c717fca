/*
 * policy/base.cil as it was when this program was built: a benchmark must not
 * depend on where the program was installed.
 */
	.section .rodata
	.globl base_cil
base_cil:
	.incbin BASE_CIL
	.byte 0
	.section .note.GNU-stack, "", @progbits
