/* The real kernel and library in a real machine. Promises I1, I4, I6, I10; P1, P3, H8, H13. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/guest/world.h"
#include "vmm/stop.h"

static uint64_t deadline(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((uint64_t)now.tv_sec + WORLD_DEADLINE_S) * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The data path takes no exit (design: 4): 10,000 echoed messages cost what connecting costs. */
Test(boot, echo_exchanges_ten_thousand_messages_without_an_exit)
{
	static const struct world_domain domains[] = {
		{.name = "echo", .program = "domains/echo", .service = "echo", .vcpu = 0},
		{.name = "client",
	         .program = "domains/client",
	         .arguments = {"echo", "--spin", "--messages", "10000"},
	         .vcpu = 1},
	};
	struct machine_counters counters;
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 2, 2, WORLD_LOSSLESS);
	world_wait_log(world, 0, "serving echo");
	world_wait_log(world, 1, "connected to echo");
	world_wait_log(world, 1, "10000 messages");
	cr_assert_eq(world_wait_exit(world, 1), 0);
	counters = machine_counters(world_machine(world));
	cr_expect_leq(counters.exits, 60, "%lu exits", counters.exits);
	cr_expect_eq(counters.window_writes, 0);
	world_end(world);
}

/* The server sleeps between messages and the client between its sends: each is a wake-up across vCPUs. I10.
 */
Test(boot, sleeping_ends_wake_each_other_across_vcpus)
{
	static const struct world_domain domains[] = {
		{.name = "echo", .program = "domains/echo", .service = "echo", .vcpu = 0},
		{.name = "client",
	         .program = "domains/client",
	         .arguments = {"echo", "--interval", "1", "--messages", "500"},
	         .vcpu = 1},
	};
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 2, 2, WORLD_LOSSLESS);
	cr_assert_eq(world_wait_exit(world, 1), 0);
	world_end(world);
}

/* Both on one vCPU: nobody spins, each message is a switch there and one back. Long messages, too. */
Test(boot, two_domains_share_a_vcpu)
{
	static const struct world_domain domains[] = {
		{.name = "echo", .program = "domains/echo", .service = "echo"},
		{.name = "client",
	         .program = "domains/client",
	         .arguments = {"echo", "--spin", "--messages", "1000", "--bytes", "5000"}},
	};
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 2, 1, WORLD_LOSSLESS);
	cr_assert_eq(world_wait_exit(world, 1), 0);
	world_end(world);
}

/* A domain that never calls is preempted; vector registers are each domain's own. */
Test(boot, a_spinner_does_not_keep_the_others_from_running)
{
	static const struct world_domain domains[] = {
		{.name = "spinner", .program = "tests/domains/spinner"},
		{.name = "echo", .program = "domains/echo", .service = "echo"},
		{.name = "client",
	         .program = "domains/client",
	         .arguments = {"echo", "--spin", "--messages", "200", "--bytes", "3000"}},
	};
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 3, 1, WORLD_LOSSLESS);
	world_wait_log(world, 0, "spinning");
	cr_assert_eq(world_wait_exit(world, 2), 0);
	cr_assert_not(world_has_ended(world, 0));
	world_end(world);
}

Test(boot, the_library_passes_its_own_test)
{
	static const struct world_domain domains[] = {
		{.name = "self", .program = "tests/domains/selftest", .arguments = {"library"}},
		{.name = "clock", .program = "tests/domains/selftest", .arguments = {"clock"}},
		{.name = "alone", .program = "tests/domains/selftest", .arguments = {"clock"}, .vcpu = 1},
	};
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 3, 2, WORLD_LOSSLESS);
	for (uint32_t i = 0; i < 3; i++)
		cr_assert_eq(world_wait_exit(world, i), 0);
	world_end(world);
}

Test(boot, an_assertion_reaches_the_host_with_file_and_line)
{
	static const struct world_domain domains[] = {
		{.name = "self", .program = "tests/domains/selftest", .arguments = {"assertion"}},
	};
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 1, 1, WORLD_LOSSLESS);
	world_wait_log(world, 0, "selftest.c:");
	cr_assert_eq(world_wait_exit(world, 0), 3);
	world_end(world);
}

/* Wakes for nothing are allowed, and change nothing. */
Test(boot, spurious_wake_ups_do_no_harm)
{
	static const struct world_domain domains[] = {
		{.name = "quiet", .program = "tests/domains/selftest", .arguments = {"quiet"}},
	};
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 1, 1, WORLD_LOSSLESS);
	while (!world_ended_soon(world, 0))
		world_wake(world, 0);
	world_wait_log(world, 0, "passed quiet");
	world_end(world);
}

