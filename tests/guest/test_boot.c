/* The real kernel and library in a real machine: boot, logs, traffic. Promises I4, I10. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/guest/world.h"

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
	cr_expect_leq(counters.exits, 40, "%lu exits", counters.exits);
	cr_expect_eq(counters.window_writes, 0);
	world_end(world);
}
