#include "vmm/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "vmm/check.h"
#include "vmm/cpuid.h"
#include "vmm/futex.h"
#include "vmm/kvm.h"
#include "vmm/vcpu.h"

#define DESTROY_WAIT_NS 2000000000u

/* kernel_blob.S */
extern const uint8_t kernel_elf[];
extern const uint64_t kernel_elf_bytes;

/* ---- creation ---- */

static void names_copy(struct machine *machine, const struct machine_spec *spec)
{
	snprintf(machine->name, sizeof(machine->name), "%s", spec->name);
	for (uint32_t i = 0; i < spec->n_domains; i++)
		snprintf(machine->domain_name[i], sizeof(machine->domain_name[i]), "%s",
		         spec->domains[i].name);
}

static struct machine *machine_new(const struct machine_handlers *handlers, void *owner)
{
	struct machine *machine = calloc(1, sizeof(*machine));

	if (machine == NULL)
		return NULL;
	if (handlers != NULL)
		machine->handlers = *handlers;
	machine->owner = owner;
	machine->vm_fd = machine->ended_fd = machine->wake_fd = machine->outbox_fd = machine->outbox_read_fd =
		-1;
	for (uint32_t i = 0; i < MAX_VCPUS; i++)
		machine->vcpu[i].fd = -1;
	stop_group_init(&machine->group, machine->name);
	return machine;
}

static int vcpus_create(struct machine *machine, int kvm_fd, char *why)
{
	struct cpuid_table supported;
	int error = cpuid_read(kvm_fd, &supported);

	if (error != 0) {
		snprintf(why, WHY_BYTES, "KVM: KVM_GET_SUPPORTED_CPUID: %s", strerror(-error));
		return error;
	}
	for (uint32_t i = 0; i < machine->layout.n_vcpus && error == 0; i++) {
		struct vcpu *vcpu = &machine->vcpu[i];

		stop_group_add(&machine->group, &vcpu->stop, vcpu_kick);
		vcpu->stop.hurry = vcpu_hurry;
		vcpu->hypercall = (struct hypercall_page *)(machine->ram + machine->layout.cpus.gpa +
		                                            i * KERNEL_CPU_STRIDE + ABI_PAGE_BYTES);
		error = cpu_create(machine, i, kvm_fd, &supported, why);
	}
	return error;
}

static int memory_fill(struct machine *machine, const struct machine_spec *spec, const void *kernel,
                       char *why)
{
	struct boot_facts facts;
	int error = cpu_facts(&machine->vcpu[0], &facts, why);

	if (error != 0)
		return error;
	error = layout_fill(&machine->layout, spec, kernel, &facts, machine->ram);
	if (error != 0)
		snprintf(why, WHY_BYTES, "guest %s: random bytes: %s", machine->name, strerror(-error));
	return error;
}

/* What no other thread may do: KVM_CREATE_VM is the loop's alone. */
static int vm_create(struct machine *machine, const struct machine_spec *spec, char *why)
{
	names_copy(machine, spec);
	machine->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (machine->ended_fd < 0) {
		snprintf(why, WHY_BYTES, "guest %s: eventfd: %s", machine->name, strerror(errno));
		return -errno;
	}
	machine->vm_fd = kvm_vm_create(spec->kvm_fd, why);
	return machine->vm_fd < 0 ? machine->vm_fd : 0;
}

static const void *kernel_of(const struct machine_spec *spec, size_t *bytes)
{
	*bytes = spec->kernel_image != NULL ? spec->kernel_bytes : kernel_elf_bytes;
	return spec->kernel_image != NULL ? spec->kernel_image : kernel_elf;
}

int machine_begin(const struct machine_spec *spec, const struct machine_handlers *handlers, void *owner,
                  struct machine **begun, char why[static WHY_BYTES])
{
	struct machine *machine = machine_new(handlers, owner);
	size_t kernel_bytes;
	const void *kernel = kernel_of(spec, &kernel_bytes);

	*begun = NULL;
	if (machine == NULL) {
		snprintf(why, WHY_BYTES, "guest %s: no memory", spec->name);
		return -ENOMEM;
	}
	int error = vcpu_signal_install();
	if (error == 0)
		error = layout_plan(spec, kernel, kernel_bytes, &machine->layout, why);
	else
		snprintf(why, WHY_BYTES, "guest %s: signal handler: %s", spec->name, strerror(-error));
	if (error == 0)
		error = vm_create(machine, spec, why);
	if (error != 0)
		machine_destroy(machine);
	else
		*begun = machine;
	return error;
}

/* An address space must stand before a CR3 can name it, and its boot records want the vCPU's clock. */
int machine_build(struct machine *machine, const struct machine_spec *spec, char why[static WHY_BYTES])
{
	size_t kernel_bytes;
	const void *kernel = kernel_of(spec, &kernel_bytes);
	int error = kvm_routes_set(machine->vm_fd, VECTOR_DOORBELL, why);

	if (error == 0)
		error = memory_create(machine, spec, why);
	if (error == 0)
		error = vcpus_create(machine, spec->kvm_fd, why);
	if (error == 0)
		error = memory_fill(machine, spec, kernel, why);
	for (uint32_t i = 0; error == 0 && i < spec->n_vcpus; i++)
		error = cpu_registers_set(&machine->vcpu[i], why);
	return error;
}

