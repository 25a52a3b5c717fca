/*
 * What the host hands over at start: to each domain, to the kernel, per vCPU.
 *
 * Built by vmm/fill.c before the first instruction and never changed by the
 * host afterwards. The host never reads these structures back, except the one
 * word kernel_domain.state, which it shows to people and believes in nothing.
 */
#ifndef PORTCULLIS_ABI_BOOT_H
#define PORTCULLIS_ABI_BOOT_H

#include <stddef.h>
#include <stdint.h>

#include "guest/abi/call.h"
#include "guest/abi/limits.h"
#include "guest/abi/memory.h"

#define BOOT_MAGIC 0x0131534c4c554350ull /* "PCULLS1\1", little-endian */

/* At VA_BOOT in each domain: the entry point gets its address in rdi. */
struct boot_record {
	uint64_t magic;
	uint64_t tsc_khz;       /* guest TSC ticks per millisecond */
	uint64_t start_tsc;     /* TSC when ... */
	uint64_t start_unix_ns; /* ... the host's CLOCK_REALTIME was this */
	uint64_t heap_bytes;
	uint64_t data_bytes;  /* 0: no data file */
	uint64_t slot_stride; /* bytes; a power of two */
	uint64_t bulk_bytes;  /* of each slot */
	uint32_t first_slot;  /* this domain's slots: [first, first + n) */
	uint32_t n_slots;
	uint32_t domain; /* index in the guest */
	uint32_t vcpu;
	uint32_t n_arguments;
	uint32_t flags; /* BOOT_SHARED_VCPU ... */
	uint8_t random[32];
	uint64_t canary; /* random too; of code that was built with a stack protector: BOOT_FS_BASE */
	char name[MAX_NAME_BYTES];
	uint32_t argument[MAX_ARGUMENTS]; /* offsets into text */
	char text[MAX_ARGUMENT_BYTES];
};

/*
 * FS base while a domain runs: what compilers for x86-64 take for the canary, %fs:0x28, is the word of its
 * boot record. There is nothing else there, and no thread-local storage.
 */
#define BOOT_FS_BASE (VA_BOOT + offsetof(struct boot_record, canary) - 0x28)

#define BOOT_SHARED_VCPU 1u /* other domains run on this vCPU: spinning for them is in vain */

/* Lines of struct kernel_domain.state. */
enum domain_run_state {
	DOMAIN_RUNNABLE = 0,
	DOMAIN_BLOCKED = 1, /* in SYS_WAIT */
	DOMAIN_DEAD = 2,
};

/* Ring-3 registers of a domain that does not run, as the kernel's trap path stores them. */
struct trap_frame {
	uint64_t r15, r14, r13, r12, r11, r10, r9, r8;
	uint64_t rbp, rdi, rsi, rdx, rcx, rbx, rax;
	uint64_t vector, error;
	uint64_t rip, cs, rflags, rsp, ss;
};

/* At VA_KERNEL_DOMAIN + index * page: the kernel's state of one domain, begun by the host. */
struct kernel_domain {
	uint32_t state; /* enum domain_run_state; atomic; written by the owning vCPU */
	uint32_t vcpu;
	uint64_t cr3;
	uint64_t wake_seen;     /* SYS_WAIT's first argument while blocked */
	uint64_t wake_deadline; /* TSC; UINT64_MAX: none */
	uint64_t call_page;     /* kernel virtual address of the domain's call page */
	uint64_t record;        /* kernel virtual address of its domain_page */
	uint32_t first_slot;
	uint32_t n_slots;
	uint32_t next; /* next domain of the same vCPU, a ring */
	uint32_t index;
	struct trap_frame frame;
	uint8_t pad[16];
	uint8_t fpu[512] __attribute__((aligned(64))); /* fxsave image, initialised */
	uint8_t rest[ABI_PAGE_BYTES - 64 - 192 - 512];
};

/* At VA_KERNEL_CPU + vCPU * 2 pages: its state, then its hypercall page. */
struct kernel_cpu {
	uint64_t self;       /* its own address: gs:0 */
	uint64_t user_rsp;   /* scratch of the SYSCALL entry: gs:8 */
	uint64_t kernel_rsp; /* top of this vCPU's stack: gs:16 */
	uint64_t hypercall;  /* struct hypercall_page of this vCPU */
	uint32_t vcpu;
	uint32_t apic_id;
	uint32_t first_domain; /* of the ring of this vCPU's domains; NO_DOMAIN if it has none */
	uint32_t current;
	uint32_t n_domains;
	uint32_t armed;   /* the APIC timer runs */
	uint64_t gdt[16]; /* built by the host; TSS descriptor included */
	uint8_t tss[104];

