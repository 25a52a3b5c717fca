#include "vmm/oracle.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "guest/abi/oracle.h"
#include "vmm/futex.h"
#include "vmm/machine.h"
#include "vmm/window.h"

#define PATIENCE_NS 10000000000u /* for one step of the reader, which takes microseconds */
#define PAUSE_NS 20000
#define READINGS_AFTER_CUT 16u

/* oracle_blob.S */
extern const uint8_t oracle_elf[];
extern const uint64_t oracle_elf_bytes;

struct oracle {
	struct machine *machine;
	char crash[WHY_BYTES]; /* written before the machine's state changes to crashed */
	char *why;
};

static int64_t on_request(void *owner, const struct guest_request *request)
{
	(void)owner;
	return request->call == HYPERCALL_READY ? CALL_OK : CALL_DENIED;
}

static void on_crash(void *owner, const struct machine_crash *crash)
{
	struct oracle *oracle = owner;

	memcpy(oracle->crash, crash->text, sizeof(oracle->crash));
}

static int create(struct oracle *oracle, int kvm_fd)
{
	static const struct machine_handlers handlers = {.request = on_request, .crashed = on_crash};
	const struct domain_spec domain = {
		.name = "oracle",
		.image_name = "built-in image",
		.image = oracle_elf,
		.image_bytes = oracle_elf_bytes,
		.n_slots = ORACLE_SLOTS,
		.heap_bytes = DEFAULT_HEAP_BYTES,
		.stack_bytes = DEFAULT_STACK_BYTES,
		.data_fd = -1,
	};
	const struct machine_spec spec = {
		.name = "oracle",
		.n_vcpus = 1,
		.n_domains = 1,
		.domains = &domain,
		.bulk_bytes = ORACLE_BULK_BYTES,
		.kvm_fd = kvm_fd,
	};
	int error = machine_create(&spec, &handlers, oracle, &oracle->machine, oracle->why);

	if (error != 0)
		return error;
	machine_place(oracle->machine, 1); /* this thread's share is the first */
	return machine_start(oracle->machine, oracle->why);
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static const struct oracle_report *report_of(const struct oracle *oracle)
{
	return window_outbox(oracle->machine, ORACLE_REPORT_SLOT);
}

/* The peer's part: the same value in all places of the source's outbox. */
static void source_write(struct oracle *oracle, uint64_t value)
{
	char *outbox = window_outbox(oracle->machine, ORACLE_SOURCE_SLOT);

	for (uint32_t i = 0; i < ORACLE_PLACES; i++)
		__atomic_store_n((uint64_t *)(outbox + oracle_place[i]), value, __ATOMIC_RELEASE);
}

/* Waits until *word, which the reader writes, is wanted or more. Sleeps between looks: the reader may need
 * the core. */
static int wait_for(struct oracle *oracle, const uint64_t *word, uint64_t wanted, const char *what)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t deadline_ns = monotonic_ns() + PATIENCE_NS;

	while (load(word) < wanted) {
		if (machine_state(oracle->machine) != MACHINE_RUNNING) {
			snprintf(oracle->why, WHY_BYTES, "the reader's guest has %s: %.400s",
			         machine_state_name(machine_state(oracle->machine)), oracle->crash);
			return -EIO;
		}
		if (monotonic_ns() > deadline_ns) {
			snprintf(oracle->why, WHY_BYTES, "the reader does not get on: in vain for %s", what);
			return -ETIMEDOUT;
		}
		ppoll(NULL, 0, &pause, NULL);
	}
	return 0;
}

static int slot_open(struct oracle *oracle, uint64_t value)
{
	source_write(oracle, value);
	int error = window_set(oracle->machine, ORACLE_READER_SLOT, oracle->machine, ORACLE_SOURCE_SLOT,
	                       WINDOW_ALL);

	if (error != 0) {
		snprintf(oracle->why, WHY_BYTES, "mapping of a slot: %s", strerror(-error));
		return error;
	}
	return wait_for(oracle, &report_of(oracle)->highest, value, "the value of an open slot");
}

static int slot_cut(struct oracle *oracle, struct oracle_result *result)
{
	uint64_t begin_ns = monotonic_ns();
	int error = window_sever(oracle->machine, ORACLE_READER_SLOT, 1);
	uint64_t cut_ns = monotonic_ns() - begin_ns;

	if (error != 0)
		snprintf(oracle->why, WHY_BYTES, "cut of a slot: %s", strerror(-error));
	if (cut_ns > result->cut_ns_max)
		result->cut_ns_max = cut_ns;
	return error;
}

static int round_run(struct oracle *oracle, uint64_t number, bool sever, struct oracle_result *result)
{
	const struct oracle_report *report = report_of(oracle);
	const uint64_t open_value = 2 * number + 1, cut_value = open_value + 1;
	int error = slot_open(oracle, open_value);

	if (error == 0 && sever)
		error = slot_cut(oracle, result);
	if (error != 0)
		return error;
	/* Reading `begun` may have started before the cut returned; those after it have not. */
	const uint64_t begun = load(&report->readings) + 1;
	source_write(oracle, cut_value);
	error = wait_for(oracle, &report->readings, begun + READINGS_AFTER_CUT, "readings after a cut");
	if (error != 0)
		return error;
	result->rounds++;
	result->readings += load(&report->readings) - begun;
	if (load(&report->highest) >= cut_value || load(&report->last_nonzero) > begun)
		result->escapes++;
	return 0;
}

int oracle_run(int kvm_fd, uint32_t rounds, bool sever, struct oracle_result *result,
               char why[static WHY_BYTES])
{
	struct oracle oracle = {.why = why};

	*result = (struct oracle_result){0};
	int error = create(&oracle, kvm_fd);
	for (uint64_t i = 0; error == 0 && i < rounds; i++)
		error = round_run(&oracle, i, sever, result);
	machine_destroy(oracle.machine);
	return error;
}