int machine_create(const struct machine_spec *spec, const struct machine_handlers *handlers, void *owner,
                   struct machine **created, char why[static WHY_BYTES])
{
	int error = machine_begin(spec, handlers, owner, created, why);

	if (error == 0)
		error = machine_build(*created, spec, why);
	if (error != 0) {
		machine_destroy(*created);
		*created = NULL;
	}
	return error;
}

static int windows_create(struct machine *machine, const struct machine_spec *spec, char *why)
{
	int error = layout_plan_windows(spec, &machine->layout, why);

	if (error != 0)
		return error;
	names_copy(machine, spec);
	machine->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	machine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (machine->ended_fd < 0 || machine->wake_fd < 0) {
		snprintf(why, WHY_BYTES, "guest %s: eventfd: %s", machine->name, strerror(errno));
		return -errno;
	}
	return memory_create(machine, spec, why);
}

int machine_create_windows(const struct machine_spec *spec, struct machine **created,
                           char why[static WHY_BYTES])
{
	struct machine *machine = machine_new(NULL, NULL);
	int error = -ENOMEM;

	*created = NULL;
	if (machine == NULL)
		snprintf(why, WHY_BYTES, "guest %s: no memory", spec->name);
	else
		error = windows_create(machine, spec, why);
	if (error != 0)
		machine_destroy(machine);
	else
		*created = machine;
	return error;
}

/* ---- running and ending ---- */

/* True: this call made the change. */
static bool state_change(struct machine *machine, enum machine_state from, enum machine_state to)
{
	uint32_t seen = from;

	return __atomic_compare_exchange_n(&machine->state, &seen, to, false, __ATOMIC_SEQ_CST,
	                                   __ATOMIC_SEQ_CST);
}

static bool state_end(struct machine *machine, enum machine_state to)
{
	return state_change(machine, MACHINE_RUNNING, to) || state_change(machine, MACHINE_NEW, to);
}

static void ended_tell(const struct machine *machine)
{
	const uint64_t one = 1;

	/* It can fail only when the counter is full, and then it reads as written. */
	if (write(machine->ended_fd, &one, sizeof(one)) < 0)
		return;
}

void machine_place(struct machine *machine, uint32_t first_core)
{
	CHECK(machine_state(machine) == MACHINE_NEW);
	machine->first_core = first_core;
}

int machine_start(struct machine *machine, char why[static WHY_BYTES])
{
	int error = state_change(machine, MACHINE_NEW, MACHINE_RUNNING) ? 0 : -EINVAL;

	if (error != 0) {
		snprintf(why, WHY_BYTES, "guest %s cannot start: it is %s", machine->name,
		         machine_state_name(machine_state(machine)));
		return error;
	}
	for (uint32_t i = 0; i < machine->layout.n_vcpus && error == 0; i++)
		error = vcpu_start(&machine->vcpu[i]);
	if (error == 0)
		return 0;
	machine_shutdown(machine, monotonic_ns() + DESTROY_WAIT_NS, why);
	snprintf(why, WHY_BYTES, "guest %s: thread of a vCPU: %s", machine->name, strerror(-error));
	return error;
}

static void threads_join(struct machine *machine)
{
	for (uint32_t i = 0; i < machine->layout.n_vcpus; i++) {
		struct vcpu *vcpu = &machine->vcpu[i];

		/* Gone is the last that it does: only the thread's own end is left to wait for. */
		if (vcpu->to_join && stop_state_of(&vcpu->stop) == STOP_GONE) {
			pthread_join(vcpu->thread, NULL);
			vcpu->to_join = false;
		}
	}
}

int machine_shutdown(struct machine *machine, uint64_t deadline_ns, char why[static WHY_BYTES])
{
	bool changed = state_end(machine, MACHINE_ENDED);

	stop_leave(&machine->group, true);
	int error = stop_wait_gone(&machine->group, deadline_ns, why);
	threads_join(machine);
	if (changed)
		ended_tell(machine);
	return error;
}

void machine_kill(struct machine *machine)
{
	bool changed = state_end(machine, MACHINE_KILLED);

	/* The mark before the window: see finish() in window.c. */
	__atomic_store_n(&machine->killed, 1, __ATOMIC_SEQ_CST);
	if (machine->wake_fd < 0 && !__atomic_load_n(&machine->closed, __ATOMIC_SEQ_CST))
		CHECK(mprotect(machine->inbox, machine->window_bytes, PROT_NONE) == 0);
	stop_leave(&machine->group, true);
	if (changed)
		ended_tell(machine);
}

void machine_crashed(struct machine *machine, const struct machine_crash *crash)
{
	if (!state_change(machine, MACHINE_RUNNING, MACHINE_CRASHED))
		return;
	stop_leave(&machine->group, false);
	if (machine->handlers.crashed != NULL)
		machine->handlers.crashed(machine->owner, crash);
	ended_tell(machine);
}

