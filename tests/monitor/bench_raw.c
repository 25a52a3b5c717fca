/* The host's own ping-pongs: each kind carries what it should, and times every round trip. */
#include <criterion/criterion.h>
#include <sched.h>

#include "monitor/bench/raw.h"

#define N_ROUND_TRIPS 20u

static void two_cores(int cores[2])
{
	cpu_set_t set;
	int n = 0;

	cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int core = 0; core < CPU_SETSIZE && n < 2; core++)
		if (CPU_ISSET((size_t)core, &set))
			cores[n++] = core;
	if (n < 2)
		cr_skip_test("one core: two threads that spin for each other would take a slice each time");
}

static void run(enum raw_kind kind, uint32_t bytes)
{
	double times[N_ROUND_TRIPS] = {0};
	struct raw_batch batch = {.bytes = bytes,
	                          .n_round_trips = N_ROUND_TRIPS,
	                          .n_messages = 100, /* more than fit at once */
	                          .round_trip_us = times};
	char why[WHY_BYTES] = "";
	int cores[2];

	two_cores(cores);
	cr_assert_eq(raw_run(kind, cores, &batch, why), 0, "%s", why);
	for (uint32_t i = 0; i < N_ROUND_TRIPS; i++)
		cr_assert_gt(times[i], 0, "round trip %u", i);
	cr_assert_gt(batch.stream_us, 0);
}

Test(bench_raw, shared_memory)
{
	run(RAW_SHARED_MEMORY, 1);
	run(RAW_SHARED_MEMORY, 65536);
}

Test(bench_raw, pipe)
{
	run(RAW_PIPE, 8);
	run(RAW_PIPE, 65536);
}

Test(bench_raw, seqpacket)
{
	run(RAW_SEQPACKET, 8);
	run(RAW_SEQPACKET, 65536);
}

Test(bench_raw, copies)
{
	cr_expect_gt(raw_copy_rate(8), 0);
	cr_expect_gt(raw_copy_rate(65536), 0);
}

Test(bench_raw, a_core_that_is_not_there)
{
	double times[1];
	struct raw_batch batch = {.bytes = 8, .n_round_trips = 1, .round_trip_us = times};
	char why[WHY_BYTES] = "";
	int cores[2] = {0, CPU_SETSIZE - 1};

	cr_assert_lt(raw_run(RAW_PIPE, cores, &batch, why), 0);
	cr_assert_neq(why[0], '\0');
}
