/*
 * The ways in and out: start, SYSCALL, traps, resuming a domain, idling.
 *
 * A trap from ring 3 pushes straight into the frame of the domain that runs: the
 * TSS's rsp0 is the end of kernel_domain.frame (schedule.c sets it). SYSCALL
 * stores there too. Code that goes back to the same domain saves and loads the
 * registers that C may lose and no others; only a switch stores the rest.
 *
 * GS base is the kernel_cpu in ring 0 and the domain's own in ring 3. Interrupts are
 * off from entry to exit, so what is below the stack pointer is safe until idle.
 *
 * Sources: Intel SDM vol. 3A, 5.8.8 (SYSCALL), 6.14 (interrupts in 64-bit mode).
 */

#define CPU_USER_RSP 8
#define CPU_KERNEL_RSP 16
#define CPU_FRAME_END 188 /* tss.rsp0 */

/* Carry, parity, adjust, zero, sign, trap, direction, overflow, alignment check, ID. */
#define USER_FLAGS 0x240dd5

/* A trap_frame's words, counted from its end. */
#define F_RSP -16
#define F_RFLAGS -24
#define F_RIP -40
#define F_RAX -64
#define F_RBX -72
#define F_RCX -80
#define F_RDX -88
#define F_RSI -96
#define F_RDI -104
#define F_RBP -112
#define F_R8 -120
#define F_R9 -128
#define F_R10 -136
#define F_R11 -144
#define F_R12 -152
#define F_R13 -160
#define F_R14 -168
#define F_R15 -176

.macro SAVE_REST
	movq %gs:CPU_FRAME_END, %rsp
	movq %rbx, F_RBX(%rsp)
	movq %rbp, F_RBP(%rsp)
	movq %r12, F_R12(%rsp)
	movq %r13, F_R13(%rsp)
	movq %r14, F_R14(%rsp)
	movq %r15, F_R15(%rsp)
	movq %gs:CPU_KERNEL_RSP, %rsp
.endm

.section .text.entry, "ax"

/* rdi: struct kernel_cpu. The host has loaded everything else (vmm/boot.c). */
.globl kernel_entry
kernel_entry:
	xorl %ebp, %ebp
	call kernel_main
	ud2

/*
 * rcx holds the domain's rip, r11 its rflags. cs and ss in the frame never change: the
 * host set them, and a trap pushes the same. rcx and r11 are cleared on the way out, because what
 * C left in them can tell about other domains.
 */
.globl syscall_entry
syscall_entry:
	swapgs
	movq %rsp, %gs:CPU_USER_RSP
	movq %gs:CPU_FRAME_END, %rsp
	movq %rcx, F_RIP(%rsp)
	movq %gs:CPU_USER_RSP, %rcx
	movq %r11, F_RFLAGS(%rsp)
	movq %rcx, F_RSP(%rsp)
syscall_save:
	movq %rdi, F_RDI(%rsp)
	movq %rsi, F_RSI(%rsp)
	movq %rdx, F_RDX(%rsp)
	movq %r8, F_R8(%rsp)
	movq %r9, F_R9(%rsp)
	movq %r10, F_R10(%rsp)
	movq %rax, %rcx
	movq %gs:CPU_KERNEL_RSP, %rsp
	call syscall_dispatch
	cmpq $-4096, %rax /* SWITCH_AWAY */
	je 1f
	movq %gs:CPU_FRAME_END, %rsp
	movq F_RDI(%rsp), %rdi
	movq F_RSI(%rsp), %rsi
	movq F_RDX(%rsp), %rdx
	movq F_R8(%rsp), %r8
	movq F_R9(%rsp), %r9
	movq F_R10(%rsp), %r10
	xorl %ecx, %ecx
	xorl %r11d, %r11d
	addq $F_RIP, %rsp
	swapgs
	iretq
1:	SAVE_REST
	movq %gs:CPU_FRAME_END, %rax
	movq $0, F_RCX(%rax)
	movq $0, F_R11(%rax)
	call schedule
	ud2

/*
 * One stub of 16 bytes per vector: 0..31, then VECTOR_TIMER, VECTOR_WAKE,
 * VECTOR_SPURIOUS, the doorbells from VECTOR_DOORBELL on: the host makes the IDT of them and counts on this order
 * (guest/abi/boot.h). Each leaves vector, error and what the processor pushed.
 */
.macro STUB vector, has_error=0
	.balign 16
	.if !\has_error
	pushq $0
	.endif
	pushq $\vector
	jmp trap_common