static void close_once(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int machine_retire(struct machine *machine)
{
	char why[WHY_BYTES];
	int error = machine_shutdown(machine, monotonic_ns() + DESTROY_WAIT_NS, why);

	if (error != 0)
		return error;
	for (uint32_t i = 0; i < machine->layout.n_vcpus; i++) {
		struct vcpu *vcpu = &machine->vcpu[i];

		if (vcpu->run != NULL)
			munmap(vcpu->run, vcpu->run_bytes);
		vcpu->run = NULL;
		close_once(&vcpu->fd);
	}
	/* The VM before its memory: no memslot ever points to memory that is gone. */
	close_once(&machine->vm_fd);
	close_once(&machine->ended_fd);
	close_once(&machine->wake_fd);
	memory_retire(machine);
	return 0;
}

void machine_destroy(struct machine *machine)
{
	if (machine == NULL)
		return;
	if (machine_retire(machine) != 0)
		return; /* a thread is still in there: what it uses stays */
	memory_destroy(machine);
	layout_release(&machine->layout);
	stop_group_destroy(&machine->group);
	free(machine);
}

/* ---- what others look at ---- */

enum machine_state machine_state(const struct machine *machine)
{
	return (enum machine_state)__atomic_load_n(&machine->state, __ATOMIC_SEQ_CST);
}

const char *machine_state_name(enum machine_state state)
{
	static const char *const names[] = {
		[MACHINE_NEW] = "new",       [MACHINE_RUNNING] = "running", [MACHINE_CRASHED] = "crashed",
		[MACHINE_KILLED] = "killed", [MACHINE_ENDED] = "stopped",
	};

	return names[state];
}

struct machine_counters machine_counters(const struct machine *machine)
{
	struct machine_counters sum = {0};

	for (uint32_t i = 0; i < machine->layout.n_vcpus; i++) {
		const struct machine_counters *counters = &machine->vcpu[i].counters;

		sum.exits += __atomic_load_n(&counters->exits, __ATOMIC_RELAXED);
		sum.hypercalls += __atomic_load_n(&counters->hypercalls, __ATOMIC_RELAXED);
		sum.refused += __atomic_load_n(&counters->refused, __ATOMIC_RELAXED);
		sum.stray_rings += __atomic_load_n(&counters->stray_rings, __ATOMIC_RELAXED);
		sum.window_writes += __atomic_load_n(&counters->window_writes, __ATOMIC_RELAXED);
		sum.log_lines_lost += __atomic_load_n(&counters->log_lines_lost, __ATOMIC_RELAXED);
	}
	return sum;
}

uint32_t machine_first_slot(const struct machine *machine, uint32_t domain)
{
	CHECK(domain < machine->layout.n_domains);
	return machine->layout.domain[domain].first_slot;
}

uint32_t machine_n_slots(const struct machine *machine, uint32_t domain)
{
	CHECK(domain < machine->layout.n_domains);
	return machine->layout.domain[domain].n_slots;
}

uint32_t machine_total_slots(const struct machine *machine)
{
	return machine->layout.n_slots;
}

uint64_t machine_bulk_bytes(const struct machine *machine)
{
	return machine->layout.bulk_bytes;
}

enum domain_run_state machine_domain_state(const struct machine *machine, uint32_t domain)
{
	CHECK(domain < machine->layout.n_domains);
	if (machine->ram == NULL)
		return DOMAIN_RUNNABLE;
	const struct kernel_domain *states = (const void *)(machine->ram + machine->layout.domains.gpa);
	uint32_t raw_state = __atomic_load_n(&states[domain].state, __ATOMIC_RELAXED);

	return raw_state <= DOMAIN_DEAD ? (enum domain_run_state)raw_state : DOMAIN_DEAD;
}

struct slot_record *machine_record(struct machine *machine, uint32_t slot)
{
	CHECK(slot < machine->layout.n_slots);
	uint64_t offset = layout_record_offset(&machine->layout, memory_domain_of(machine, slot), slot);

	return (struct slot_record *)(machine->record + offset);
}

struct domain_page *machine_domain_page(struct machine *machine, uint32_t domain)
{
	CHECK(domain < machine->layout.n_domains);
	return (struct domain_page *)(machine->record + machine->layout.domain[domain].record_offset);
}

int machine_wake_fd(const struct machine *machine)
{
	return machine->wake_fd;
}

void machine_wake(struct machine *machine, uint32_t vcpu)
{
	const uint64_t one = 1;

	if (machine->wake_fd < 0) {
		CHECK(vcpu < machine->layout.n_vcpus);
		kvm_wake(machine->vm_fd, vcpu, VECTOR_WAKE);
	} else if (write(machine->wake_fd, &one, sizeof(one)) < 0) {
		CHECK(errno == EAGAIN); /* the counter is full: it reads as written */
	}
}

void machine_watch_calls(struct machine *machine, const struct call_watch *watch)
{
	__atomic_store_n(&machine->watch, watch, __ATOMIC_RELEASE);
}

int machine_ended_fd(const struct machine *machine)
{
	return machine->ended_fd;
}