	/* The kernel's own; the host leaves them zero. */
	uint64_t timer_at;      /* TSC at which the APIC timer fires; UINT64_MAX: not armed */
	uint64_t next_deadline; /* not later than the first wake_deadline; UINT64_MAX: none */
	uint64_t slice_start;   /* TSC at which the running domain got the vCPU */
	uint32_t n_runnable;
	uint32_t loaded; /* whose address space and FPU state the vCPU holds; NO_DOMAIN at first */
	uint8_t rest[ABI_PAGE_BYTES - 56 - 128 - 104 - 32];
};

#define KERNEL_CPU_STRIDE (2u * ABI_PAGE_BYTES)

/* At VA_KERNEL_BOOT. */
struct kernel_boot {
	uint64_t magic;
	uint64_t tsc_khz;
	uint32_t n_vcpus;
	uint32_t n_domains;
	uint32_t apic_tick_ns; /* nanoseconds of one APIC timer count at divide-by-1 */
	uint32_t slice_us;     /* preemption tick */
	uint64_t doorbells;    /* struct doorbell_page (record.h); read-only */
};

/*
 * What a vCPU finds at the kernel's ELF entry. The host has loaded everything
 * static; the kernel only programs its timer.
 *
 *	rdi	its struct kernel_cpu; every other general register is 0
 *	rsp	kernel_cpu.kernel_rsp, top of its stack (16-byte aligned)
 *	rflags	interrupts off
 *	cr3	the kernel-only address space: no page of ring 3 is mapped
 *	cr0	PE MP ET NE WP AM PG
 *	cr4	PAE OSFXSR OSXMMEXCPT, and SMEP SMAP UMIP where CPUID offers them
 *	efer	SCE LME LMA NXE
 *	gdt	kernel_cpu.gdt, limit 127, selectors as below
 *	tr	SELECTOR_TSS: kernel_cpu.tss, rsp0 = kernel_cpu.kernel_rsp, no I/O bitmap
 *	idt	VA_KERNEL_IDT, limit 4095, one page for all vCPUs: interrupt gates to the stubs at the
 *		kernel's ELF symbol `trap_stubs` (below), read-only; without it empty, read-write
 *	gs	MSR_GS_BASE and MSR_KERNEL_GS_BASE both hold kernel_cpu.self: swapgs at each
 *		crossing of the ring
 *	syscall	STAR for these selectors; LSTAR = the kernel's ELF symbol `syscall_entry`, else 0;
 *		FMASK = TF IF DF IOPL NT RF AC
 *	apic	x2APIC mode on, software-enabled with VECTOR_SPURIOUS, task priority 0
 *	x87	FCW 0x37f, MXCSR 0x1f80
 *
 * The stack pointer at a domain's entry (kernel_domain.frame) is VA_STACK_TOP, 16-byte aligned,
 * with nothing on the stack; rdi is VA_BOOT, every other general register 0.
 */

/*
 * Stubs of this size, one behind the other: vectors 0 to N_EXCEPTIONS - 1, VECTOR_TIMER, VECTOR_WAKE,
 * VECTOR_SPURIOUS, then VECTOR_DOORBELL to VECTOR_DOORBELL + MAX_GUESTS - 1. Gates of other vectors are
 * empty.
 */
#define TRAP_STUB_BYTES 16u
#define N_EXCEPTIONS 32u

/* Interrupt vectors. */
#define VECTOR_TIMER 0x40
#define VECTOR_WAKE 0x41     /* another vCPU, or the host: look at your event counts */
#define VECTOR_DOORBELL 0x80 /* + i below MAX_GUESTS: the guest with index i has rung. vCPU 0 only */
#define VECTOR_SPURIOUS 0xff

/* Segment selectors in kernel_cpu.gdt, in the order that SYSCALL wants. */
#define SELECTOR_KERNEL_CODE 0x08
#define SELECTOR_KERNEL_DATA 0x10
#define SELECTOR_USER_DATA 0x1b
#define SELECTOR_USER_CODE 0x23
#define SELECTOR_TSS 0x28

_Static_assert(VECTOR_DOORBELL + MAX_GUESTS <= VECTOR_SPURIOUS, "vectors of their own");
_Static_assert(sizeof(struct boot_record) <= ABI_PAGE_BYTES, "one page");
_Static_assert(sizeof(struct trap_frame) == 176, "22 words");
_Static_assert(sizeof(struct kernel_domain) == ABI_PAGE_BYTES, "one page");
_Static_assert(offsetof(struct kernel_domain, frame) == 64, "the kernel's assembly uses it");
_Static_assert(offsetof(struct kernel_domain, fpu) % 64 == 0, "fxsave wants 16");
_Static_assert(offsetof(struct kernel_cpu, tss) == 184, "the kernel's assembly uses tss.rsp0");
_Static_assert(sizeof(struct kernel_cpu) == ABI_PAGE_BYTES, "one page");

#endif