.endm

	.balign 16
.globl trap_stubs
trap_stubs:
	STUB 0
	STUB 1
	STUB 2
	STUB 3
	STUB 4
	STUB 5
	STUB 6
	STUB 7
	STUB 8, 1
	STUB 9
	STUB 10, 1
	STUB 11, 1
	STUB 12, 1
	STUB 13, 1
	.balign 16
	jmp page_fault
	STUB 15
	STUB 16
	STUB 17, 1
	STUB 18
	STUB 19
	STUB 20
	STUB 21, 1
	STUB 22
	STUB 23
	STUB 24
	STUB 25
	STUB 26
	STUB 27
	STUB 28
	STUB 29, 1
	STUB 30, 1
	STUB 31
	STUB 0x40
	STUB 0x41
	STUB 0xff
	.set doorbell, 0x80
	.rept 64 /* MAX_GUESTS */
	STUB doorbell
	.set doorbell, doorbell + 1
	.endr

	.org trap_stubs + 99 * 16 /* fails to assemble if a stub took more than its 16 bytes */
trap_common:
	testb $3, 24(%rsp) /* cs */
	jz trap_in_kernel
	swapgs
	addq $56, %rsp /* to the frame's end: error and vector stay where they are */
	movq %rdi, F_RDI(%rsp)
	movq -56(%rsp), %rdi /* vector */
	movq %rax, F_RAX(%rsp)
	cmpq $32, %rdi
	jb 2f
	movq %rcx, F_RCX(%rsp)
	movq %rdx, F_RDX(%rsp)
	movq %rsi, F_RSI(%rsp)
	movq %r8, F_R8(%rsp)
	movq %r9, F_R9(%rsp)
	movq %r10, F_R10(%rsp)
	movq %r11, F_R11(%rsp)
	movq %gs:CPU_KERNEL_RSP, %rsp
	call schedule_interrupt
	testb %al, %al
	jnz 1f
	movq %gs:CPU_FRAME_END, %rsp
	movq F_RAX(%rsp), %rax
	movq F_RCX(%rsp), %rcx
	movq F_RDX(%rsp), %rdx
	movq F_RSI(%rsp), %rsi
	movq F_RDI(%rsp), %rdi
	movq F_R8(%rsp), %r8
	movq F_R9(%rsp), %r9
	movq F_R10(%rsp), %r10
	movq F_R11(%rsp), %r11
	addq $F_RIP, %rsp
	swapgs
	iretq
1:	SAVE_REST
	call schedule
	ud2
2:	movq %gs:CPU_KERNEL_RSP, %rsp
	call domain_fault /* it never runs again: nothing to save */
	ud2

page_fault:
	cmpq $syscall_entry, 8(%rsp)
	je syscall_faulted
	pushq $14
	jmp trap_common

/*
 * Some hosts' SYSCALL goes to syscall_entry without leaving ring 3, which faults there, and
 * the fault does change the ring: the rest is as after a real one. But a domain that jumps here
 * gets here too, so rcx and r11 are checked: an address that IRETQ can take, flags
 * that ring 3 may have.
 */
syscall_faulted:
	swapgs
	addq $48, %rsp
	movq %rcx, F_RIP(%rsp)
	shrq $47, %rcx
	jnz 1f
	andl $USER_FLAGS, %r11d
	orl $0x202, %r11d
	movq %r11, F_RFLAGS(%rsp)
	jmp syscall_save
1:	movq $14, -56(%rsp)
	jmp 2b

/* An interrupt in idle starts the kernel afresh; anything else in ring 0 is our bug. */
trap_in_kernel:
	movq %rsp, %rdi
	cmpq $32, (%rsp)
	jb 1f
	movq (%rsp), %rdi
	movq %gs:CPU_KERNEL_RSP, %rsp
	call schedule_idle_interrupt
	ud2
1:	call kernel_panic
	ud2

/* rdi: a trap_frame. */
.globl domain_resume
domain_resume:
	movq %rdi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %r11
	popq %r10
	popq %r9
	popq %r8
	popq %rbp
	popq %rdi
	popq %rsi
	popq %rdx
	popq %rcx
	popq %rbx
	popq %rax
	addq $16, %rsp
	swapgs
	iretq

/* Interrupts are taken between STI and HLT never, at HLT always: no wake-up falls between. */
.globl idle
idle:
	movq %gs:CPU_KERNEL_RSP, %rsp
1:	sti
	hlt
	jmp 1b

.section .note.GNU-stack, "", @progbits
