/*
 * A run of the differential oracle: the real system beside the model, and one operation after the other
 * on both. Everything is in one static struct, for the test that is running.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_ORACLE_RUN_H
#define PORTCULLIS_TESTS_MONITOR_ORACLE_RUN_H

#include "tests/monitor/oracle_model.h"
#include "tests/monitor/oracle_policy.h"
#include "tests/monitor/world.h"

struct oracle {
	struct world world;
	struct oracle_model model;
	struct oracle_policy policies[N_ORACLE_POLICIES];
	policy_files files[N_ORACLE_POLICIES];
	uint64_t seed, random, n_operations;
	uint64_t n_connects, n_granted, n_changes, n_cut, n_messages;
	char doing[160];
};

extern struct oracle oracle;

#define SAME(got, expected, what)                                                                            \
	cr_assert((int64_t)(got) == (int64_t)(expected),                                                     \
	          "seed %llu, operation %llu, %s: %s is %lld, the model says %lld",                          \
	          (unsigned long long)oracle.seed, (unsigned long long)oracle.n_operations, oracle.doing,    \
	          what, (long long)(got), (long long)(expected))

unsigned pick(unsigned n);
bool chance(unsigned percent);

/* What is being done, for the message of a failure. */
void doing(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *name_of(int domain);
const char *service_name(int service);

/* As in world.h, by number of the domain. */
void until(world_condition *condition, void *opaque, const char *what);
int64_t finish(int domain);
int64_t carry_out(int domain, struct command command);
uint64_t value_of(int domain, unsigned i);

/* The domain's program is in a connect that waits. */
bool is_busy(int domain);

/* One operation each; false: what was drawn cannot be carried out now, and nothing was done. */
bool do_connect(void);
bool do_accept(void);
bool do_close(void);
bool do_send(void);
bool do_receive(void);
bool do_change(void);

#endif
