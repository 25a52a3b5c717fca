/*
 * A machine: one KVM virtual machine with its memory, vCPU threads and windows.
 *
 * The VMM knows nothing of policy. It builds all that is static, runs the
 * vCPUs, decodes exits into checked requests, and hands them to the owner's
 * handlers. machine_create and machine_begin are the loop thread's; handlers
 * run on vCPU threads; window.h and stop.h say who may call them.
 *
 * Sources: Linux Documentation/virt/kvm/api.rst; Intel SDM vol. 3A chapters 4
 * (paging), 6 (interrupts), 10.12 (x2APIC).
 */
#ifndef PORTCULLIS_VMM_MACHINE_H
#define PORTCULLIS_VMM_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/abi/boot.h"
#include "guest/abi/call.h"
#include "guest/abi/limits.h"
#include "guest/abi/record.h"
#include "guest/abi/ring.h"

struct machine;

struct domain_spec {
	const char *name;
	const char *image_name; /* for messages */
	const void *image;      /* static ELF64, x86-64 */
	size_t image_bytes;
	const char *const *arguments;
	uint32_t n_arguments;
	uint32_t vcpu;
	uint32_t n_slots;    /* rounded up so that the domain's range is whole 2 MiB pages */
	uint64_t heap_bytes; /* rounded up to pages */
	uint64_t stack_bytes;
	int data_fd; /* sealed memfd, -1: none; not consumed */
	uint64_t data_bytes;
};

struct machine_spec {
	const char *name;
	uint32_t n_vcpus;
	uint32_t n_domains;
	const struct domain_spec *domains;
	uint64_t bulk_bytes;      /* 0 or whole pages, at most MAX_BULK_BYTES */
	const void *kernel_image; /* NULL: the kernel that was built in */
	size_t kernel_bytes;
	int kvm_fd; /* /dev/kvm; not consumed */
};

/* A request of the guest that has been checked: numbers in range, text copied once. */
struct guest_request {
	enum hypercall call; /* CONNECT, ACCEPT, CLOSE, INFO, EXIT, READY */
	uint32_t vcpu;
	uint32_t domain;                        /* < n_domains and of this vCPU; NO_DOMAIN for READY */
	uint64_t argument[HYPERCALL_ARGUMENTS]; /* raw: slots are not checked against ownership */
	char text[MAX_LOG_BYTES + 1]; /* CONNECT: the service, terminated, without control characters */
};

/* Why a guest or one domain ended; text is one line with registers and the nearest symbol. */
struct machine_crash {
	uint32_t vcpu;
	uint32_t domain; /* that faulted, or NO_DOMAIN: the whole guest is lost */
	uint64_t vector, error, rip, rsp, cr2;
	char text[WHY_BYTES];
};

/* All run on a vCPU thread, none may block on another process or on a stop. */
struct machine_handlers {
	/* Returns the call's result for the guest. */
	int64_t (*request)(void *owner, const struct guest_request *request);
	/* A domain's log line: cleaned, rate limited; n_lost lines were dropped before it. */
	void (*log)(void *owner, uint32_t domain, const char *text, uint64_t n_lost);
	/* Crash of a domain (the guest goes on) or, with NO_DOMAIN, of the guest (once). */
	void (*crashed)(void *owner, const struct machine_crash *crash);
	/* A vCPU's thread has begun: the place to confine it. */
	void (*began)(void *owner);
	/*
	 * The guest rang a number that no doorbell is bound to: the host could not bind it, and the owner
	 * wakes whom it is for; or no flow needs it. False: the latter, it counts towards the rate. NULL:
	 * nobody rings.
	 */
	bool (*rang)(void *owner, uint32_t number);
};

enum machine_state {
	MACHINE_NEW,
	MACHINE_RUNNING, /* also while stopped: see stop.h */
	MACHINE_CRASHED, /* triple fault, internal error, kernel panic, EFAULT, storm */
	MACHINE_KILLED,  /* by machine_kill */
	MACHINE_ENDED,   /* by machine_shutdown */
};

struct machine_counters {
	uint64_t exits; /* to user space, all vCPUs, interruptions by signals left out */
	uint64_t hypercalls;
	uint64_t refused;       /* hypercalls that decode refused */
	uint64_t stray_rings;   /* of doorbells that no flow needs: each an exit */
	uint64_t window_writes; /* into a read-only window: each an exit */
	uint64_t log_lines_lost;
};

/*
 * Opens /dev/kvm. Returns the descriptor, or -errno and a line that says what to
 * do (no module, no nested virtualisation, no permission). The caller's to close.
 */
int machine_open_kvm(char why[static WHY_BYTES]);

/* Does this KVM offer all that a machine needs? 0; -ENODEV, -ENOTSUP and a line that names what is missing.
 */
int machine_check_kvm(int kvm_fd, char why[static WHY_BYTES]);

/*
 * For measurements: called on the vCPU's thread with each hypercall that was answered, with the number that
 * the guest gave and when (CLOCK_MONOTONIC) KVM_RUN had returned with it and its result stood in its page.
 */
struct call_watch {
	void (*answered)(void *opaque, uint32_t raw_call, uint64_t begun_ns, uint64_t ended_ns);
	void *opaque;
};

