/*
 * The one-shot APIC timer of a vCPU, and nanoseconds to TSC ticks.
 *
 * timer_at says when it fires. It is armed only for an earlier moment: a
 * tick that turns out to be too early finds nothing to do and is armed again, which is cheaper than
 * a write to the APIC at each wait. Source: Intel SDM vol. 3A, 10.5.4.
 */
#include "guest/kernel/cpu.h"
#include "guest/kernel/kernel.h"

#define NS_PER_MS 1000000ull
#define COUNT_MAX 0xffffffffull
#define LONGEST_WAIT_NS (3650ull * 24 * 3600 * 1000 * NS_PER_MS) /* longer is for ever */

void timer_start(void)
{
	write_msr(MSR_X2APIC_SPURIOUS, X2APIC_ENABLE | VECTOR_SPURIOUS);
	write_msr(MSR_X2APIC_TIMER_DIVIDE, X2APIC_DIVIDE_BY_1);
	write_msr(MSR_X2APIC_TIMER, VECTOR_TIMER);
}

/* NEVER for what is too far away. No overflow: 3.2e11 ms * 2^24 kHz < 2^63. */
uint64_t timer_tsc(uint64_t ns)
{
	uint64_t khz = KERNEL_BOOT->tsc_khz;

	if (ns > LONGEST_WAIT_NS)
		return NEVER;
	return ns / NS_PER_MS * khz + ns % NS_PER_MS * khz / NS_PER_MS;
}

uint64_t timer_slice(void)
{
	return KERNEL_BOOT->slice_us * KERNEL_BOOT->tsc_khz / 1000;
}

void timer_arm(struct kernel_cpu *cpu, uint64_t now, uint64_t at)
{
	uint64_t count = COUNT_MAX, delta, khz = KERNEL_BOOT->tsc_khz;

	if (at >= cpu->timer_at)
		return;
	delta = at > now ? at - now : 0;
	if (delta < khz * 1000) /* a second: nearer than that the product below cannot overflow */
		count = delta * NS_PER_MS / (khz * KERNEL_BOOT->apic_tick_ns) + 1;
	else
		count = 1000 * NS_PER_MS / KERNEL_BOOT->apic_tick_ns;
	if (count > COUNT_MAX)
		count = COUNT_MAX;
	cpu->timer_at = at;
	cpu->armed = 1;
	write_msr(MSR_X2APIC_TIMER_COUNT, count);
}