/* I6: each rule of ring 3 that a domain can break ends that domain, with the right vector, and no other. */
Test(boot, a_fault_ends_its_domain_alone)
{
	static const struct {
		const char *how;
		int vector;
	} faults[] = {
		{"null", 14},       {"heap", 14},   {"stack", 14},  {"text", 14},
		{"rodata", 14},     {"kernel", 14}, {"entry", 14},  {"port", 13},
		{"privileged", 13}, {"divide", 0},  {"illegal", 6}, {"canonical", 13},
	};
	enum {
		N = sizeof(faults) / sizeof(*faults)
	};
	struct world_domain domains[N + 2] = {
		{.name = "echo", .program = "domains/echo", .service = "echo"},
		{.name = "client",
	         .program = "domains/client",
	         .arguments = {"echo", "--interval", "1", "--messages", "300"},
	         .vcpu = 1},
	};
	char name[N][16];
	struct world *world;

	if (world_skipped())
		return;
	for (int i = 0; i < N; i++) {
		snprintf(name[i], sizeof(name[i]), "f-%s", faults[i].how);
		domains[2 + i] = (struct world_domain){.name = name[i],
		                                       .program = "tests/domains/faulter",
		                                       .arguments = {faults[i].how},
		                                       .vcpu = (uint32_t)i % 2};
	}
	world = world_start(domains, N + 2, 2, WORLD_LOSSLESS);
	for (uint32_t i = 0; i < N; i++) {
		cr_expect_eq(world_wait_exit(world, 2 + i), -1, "%s", faults[i].how);
		cr_expect_eq(world_fault_vector(world, 2 + i), faults[i].vector, "%s: vector %d",
		             faults[i].how, world_fault_vector(world, 2 + i));
	}
	cr_assert_eq(world_wait_exit(world, 1), 0);
	cr_expect_eq(machine_state(world_machine(world)), MACHINE_RUNNING);
	world_end(world);
}

/* H8: system calls with every number and argument at a border. H13: stores into the windows. */
Test(boot, bad_calls_and_window_stores_change_nothing)
{
	static const struct world_domain domains[] = {
		{.name = "bad", .program = "tests/domains/bad_calls", .vcpu = 0},
		{.name = "inbox",
	         .program = "tests/domains/window_writer",
	         .arguments = {"inbox"},
	         .vcpu = 1},
		{.name = "record",
	         .program = "tests/domains/window_writer",
	         .arguments = {"record"},
	         .vcpu = 1},
	};
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 3, 2, WORLD_LOSSLESS);
	cr_expect_eq(world_wait_exit(world, 0), 0);
	world_wait_log(world, 0, "bad calls");
	for (uint32_t i = 1; i < 3; i++) {
		cr_expect_eq(world_wait_exit(world, i), -1);
		cr_expect_eq(world_fault_vector(world, i), 14);
	}
	cr_expect_eq(machine_counters(world_machine(world)).window_writes, 0);
	world_end(world);
}

/* H1: a peer that scribbles over its whole outbox: the server says so, and serves the other client. */
Test(boot, a_scribbling_client_breaks_its_own_channel_alone)
{
	static const struct world_domain domains[] = {
		{.name = "echo", .program = "domains/echo", .service = "echo"},
		{.name = "noise",
	         .program = "tests/domains/scribbler",
	         .arguments = {"echo", "200"},
	         .vcpu = 1},
		{.name = "words",
	         .program = "tests/domains/scribbler",
	         .arguments = {"echo", "words", "200"},
	         .vcpu = 1},
		{.name = "client",
	         .program = "domains/client",
	         .arguments = {"echo", "--spin", "--messages", "500"},
	         .vcpu = 1},
	};
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 4, 2, WORLD_LOSSLESS);
	for (uint32_t i = 1; i < 4; i++)
		cr_expect_eq(world_wait_exit(world, i), 0);
	world_wait_log(world, 0, "broken by the peer");
	cr_expect_not(world_has_ended(world, 0));
	world_end(world);
}

/* R5: no traffic, both ends asleep in the call: the cut wakes them with "revoked", and they connect again. */
Test(boot, a_cut_wakes_blocked_calls_with_revoked)
{
	static const struct world_domain domains[] = {
		{.name = "server",
	         .program = "domains/echo",
	         .arguments = {"end", "--hold"},
	         .service = "end"},
		{.name = "relay",
	         .program = "domains/relay",
	         .arguments = {"mid", "end", "--call"},
	         .service = "mid",
	         .vcpu = 1},
		{.name = "client",
	         .program = "domains/client",
	         .arguments = {"mid", "--hold", "--retry", "5"},
	         .vcpu = 1},
	};
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 3, 2, WORLD_LOSSLESS);
	for (uint32_t round = 0; round < 20; round++) {
		world_wait_log(world, 2, "holding mid");
		world_wait_link(world, 2 * round + 1);
		world_cut(world, 2 * round, 2, true, true);
		world_wait_log(world, 2, "revoked in the call");
		world_wait_log(world, 0, "revoked after");
	}
	world_end(world);
}

/* P1, P3: vCPUs that spin, sleep and exchange are stopped and resumed; the exchange goes on unharmed (I4,
 * I10). */
Test(boot, stops_lose_no_message_and_no_wake_up)
{
	static const struct world_domain domains[] = {
		{.name = "echo", .program = "domains/echo", .service = "echo"},
		{.name = "spinner", .program = "tests/domains/spinner"},
		{.name = "client",
	         .program = "domains/client",
	         .arguments = {"echo", "--interval", "0", "--messages", "500"},
	         .vcpu = 1},
	};
	struct stop_report report;
	struct machine *machine;
	struct world *world;
	char why[WHY_BYTES];

	if (world_skipped())
		return;
	world = world_start(domains, 3, 2, WORLD_LOSSLESS);
	machine = world_machine(world);
	world_wait_log(world, 2, "connected to echo");
	while (!world_has_ended(world, 2)) {
		cr_assert_eq(stop_machines(&machine, 1, deadline(), &report, NULL, why), 0, "%s", why);
		cr_assert_eq(resume_machines(&machine, 1, deadline(), why), 0, "%s", why);
	}
	cr_assert_eq(world_wait_exit(world, 2), 0);
	world_end(world);
}
