/*
 * A machine without vCPUs: windows and records that this process itself uses. It needs no KVM. Two of them
 * stand for the two ends of a channel.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vmm/futex.h"
#include "vmm/machine.h"
#include "vmm/stop.h"
#include "vmm/window.h"

static struct machine *make(const char *name, uint32_t n_slots)
{
	const struct domain_spec domains[] = {{.name = "in", .n_slots = n_slots},
	                                      {.name = "out", .n_slots = 1}};
	const struct machine_spec spec = {
		.name = name, .n_domains = 2, .domains = domains, .bulk_bytes = DEFAULT_BULK_BYTES};
	struct machine *machine;
	char why[WHY_BYTES];

	cr_assert_eq(machine_create_windows(&spec, &machine, why), 0, "%s", why);
	cr_assert_eq(machine_start(machine, why), 0, "%s", why);
	return machine;
}

Test(host_windows, show_and_sever)
{
	struct machine *reader = make("reader", 3), *writer = make("writer", 3);
	uint32_t slot = machine_first_slot(writer, 1);
	uint64_t *from = window_outbox(writer, slot);
	const uint64_t *to = window_inbox(reader, 2);

	from[0] = 7;
	cr_assert_eq(to[0], 0);
	cr_assert_eq(window_set(reader, 2, writer, slot, WINDOW_ALL), 0);
	cr_assert_eq(to[0], 7);
	cr_assert_eq(window_sever(reader, 0, 3), 0);
	cr_assert_eq(to[0], 0);
	cr_assert_eq(machine_domain_state(reader, 0), DOMAIN_RUNNABLE);
	machine_record(reader, 2)->word = 1;
	cr_assert_eq(machine_record(reader, 2)->word, 1);
	machine_destroy(reader);
	machine_destroy(writer);
}

Test(host_windows, a_wake_is_counted)
{
	struct machine *machine = make("host", 1);
	eventfd_t count;

	cr_assert_geq(machine_wake_fd(machine), 0);
	machine_wake(machine, 0);
	machine_wake(machine, 0);
	cr_assert_eq(eventfd_read(machine_wake_fd(machine), &count), 0);
	cr_assert_eq(count, 2);
	machine_destroy(machine);
}

/* Its reader is this process: a window that became PROT_NONE would end the monitor. */
Test(host_windows, can_be_read_when_killed)
{
	struct machine *reader = make("reader", 1), *writer = make("writer", 1);
	const uint64_t *to = window_inbox(reader, 0);

	cr_assert_eq(window_set(reader, 0, writer, 0, WINDOW_ALL), 0);
	machine_kill(reader);
	cr_assert_eq(machine_state(reader), MACHINE_KILLED);
	cr_assert_eq(to[0], 0);
	machine_destroy(reader);
	machine_destroy(writer);
}

Test(host_windows, a_stop_finds_nobody)
{
	struct machine *machine = make("host", 1);
	struct stop_report report;
	char why[WHY_BYTES];

	cr_assert_eq(stop_machines(&machine, 1, monotonic_ns() + 1000000000u, &report, NULL, why), 0, "%s",
	             why);
	cr_assert_eq(report.n_stopped, 0);
	cr_assert_eq(resume_machines(&machine, 1, monotonic_ns() + 1000000000u, why), 0, "%s", why);
	cr_assert_eq(machine_shutdown(machine, monotonic_ns() + 1000000000u, why), 0, "%s", why);
	machine_destroy(machine);
}

Test(host_windows, bad_numbers_are_refused)
{
	const struct domain_spec domain = {.name = "in", .n_slots = 0};
	const struct machine_spec spec = {.name = "host", .n_domains = 1, .domains = &domain};
	struct machine *machine;
	char why[WHY_BYTES];

	cr_assert_eq(machine_create_windows(&spec, &machine, why), -EINVAL);
	cr_assert(strstr(why, "port in: 0 slots"), "%s", why);
}
