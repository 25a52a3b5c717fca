/*
 * The data path takes no exit (design: 4): 100,000 messages between two domains on two
 * vCPUs, against the exits to user space that all vCPUs took meanwhile.
 */
#include <criterion/criterion.h>
#include <sched.h>

#include "monitor/bench/ipc_guest.h"
#include "policy/launcher.h"
#include "tests/monitor/cli_child.h"

#define N_MESSAGES 100000u

/*
 * The domain's log line at the end is one exit. A vCPU that the host takes off its core, a signal,
 * a domain that loses patience and sleeps: none of them is one, since halting and
 * waking stay in KVM. 100 leaves room for whatever a KVM may return for besides,
 * and is a thousandth of what one exit a message would be.
 */
#define MOST_EXITS 100u

Test(bench_exits, a_message_takes_none)
{
	struct launcher *launcher;
	char why[WHY_BYTES] = "";
	uint64_t exits = 0;
	cpu_set_t set;

	need_kvm();
	cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	if (CPU_COUNT(&set) < 2)
		cr_skip_test("one core: two vCPUs that spin for each other would take a slice each time");
	cr_assert_eq(launcher_start(&launcher, why), 0, "%s", why);
	cr_assert_eq(ipc_count_exits(launcher, "build/domains", N_MESSAGES, &exits, why), 0, "%s", why);
	launcher_stop(launcher);
	cr_assert_geq(exits, 1, "the log line is an exit: nothing was counted");
	cr_assert_lt(exits, MOST_EXITS, "%llu exits for %u messages", (unsigned long long)exits, N_MESSAGES);
}
