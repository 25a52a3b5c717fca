/*
 * Start of a vCPU, and the IDT.
 *
 * The IDT is one page for all vCPUs. Each vCPU fills it when it starts, before it can
 * take an interrupt, with the same values in single stores: so no vCPU has to
 * wait for another, and one that is already running sees no difference.
 */
#include "guest/kernel/cpu.h"
#include "guest/kernel/kernel.h"

#define STUB_BYTES 16
#define GATE_INTERRUPT 0x8e00ull /* present, ring 0, interrupts off */

struct gate {
	uint64_t low, high;
};

_Static_assert(offsetof(struct kernel_cpu, user_rsp) == 8, "entry.S: CPU_USER_RSP");
_Static_assert(offsetof(struct kernel_cpu, kernel_rsp) == 16, "entry.S: CPU_KERNEL_RSP");
_Static_assert(offsetof(struct kernel_cpu, tss) + 4 == 188, "entry.S: CPU_FRAME_END");
_Static_assert(offsetof(struct trap_frame, rip) == sizeof(struct trap_frame) - 40, "entry.S: F_RIP");
_Static_assert(offsetof(struct trap_frame, rax) == sizeof(struct trap_frame) - 64, "entry.S: F_RAX");
_Static_assert((offsetof(struct kernel_domain, frame) + sizeof(struct trap_frame)) % 16 == 0,
               "the processor aligns rsp0 before it pushes");

/* n vectors and their stubs. No stub's address carries beyond its lowest 16 bits: they stand in 2 KiB
 * (entry.S). */
static void fill(uint32_t vector, uint32_t stub, uint32_t n)
{
	struct gate *gate = (struct gate *)KERNEL_BOOT->idt + vector;
	uint64_t address = (uint64_t)trap_stubs + stub * STUB_BYTES;
	uint64_t low = (address & 0xffff) | (uint64_t)SELECTOR_KERNEL_CODE << 16 | GATE_INTERRUPT << 32 |
	               (address >> 16 & 0xffff) << 48;

	for (; n != 0; n--, gate++, low += STUB_BYTES) {
		__atomic_store_n(&gate->high, address >> 32, __ATOMIC_RELAXED);
		__atomic_store_n(&gate->low, low, __ATOMIC_RELAXED);
	}
}

void trap_start(const struct kernel_cpu *cpu)
{
	fill(0, 0, 32);
	fill(VECTOR_TIMER, 32, 1);
	fill(VECTOR_WAKE, 33, 1);
	fill(VECTOR_SPURIOUS, 34, 1);
	if (cpu->vcpu == 0) /* nobody else takes these */
		fill(VECTOR_DOORBELL, 35, MAX_GUESTS);
}

void kernel_main(struct kernel_cpu *cpu)
{
	trap_start(cpu);
	timer_start();
	schedule_start(cpu);
	hypercall(cpu, HYPERCALL_READY, NO_DOMAIN, 0, 0);
	schedule();
}
