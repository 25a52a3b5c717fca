/*
 * Real vCPUs under the thread sanitizer: stops, resumes, wake-ups, windows and
 * counters from several threads, and the three ways to end. Where there is no /dev/kvm it says so.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vmm/futex.h"
#include "vmm/machine.h"
#include "vmm/stop.h"
#include "vmm/window.h"

#define N_VCPUS 2
#define N_ROUNDS 300
#define PATIENCE_NS 60000000000ull

/* The oracle's reader: a domain that spins and is built in. */
extern const uint8_t oracle_elf[];
extern const uint64_t oracle_elf_bytes;

static int n_passed, n_failed;

static void expect(bool holds, const char *what)
{
	if (holds) {
		n_passed++;
		return;
	}
	n_failed++;
	fprintf(stderr, "failed: %s\n", what);
}

static struct machine *machine_open(int kvm_fd)
{
	static const struct machine_handlers nobody;
	struct domain_spec domains[N_VCPUS];
	char why[WHY_BYTES];
	struct machine *machine;

	for (uint32_t i = 0; i < N_VCPUS; i++)
		domains[i] = (struct domain_spec){
			.name = "reader",
			.image = oracle_elf,
			.image_bytes = oracle_elf_bytes,
			.vcpu = i,
			.n_slots = 4,
			.heap_bytes = DEFAULT_HEAP_BYTES,
			.stack_bytes = DEFAULT_STACK_BYTES,
			.data_fd = -1,
		};
	const struct machine_spec spec = {
		.name = "m",
		.n_vcpus = N_VCPUS,
		.n_domains = N_VCPUS,
		.domains = domains,
		.bulk_bytes = 65536,
		.kvm_fd = kvm_fd,
	};
	if (machine_create(&spec, &nobody, NULL, &machine, why) != 0 || machine_start(machine, why) != 0) {
		fprintf(stderr, "%s\n", why);
		exit(1);
	}
	return machine;
}

static void *stopper(void *argument)
{
	struct machine *machine = argument;
	char why[WHY_BYTES];

	for (int i = 0; i < N_ROUNDS; i++)
		if (stop_machines(&machine, 1, monotonic_ns() + PATIENCE_NS, NULL, NULL, why) != 0 ||
		    resume_machines(&machine, 1, monotonic_ns() + PATIENCE_NS, why) != 0)
			return "stop or resume";
	return NULL;
}

static void *meddler(void *argument)
{
	struct machine *machine = argument;

	for (uint32_t i = 0; i < N_ROUNDS; i++) {
		machine_wake(machine, i % N_VCPUS);
		if (window_set(machine, 0, machine, 2, i % 2 == 0 ? WINDOW_ALL : WINDOW_HEADER) != 0 ||
		    window_sever(machine, 0, 1) != 0)
			return "window";
		(void)machine_counters(machine);
		(void)machine_domain_state(machine, 0);
		(void)machine_stop_count(machine);
	}
	return NULL;
}

static void all_at_once(int kvm_fd)
{
	struct machine *machine = machine_open(kvm_fd);
	void *(*const work[])(void *) = {stopper, stopper, meddler};
	pthread_t thread[3];
	bool good = true;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, work[i], machine);
	for (int i = 0; i < 3; i++) {
		void *complaint;

		pthread_join(thread[i], &complaint);
		good = good && complaint == NULL;
	}
	expect(good, "two stoppers and a meddler");
	expect(machine_stop_count(machine) == 0, "no stop is left");
	machine_destroy(machine);
}

static void endings(int kvm_fd)
{
	for (int i = 0; i < 20; i++) {
		struct machine *machine = machine_open(kvm_fd);
		char why[WHY_BYTES];

		if (i % 2 == 0)
			stop_machines(&machine, 1, monotonic_ns() + PATIENCE_NS, NULL, NULL, why);
		if (i % 3 == 0)
			machine_kill(machine);
		else if (i % 3 == 1)
			machine_shutdown(machine, monotonic_ns() + PATIENCE_NS, why);
		machine_destroy(machine);
	}
	expect(true, "twenty ends");
}

int main(void)
{
	char why[WHY_BYTES];
	int kvm_fd = machine_open_kvm(why);

	if (kvm_fd < 0) {
		const char *ci = getenv("CI");
		bool must = ci != NULL && strcmp(ci, "true") == 0;

		fprintf(stderr, "skipped: %s\n", why);
		printf("0 passed, %d failed\n", must);
		return must;
	}
	all_at_once(kvm_fd);
	endings(kvm_fd);
	close(kvm_fd);
	printf("%d passed, %d failed\n", n_passed, n_failed);
	return n_failed != 0;
}
