/*
 * What a machine is made of: private to vmm/ and its tests. Fields stand in
 * groups, each headed by who may touch it.
 */
#ifndef PORTCULLIS_VMM_MACHINE_STATE_H
#define PORTCULLIS_VMM_MACHINE_STATE_H

#include <linux/kvm.h>
#include <pthread.h>

#include "vmm/bucket.h"
#include "vmm/exit.h"
#include "vmm/layout.h"
#include "vmm/machine.h"
#include "vmm/stop_word.h"

/*
 * Writes into read-only windows, and rings of doorbells that no flow needs, per vCPU: each is an exit, and
 * none has an effect. An honest guest makes none, but for a ring that a cut overtakes. Past these the guest
 * is ended.
 */
#define VAIN_EXITS_PER_SECOND 10000u
#define VAIN_EXITS_BURST 20000u

struct vcpu {
	/* Set before the thread exists. */
	struct machine *machine;
	uint32_t index;
	int fd;
	struct kvm_run *run;
	size_t run_bytes;
	struct hypercall_page *hypercall; /* the guest's */
	uint64_t offered_cr4;             /* SMEP, SMAP, UMIP */

	/* stop.c's. */
	struct stop_vcpu stop;

	/* Under stop.kick_lock, or by the thread itself. */
	pthread_t thread;
	pid_t borrower;        /* priority_borrower of its thread */
	uint64_t final_cpu_ns; /* of its thread, before that is gone */

	/* The loop thread's. */
	bool to_join;

	/* The vCPU thread's. */
	bool ready;   /* HYPERCALL_READY came */
	bool pending; /* an I/O exit wants one more KVM_RUN to be complete */
	uint32_t n_reads;
	struct bucket storm;

	uint32_t lent; /* atomic: its thread has priority of a stopper and has to give it back */

	/* Written by the vCPU thread, relaxed; read by anyone. */
	struct machine_counters counters;
};

/* Of the vCPU thread that the domain is pinned to. */
struct domain_run {
	bool ended; /* exited or faulted: its hypercalls are refused */
	struct bucket log;
	uint64_t n_lost;
};

struct machine {
	/* Never changes after machine_create. */
	char name[MAX_NAME_BYTES];
	char domain_name[MAX_DOMAINS][MAX_NAME_BYTES];
	struct machine_handlers handlers;
	void *owner;
	struct layout layout;
	struct exit_ranges ranges;
	int vm_fd, ended_fd;
	int wake_fd;         /* of a machine without vCPUs: machine_wake writes it; else -1 */
	uint32_t first_core; /* machine_place; not changed by machine_start and after */
	uint64_t window_bytes;
	uint8_t *ram, *outbox, *inbox, *record;
	uint8_t *aside; /* aside.c's; NULL: there is none */
	uint64_t aside_bytes;
	uint8_t *data[MAX_DOMAINS];
	int outbox_fd, outbox_read_fd;
	uint32_t slots_per_unit; /* slots in 2 MiB of window */
	uint8_t *domain_of_unit;

	/* Atomic. */
	uint32_t state; /* enum machine_state */
	uint32_t killed;
	const struct call_watch *watch;
	uint32_t closed; /* its inbox window is PROT_NONE already, and may have a hole */
	uint64_t n_mapping_calls;

	struct stop_group group;
	struct vcpu vcpu[MAX_VCPUS];
	struct domain_run domain[MAX_DOMAINS];

	/*
	 * Tests only, set before machine_start: called on the vCPU thread between its
	 * last look at the state word and KVM_RUN.
	 */
	void (*window_hook)(struct vcpu *vcpu);
};

/* memory.c: maps RAM and windows and registers them. -errno and a line. */
int memory_create(struct machine *machine, const struct machine_spec *spec, char why[static WHY_BYTES]);
/* Frees all but the outbox window and its file. Twice does nothing more. */
void memory_retire(struct machine *machine);
void memory_destroy(struct machine *machine);
/* Address space, 2 MiB aligned. NULL and errno. */
uint8_t *memory_reserve(uint64_t bytes, int protection);
/* Which domain's slot it is. */
uint32_t memory_domain_of(const struct machine *machine, uint32_t slot);

/* A call that changes host mappings of its window. */
static inline void machine_count_mapping(struct machine *machine)
{
	(void)__atomic_fetch_add(&machine->n_mapping_calls, 1, __ATOMIC_RELAXED);
}

/* cpu.c: makes the vCPU and its CPUID. -errno and a line. */
struct cpuid_table;
int cpu_create(struct machine *machine, uint32_t index, int kvm_fd, const struct cpuid_table *supported,
               char why[static WHY_BYTES]);
/* All registers as guest/abi/boot.h says; needs layout.cr3. -errno and a line. */
int cpu_registers_set(struct vcpu *vcpu, char why[static WHY_BYTES]);
/* Clock facts of vCPU 0. */
int cpu_facts(struct vcpu *vcpu, struct boot_facts *facts, char why[static WHY_BYTES]);

/* crash.c: texts. The vCPU's thread. */
void crash_describe_guest(struct vcpu *vcpu, const char *what, struct machine_crash *crash);
void crash_describe_fault(const struct machine *machine, const struct guest_request *request,
                          struct machine_crash *crash);

/* machine.c: the guest is lost. Once; later calls do nothing. A vCPU thread. */
void machine_crashed(struct machine *machine, const struct machine_crash *crash);

#endif
