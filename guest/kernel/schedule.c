/*
 * Who runs on a vCPU: round robin over its domains, block and wake.
 *
 * Only a vCPU's own kernel writes the state of its domains; another vCPU adds to an event
 * count and sends VECTOR_WAKE, the host adds to host_events and sends the same.
 *
 * Why no wake-up is lost (design: 4, "Waiting"; promise I10):
 *
 *	waiter, vCPU A (domain_wait)          notifier, vCPU B (domain_notify)
 *	1 xchg state = BLOCKED                1 lock add events
 *	2 read events, host_events            2 read state
 *	3 equal to seen: stay blocked         3 BLOCKED: send VECTOR_WAKE to A
 *	  else: RUNNABLE, return at once
 *
 * xchg and lock add are full barriers: if B's read in 2 saw the old state, A's xchg came
 * later than B's add, so A's read in 2 sees the new count. If B saw BLOCKED, the
 * interrupt stays pending in A's APIC until A takes it in ring 3 or at the HLT in idle
 * (STI; HLT lets none fall between), and its handler compares all counts again.
 *
 *	waiter, vCPU A                        host
 *	2 read host_events                    1 add to host_events (or patch a record, then add)
 *	                                      2 MSI VECTOR_WAKE, always
 *
 * The host reads no state: the MSI always comes after the add, and the handler looks again.
 * A peer in another guest rings a doorbell (call.c), and vCPU 0 of this guest takes VECTOR_DOORBELL. Its
 * handler is the notifier of the first table: it adds to the events of each domain that the ring
 * can be for, then reads its state (tests/model/doorbell.pml).
 *
 *	sender, guest A                 receiver, guest B             host
 *	                                                              1 mark the domain in doorbell_page
 *	                                                              2 bind the doorbell
 *	                                                              3 record: NOTIFY
 *	1 commit, read wants_message    1 wants_message, look again
 *	2 record says NOTIFY: out       2 SYS_WAIT                    4 record: cut
 *	3 MSI, pending until taken      3 handler: events, wake       5 unmark
 *	                                                              6 add to host_events, MSI
 *	                                                              7 unbind, then report
 *
 * A sender that sees NOTIFY finds the doorbell bound; a ring that is handled after 5 was for a flow whose
 * receiver 6 wakes. Rings that melt into one interrupt came before its EOI, and the handler looks
 * after that.
 * A notifier on the same vCPU cannot run between 1 and 3: interrupts are off.
 */
#include "guest/kernel/cpu.h"
#include "guest/kernel/kernel.h"

static uint64_t events(const struct kernel_domain *domain)
{
	const struct call_page *call = (const struct call_page *)domain->call_page;
	const struct domain_page *page = (const struct domain_page *)domain->record;

	return __atomic_load_n(&call->events, __ATOMIC_ACQUIRE) +
	       __atomic_load_n(&page->host_events, __ATOMIC_ACQUIRE);
}

static uint32_t state(const struct kernel_domain *domain)
{
	return __atomic_load_n(&domain->state, __ATOMIC_RELAXED);
}

void domain_wake(struct kernel_cpu *cpu, struct kernel_domain *domain, int64_t result)
{
	domain->frame.rax = (uint64_t)result;
	__atomic_store_n(&domain->state, DOMAIN_RUNNABLE, __ATOMIC_RELAXED);
	cpu->n_runnable++;
}

void domain_end(struct kernel_cpu *cpu, struct kernel_domain *domain)
{
	__atomic_store_n(&domain->state, DOMAIN_DEAD, __ATOMIC_RELAXED);
	cpu->n_runnable--;
}

int64_t domain_wait(struct kernel_cpu *cpu, struct kernel_domain *domain, uint64_t seen, uint64_t timeout_ns)
{
	uint64_t deadline;

	if (events(domain) != seen)
		return CALL_OK;
	if (timeout_ns == 0)
		return CALL_TIMED_OUT;
	deadline = timer_tsc(timeout_ns);
	if (deadline != NEVER)
		deadline += read_tsc();
	domain->wake_seen = seen;
	domain->wake_deadline = deadline;
	__atomic_exchange_n(&domain->state, DOMAIN_BLOCKED, __ATOMIC_SEQ_CST);
	if (events(domain) != seen) {
		__atomic_store_n(&domain->state, DOMAIN_RUNNABLE, __ATOMIC_RELAXED);
		return CALL_OK;
	}
	cpu->n_runnable--;
	if (deadline < cpu->next_deadline)
		cpu->next_deadline = deadline;
	return SWITCH_AWAY;
}

/* Says whether the peer runs on this vCPU, and was blocked until now. */
static bool count_event(struct kernel_cpu *cpu, struct kernel_domain *peer)
{
	struct call_page *call = (struct call_page *)peer->call_page;

	__atomic_fetch_add(&call->events, 1, __ATOMIC_SEQ_CST);
	if (state(peer) != DOMAIN_BLOCKED)
		return false;
	if (peer->vcpu != cpu->vcpu) {
		write_msr(MSR_X2APIC_ICR, (uint64_t)cpu_of(peer->vcpu)->apic_id << 32 | VECTOR_WAKE);
		return false;
	}
	domain_wake(cpu, peer, CALL_OK);
	return true;
}

