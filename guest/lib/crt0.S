/* Entry of a domain: rdi is its boot record, rsp the top of its stack. */
.section .text.start, "ax"
.globl _start
_start:
	xorl %ebp, %ebp
	andq $-16, %rsp
	call domain_start
	ud2

.section .note.GNU-stack, "", @progbits
