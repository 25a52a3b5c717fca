/*
 * Start of a vCPU. The IDT stands already: the host made it of the stubs in entry.S.
 */
#include "guest/kernel/cpu.h"
#include "guest/kernel/kernel.h"

_Static_assert(offsetof(struct kernel_cpu, user_rsp) == 8, "entry.S: CPU_USER_RSP");
_Static_assert(offsetof(struct kernel_cpu, kernel_rsp) == 16, "entry.S: CPU_KERNEL_RSP");
_Static_assert(offsetof(struct kernel_cpu, tss) + 4 == 188, "entry.S: CPU_FRAME_END");
_Static_assert(offsetof(struct trap_frame, rip) == sizeof(struct trap_frame) - 40, "entry.S: F_RIP");
_Static_assert(offsetof(struct trap_frame, rax) == sizeof(struct trap_frame) - 64, "entry.S: F_RAX");
_Static_assert((offsetof(struct kernel_domain, frame) + sizeof(struct trap_frame)) % 16 == 0,
               "the processor aligns rsp0 before it pushes");

void kernel_main(struct kernel_cpu *cpu)
{
	timer_start();
	schedule_start(cpu);
	hypercall(cpu, HYPERCALL_READY, NO_DOMAIN, 0, 0);
	schedule();
}
