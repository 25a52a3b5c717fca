/*
 * policy/base.cil as it was when this program was built: a benchmark must not
 * depend on where the program was installed.
 */
	.section .rodata
	.globl base_cil, base_cil_end
base_cil:
	.incbin BASE_CIL
base_cil_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