void domain_notify(struct kernel_cpu *cpu, struct kernel_domain *peer)
{
	uint64_t now;

	if (!count_event(cpu, peer))
		return;
	now = read_tsc();
	timer_arm(cpu, now, now + timer_slice());
}

/* Wakes each domain of this vCPU whose events or deadline have come. */
static void wake_due(struct kernel_cpu *cpu, uint64_t now)
{
	uint64_t deadline = NEVER;
	uint32_t index = cpu->first_domain;
	struct kernel_domain *domain;

	do {
		domain = domain_of(index);
		index = domain->next;
		if (state(domain) != DOMAIN_BLOCKED)
			continue;
		if (events(domain) != domain->wake_seen)
			domain_wake(cpu, domain, CALL_OK);
		else if (domain->wake_deadline <= now)
			domain_wake(cpu, domain, CALL_TIMED_OUT);
		else if (domain->wake_deadline < deadline)
			deadline = domain->wake_deadline;
	} while (index != cpu->first_domain);
	cpu->next_deadline = deadline;
}

/* A guest has rung: whom it can mean is what the host says. The caller looks who is to run. */
static void hear(struct kernel_cpu *cpu, uint64_t line)
{
	const struct doorbell_page *page = (const struct doorbell_page *)KERNEL_BOOT->doorbells;
	uint64_t domains = __atomic_load_n(&page->domains[line], __ATOMIC_ACQUIRE);

	for (; domains != 0; domains &= domains - 1)
		count_event(cpu, domain_of(lowest_bit(domains)));
}

static void take_interrupt(struct kernel_cpu *cpu, uint64_t vector, uint64_t now)
{
	if (vector == VECTOR_TIMER) {
		cpu->timer_at = NEVER;
		cpu->armed = 0;
	}
	if (vector != VECTOR_SPURIOUS)
		write_msr(MSR_X2APIC_EOI, 0);
	if (vector - VECTOR_DOORBELL < MAX_GUESTS)
		hear(cpu, vector - VECTOR_DOORBELL);
	if (cpu->first_domain != NO_DOMAIN && (vector == VECTOR_WAKE || cpu->next_deadline <= now))
		wake_due(cpu, now);
}

/*
 * An interrupt took the vCPU from a domain; says whether another is to run. A
 * wake-up preempts, but only after an eighth of a slice: else a peer that notifies
 * in a storm could keep this domain from ever completing an instruction.
 */
bool schedule_interrupt(uint64_t vector)
{
	struct kernel_cpu *cpu = this_cpu();
	uint64_t now = read_tsc(), least;

	take_interrupt(cpu, vector, now);
	if (cpu->n_runnable < 2) {
		timer_arm(cpu, now, cpu->next_deadline);
		return false;
	}
	least = cpu->slice_start + timer_slice() / 8;
	if (now >= least)
		return true;
	timer_arm(cpu, now, least);
	return false;
}

void schedule_idle_interrupt(uint64_t vector)
{
	take_interrupt(this_cpu(), vector, read_tsc());
	schedule();
}

static void switch_to(struct kernel_cpu *cpu, struct kernel_domain *domain)
{
	uint64_t frame_end = (uint64_t)(&domain->frame + 1);

	if (cpu->loaded != NO_DOMAIN)
		fpu_save(domain_of(cpu->loaded)->fpu);
	cpu->loaded = domain->index;
	cpu->current = domain->index;
	__builtin_memcpy(&cpu->tss[4], &frame_end, sizeof frame_end);
	write_cr3(domain->cr3);
	fpu_load(domain->fpu);
	clear_selectors();
	write_msr(MSR_FS_BASE, BOOT_FS_BASE);
}

void schedule(void)
{
	struct kernel_cpu *cpu = this_cpu();
	struct kernel_domain *domain;
	uint64_t now = read_tsc(), at = cpu->next_deadline;

	if (cpu->n_runnable == 0) {
		timer_arm(cpu, now, at);
		idle();
	}
	domain = domain_running(cpu);
	do
		domain = domain_of(domain->next);
	while (state(domain) != DOMAIN_RUNNABLE);
	if (cpu->n_runnable > 1 && now + timer_slice() < at)
		at = now + timer_slice();
	timer_arm(cpu, now, at);
	cpu->slice_start = now;
	if (cpu->loaded != domain->index)
		switch_to(cpu, domain);
	domain_resume(&domain->frame);
}

void schedule_start(struct kernel_cpu *cpu)
{
	uint32_t index = cpu->first_domain;

	cpu->timer_at = NEVER;
	cpu->next_deadline = NEVER;
	cpu->loaded = NO_DOMAIN;
	cpu->current = index;
	cpu->n_runnable = 0;
	if (index == NO_DOMAIN)
		return;
	do {
		if (state(domain_of(index)) == DOMAIN_RUNNABLE)
			cpu->n_runnable++;
		index = domain_of(index)->next;
	} while (index != cpu->first_domain);
}
