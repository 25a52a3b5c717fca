/*
 * The guest kernel's private declarations.
 *
 * It takes traps, switches between the domains of a vCPU, blocks and wakes
 * them, relays hypercalls, and reports a domain that faults. It has no allocator and no
 * loader, and never edits a page table: the host built all that (vmm/layout.c).
 *
 * Each vCPU runs it on its own stack with interrupts off, so that the fields
 * of its kernel_cpu and the state words of its own domains have one writer. The
 * only ring-0 code that an interrupt may enter is the HLT in idle.
 *
 * Where KVM emulates ring 0 each instruction costs 0.4 us. So: registers are saved
 * when they must be, and no loop runs on the paths that a message takes.
 */
#ifndef PORTCULLIS_KERNEL_H
#define PORTCULLIS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/abi/boot.h"
#include "guest/abi/call.h"
#include "guest/abi/memory.h"
#include "guest/abi/record.h"

#define NEVER UINT64_MAX
/* syscall_dispatch: the caller does not run on now; its result stands in its frame, or comes with its
 * wake-up. */
#define SWITCH_AWAY INT64_C(-4096)

#define KERNEL_BOOT ((const struct kernel_boot *)VA_KERNEL_BOOT)

static inline struct kernel_cpu *cpu_of(uint32_t vcpu)
{
	return (struct kernel_cpu *)(VA_KERNEL_CPU + (uint64_t)vcpu * KERNEL_CPU_STRIDE);
}

static inline struct kernel_domain *domain_of(uint32_t index)
{
	return (struct kernel_domain *)(VA_KERNEL_DOMAIN + (uint64_t)index * ABI_PAGE_BYTES);
}

static inline struct kernel_domain *domain_running(const struct kernel_cpu *cpu)
{
	return domain_of(cpu->current);
}

/* schedule.c */
_Noreturn void schedule(void);
bool schedule_interrupt(uint64_t vector);
_Noreturn void schedule_idle_interrupt(uint64_t vector);
void schedule_start(struct kernel_cpu *cpu);
void domain_wake(struct kernel_cpu *cpu, struct kernel_domain *domain, int64_t result);
void domain_notify(struct kernel_cpu *cpu, struct kernel_domain *peer);
void domain_end(struct kernel_cpu *cpu, struct kernel_domain *domain);
int64_t domain_wait(struct kernel_cpu *cpu, struct kernel_domain *domain, uint64_t seen, uint64_t timeout_ns);

/* timer.c */
void timer_start(void);
void timer_arm(struct kernel_cpu *cpu, uint64_t now, uint64_t at);
uint64_t timer_tsc(uint64_t ns);
uint64_t timer_slice(void);

/* hypercall.c */
int64_t hypercall(struct kernel_cpu *cpu, enum hypercall call, uint32_t domain, uint64_t a0, uint64_t a1);
_Noreturn void domain_fault(void);
_Noreturn void kernel_panic(const uint64_t *trap);

/* trap.c */
_Noreturn void kernel_main(struct kernel_cpu *cpu);

/* call.c */
int64_t syscall_dispatch(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t number);

/* entry.S */
_Noreturn void domain_resume(const struct trap_frame *frame);
_Noreturn void idle(void);

#endif
