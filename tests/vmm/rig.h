/*
 * A machine with a test kernel, and what its handlers saw. One test thread
 * makes and ends it; handlers run on vCPU threads and only touch atomics and, under the lock, the latest
 * texts.
 *
 * Kernels come from build/tests/kernels: run the suite from the top of the tree.
 */
#ifndef PORTCULLIS_TEST_VMM_RIG_H
#define PORTCULLIS_TEST_VMM_RIG_H

#include <criterion/criterion.h>
#include <pthread.h>

#include "tests/hostile/mailbox.h"
#include "vmm/futex.h"
#include "vmm/machine_state.h"
#include "vmm/stop.h"

#define RIG_PATIENCE_NS 60000000000ull

struct rig {
	struct machine *machine;
	char why[WHY_BYTES];

	/* Atomic. */
	uint64_t n_ready, n_requests, n_logs, n_lost, n_crashes, n_domain_crashes, n_rang, n_bad;

	pthread_mutex_t lock;
	struct machine_crash crash; /* under lock: the latest */
	char log[MAX_LOG_BYTES + 1];
	struct guest_request request;
};

struct rig_spec {
	const char *kernel; /* name in build/tests/kernels; NULL: the real one */
	uint32_t n_vcpus;
	uint32_t n_domains; /* 0: one per vCPU; domain i is on vCPU i % n_vcpus */
	const void *image;  /* of all domains; NULL: one that counts in its call page, see rig_count */
	size_t image_bytes;
	const char *const *arguments;
	uint32_t n_arguments;
	int data_fd; /* 0: none */
	uint64_t data_bytes;
	void (*hook)(struct vcpu *vcpu);
};

/* Skips the test where there is no /dev/kvm; fails it there if CI=true. Returns the descriptor. */
int rig_kvm(void);

/* A machine that has not started. */
void rig_create(struct rig *rig, const struct rig_spec *spec);
void rig_start(struct rig *rig);
void rig_destroy(struct rig *rig);

/* Stops and resumes; they must succeed. */
struct stop_report rig_stop(struct rig *rig);
void rig_resume(struct rig *rig);

struct mailbox *rig_mail(struct rig *rig, uint32_t vcpu);
uint64_t rig_counter(struct rig *rig, uint32_t vcpu);

/* The word that the domain of the built-in image counts in. */
uint64_t rig_count(struct rig *rig, uint32_t domain);

enum stop_state rig_state(struct rig *rig, uint32_t vcpu);

uint64_t rig_load(const uint64_t *word);

/* Lets others run for a moment; only within UNTIL. */
void rig_pause(void);

/* Waits for progress of another thread or of the guest. */
#define UNTIL(condition)                                                                                     \
	do {                                                                                                 \
		uint64_t until_deadline_ns = monotonic_ns() + RIG_PATIENCE_NS;                               \
		while (!(condition)) {                                                                       \
			cr_assert(monotonic_ns() < until_deadline_ns, "in vain: " #condition);               \
			rig_pause();                                                                         \
		}                                                                                            \
	} while (0)

/* A static ELF with one executable segment at VA_IMAGE that holds code; from malloc. */
void *image_make(const void *code, size_t code_bytes, size_t *image_bytes);

void *file_read(const char *path, size_t *bytes);

#endif
