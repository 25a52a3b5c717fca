/*
 * Where things stand in a guest's memory. Compiled by host, kernel and domains.
 *
 * Physical: RAM from 0 (images, page tables, stacks: all laid out by
 * vmm/layout.c), and three windows, each one memslot that never changes
 * (design: 4, "Windows and slots"):
 *
 *	outbox	read-write	what this guest's domains send
 *	inbox	read-only	what others sent; tombstones where nothing is open
 *	record	read-only	what the host says of each slot
 *
 * Slot i stands at i * stride in the first two. Virtual: every domain has its
 * own address space; the windows stand at fixed addresses and a domain sees its
 * own range of slots only. The kernel half (supervisor pages) is the same in all.
 */
#ifndef PORTCULLIS_ABI_MEMORY_H
#define PORTCULLIS_ABI_MEMORY_H

/* Guest-physical; 36 bits suffice. */
#define GPA_RAM 0x0ull
#define GPA_KERNEL 0x100000ull  /* the kernel's ELF image: physical = virtual - VA_KERNEL + this */
#define GPA_DATA 0x100000000ull /* data files, each a read-only memslot; up to the outbox window */
#define GPA_OUTBOX 0x400000000ull
#define GPA_INBOX 0x800000000ull
#define GPA_RECORD 0xc00000000ull
#define WINDOW_MAX_BYTES 0x400000000ull

/* Virtual, in a domain (ring 3). */
#define VA_IMAGE 0x400000ull           /* the ELF's own addresses; from here ... */
#define VA_IMAGE_END 0x40000000ull     /* ... to here */
#define VA_BOOT 0x100000000000ull      /* struct boot_record, then arguments; read-only */
#define VA_CALL 0x110000000000ull      /* struct call_page; read-write */
#define VA_HEAP 0x200000000000ull      /* read-write, never executable */
#define VA_DATA 0x300000000000ull      /* the data file, read-only */
#define VA_OUTBOX 0x400000000000ull    /* + slot * stride */
#define VA_INBOX 0x500000000000ull     /* + slot * stride; read-only */
#define VA_RECORD 0x600000000000ull    /* this domain's page, then its slots' records; read-only */
#define VA_STACK_TOP 0x7ff000000000ull /* grows down; unmapped pages on both sides */

/* Virtual, supervisor only. */
#define VA_KERNEL 0xffffffff80000000ull        /* the kernel's ELF addresses */
#define VA_KERNEL_BOOT 0xffffffff90000000ull   /* struct kernel_boot; read-only */
#define VA_KERNEL_CPU 0xffffffffa0000000ull    /* struct kernel_cpu and a hypercall page per vCPU */
#define VA_KERNEL_STACK 0xffffffffb0000000ull  /* stacks of KERNEL_STACK_STRIDE, a guard page below each */
#define VA_KERNEL_RECORD 0xffffffffc0000000ull /* the whole record window; read-only */
#define VA_KERNEL_CALL 0xffffffffe0000000ull   /* call pages once more, one per domain; read-write */
#define VA_KERNEL_IDT 0xffffffffe8000000ull    /* one page: boot.h */
#define VA_KERNEL_DOMAIN 0xfffffffff0000000ull /* struct kernel_domain, one page per domain */

#define KERNEL_STACK_BYTES 8192u
#define KERNEL_STACK_STRIDE 16384u /* vCPU i: [i * stride + stride - bytes, i * stride + stride) */

/* Offsets of a slot in the outbox and inbox windows. */
#define SLOT_HEADER_OFFSET 0u
#define SLOT_CELLS_OFFSET 4096u
#define SLOT_BULK_OFFSET 8192u

#endif