/* NULL: nobody watches. Any thread; the watch stays until the machine is gone. */
void machine_watch_calls(struct machine *machine, const struct call_watch *watch);

/*
 * Builds the machine; nothing runs yet. -EINVAL and a line that names domain and
 * image for a malformed, oversized or non-static ELF, segments outside
 * VA_IMAGE..VA_IMAGE_END, writable and executable segments, bad numbers;
 * -ENOMEM; -errno of KVM with a line that says what to do (no /dev/kvm, no
 * permission, a missing capability).
 */
int machine_create(const struct machine_spec *spec, const struct machine_handlers *handlers, void *owner,
                   struct machine **machine, char why[static WHY_BYTES]);

/*
 * The two halves of machine_create, for a loop that has more to do: begin checks the spec and makes the VM (a
 * fraction of a millisecond); build, on any thread and with the same spec, does what grows with guest and
 * images (a millisecond for a small guest, tens for the largest, more where images are long). If build fails
 * the machine is left to be destroyed.
 */
int machine_begin(const struct machine_spec *spec, const struct machine_handlers *handlers, void *owner,
                  struct machine **machine, char why[static WHY_BYTES]);
int machine_build(struct machine *machine, const struct machine_spec *spec, char why[static WHY_BYTES]);

/*
 * One without VM and vCPUs: windows, outbox file and records alone, for ends of channels that this process
 * itself holds. Of spec: name, domains' names and slots, bulk_bytes. machine_start, stops and
 * machine_shutdown find nobody to wait for; machine_wake adds to machine_wake_fd. machine_kill leaves its
 * inbox window as it is: the reader is this process, which looks at its records. -EINVAL, -ENOMEM, -errno and
 * a line.
 */
int machine_create_windows(const struct machine_spec *spec, struct machine **machine,
                           char why[static WHY_BYTES]);

/* An eventfd, the machine's own; -1: it has vCPUs. */
int machine_wake_fd(const struct machine *machine);

/* Before machine_start: vCPU i is pinned to the (first + i)th core that this process may use, modulo their
 * number. 0 without this. */
void machine_place(struct machine *machine, uint32_t first_core);

/* Starts the vCPU threads. -errno of pthread_create: the machine then has ended. */
int machine_start(struct machine *machine, char why[static WHY_BYTES]);

/*
 * Orderly end, also of a stopped machine: vCPUs leave KVM_RUN and their threads
 * end. Waits until deadline_ns (CLOCK_MONOTONIC). -ETIMEDOUT names who is missing.
 */
int machine_shutdown(struct machine *machine, uint64_t deadline_ns, char why[static WHY_BYTES]);

/*
 * Fail closed (design: 5): the inbox window becomes PROT_NONE, the vCPUs are
 * told to leave and are not waited for, the machine is never entered again. Any
 * thread but a vCPU's own handler; never blocks. The caller severs its outboxes at its peers.
 */
void machine_kill(struct machine *machine);

/*
 * Ends it for good and frees all but its outboxes, whose counters can still be read: for a guest that is gone
 * while peers hold ends of its channels. -ETIMEDOUT: a thread is stuck, and nothing was freed.
 */
int machine_retire(struct machine *machine);

/* Shuts down if need be (2 s at most, then the memory of a stuck thread is left mapped), frees. NULL is
 * allowed. */
void machine_destroy(struct machine *machine);

/* What it takes: its vCPUs, guest RAM without windows, processor time of a vCPU's thread, also after its end.
 * The loop thread. */
uint32_t machine_n_vcpus(const struct machine *machine);
uint64_t machine_ram_bytes(const struct machine *machine);
uint64_t machine_cpu_ns(struct machine *machine, uint32_t vcpu);

/* The core that a vCPU's thread is pinned to; -1: to none, or there is no such thread. The loop thread. */
int machine_core(struct machine *machine, uint32_t vcpu);

enum machine_state machine_state(const struct machine *machine);
const char *machine_state_name(enum machine_state state);
struct machine_counters machine_counters(const struct machine *machine);

/* What the layout gave a domain: its slots are [first_slot, first_slot + n_slots). */
uint32_t machine_first_slot(const struct machine *machine, uint32_t domain);
uint32_t machine_n_slots(const struct machine *machine, uint32_t domain);
uint32_t machine_total_slots(const struct machine *machine);

/* Of each slot of its outbox. */
uint64_t machine_bulk_bytes(const struct machine *machine);

/* What the guest kernel says a domain does: for people, believed in nothing. */
enum domain_run_state machine_domain_state(const struct machine *machine, uint32_t domain);

/* The host's view of the record window; the caller holds its own lock for writing. */
struct slot_record *machine_record(struct machine *machine, uint32_t slot);
struct domain_page *machine_domain_page(struct machine *machine, uint32_t domain);

/*
 * Makes the vCPU look at its domains' event counts, also out of HLT
 * (KVM_SIGNAL_MSI with VECTOR_WAKE). Raise host_events first. Any thread, any state of the vCPU.
 */
void machine_wake(struct machine *machine, uint32_t vcpu);

/* An eventfd that is written when the machine leaves MACHINE_RUNNING; the machine's own. */
int machine_ended_fd(const struct machine *machine);

#endif
