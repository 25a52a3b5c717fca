/*
 * System calls (guest/abi/call.h). The kernel believes the host's records and
 * nothing else: whether a domain may notify is in the record, and all that the host
 * decides is relayed. No pointer of a domain is ever followed.
 */
#include "guest/kernel/cpu.h"
#include "guest/kernel/kernel.h"

/* What these have to remember over their calls would be saved and restored by each system call. */
#define APART __attribute__((noinline))

static const struct slot_record *record_of(const struct kernel_domain *domain, uint64_t slot)
{
	uint64_t i = slot - domain->first_slot;

	if (i >= domain->n_slots)
		return NULL;
	return (const struct slot_record *)(domain->record + RECORD_OFFSET(i));
}

/*
 * A doorbell is bound before the word says NOTIFY, and unbound after it says so no longer: a ring that a cut
 * overtakes does nothing, and the host wakes whoever the cut concerns (schedule.c).
 *
 * The peer's index is read after the word: it changes only while the word says
 * RECORD_FREE, and this end's slot is freed by no one but this domain, which is here.
 */
APART static int64_t notify(struct kernel_cpu *cpu, struct kernel_domain *domain, uint64_t slot)
{
	const struct slot_record *record = record_of(domain, slot);
	uint16_t peer;

	if (record == NULL)
		return CALL_BAD_ARGUMENT;
	if (!(__atomic_load_n(&record->word, __ATOMIC_ACQUIRE) & RECORD_NOTIFY))
		return CALL_NOT_OPEN;
	peer = __atomic_load_n(&record->peer_domain, __ATOMIC_RELAXED);
	if (peer == RECORD_PEER_ELSEWHERE) {
		ring_doorbell(__atomic_load_n(&record->doorbell, __ATOMIC_RELAXED));
		return CALL_OK;
	}
	if (peer >= KERNEL_BOOT->n_domains)
		return CALL_NOT_OPEN;
	domain_notify(cpu, domain_of(peer));
	return CALL_OK;
}

static int64_t yield(struct kernel_cpu *cpu, struct kernel_domain *domain)
{
	if (cpu->n_runnable < 2)
		return CALL_OK;
	domain->frame.rax = CALL_OK;
	return SWITCH_AWAY;
}

APART static int64_t end(struct kernel_cpu *cpu, struct kernel_domain *domain, uint64_t status)
{
	hypercall(cpu, HYPERCALL_EXIT, domain->index, status, 0);
	domain_end(cpu, domain);
	return SWITCH_AWAY;
}

int64_t syscall_dispatch(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t number)
{
	struct kernel_cpu *cpu = this_cpu();
	struct kernel_domain *domain = domain_running(cpu);

	(void)a2; /* no call has a third argument yet */
	switch (number) {
	case SYS_WAIT:
		return domain_wait(cpu, domain, a0, a1);
	case SYS_NOTIFY:
		return notify(cpu, domain, a0);
	case SYS_YIELD:
		return yield(cpu, domain);
	case SYS_EXIT:
		return end(cpu, domain, a0);
	case SYS_CONNECT:
		return hypercall(cpu, HYPERCALL_CONNECT, domain->index, a0, UINT64_MAX);
	case SYS_CONNECT_FOR:
		return hypercall(cpu, HYPERCALL_CONNECT, domain->index, a0, a1);
	case SYS_ACCEPT:
		return hypercall(cpu, HYPERCALL_ACCEPT, domain->index, 0, 0);
	case SYS_CLOSE:
		return hypercall(cpu, HYPERCALL_CLOSE, domain->index, a0, 0);
	case SYS_INFO:
		return hypercall(cpu, HYPERCALL_INFO, domain->index, a0, 0);
	case SYS_LOG:
		return hypercall(cpu, HYPERCALL_LOG, domain->index, a0, 0);
	default:
		return CALL_NO_CALL;
	}
}
