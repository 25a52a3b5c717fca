/*
 * The table of what a flow needs (design: 6), row by row, with real guests: each permission is taken away
 * from an open channel, and the flows that rest on it, and no others, are cut.
 */
#include <string.h>

#include "guest/abi/call.h"
#include "tests/monitor/identity_support.h"

#define SERVICE "system_u:system_r:store_t:s0"

/* As the usual guest, but "svc" has a label of its own. */
static const char MANIFEST[] =
	"name = \"test\"; vcpus = 2; domains = ("
	"{ name = \"one\"; program = \"" TEST_DOMAINS "t_actor.elf\"; vcpu = 0; context = \"" SUBJECT(
		"one_t") "\"; },"
			 "{ name = \"two\"; program = \"" TEST_DOMAINS
			 "t_actor.elf\"; vcpu = 1; context = \"" SUBJECT(
				 "two_t") "\"; offers = ({ name = \"svc\"; context = \"" SERVICE "\"; }); },"
					  "{ name = \"four\"; program = \"" TEST_DOMAINS
					  "t_actor.elf\"; vcpu = 1; context = \"" SUBJECT(
						  "four_t") "\"; offers = (\"aux\"); });";

#define CONNECT "(type store_t) (call a_domain (store_t)) (allow one_t store_t (channel (connect)))"
#define ACCEPT "(allow two_t one_t (channel (accept)))"
#define FLOWS "(call can_flow (one_t two_t)) (call can_flow (two_t one_t))"
#define RULES CONNECT ACCEPT FLOWS

struct row {
	const char *source, *target, *permission;
	const char *states;
	int n_cut;
};

static const struct row rows[] = {
	{"one_t", "store_t", "connect", "cut cut", 2}, {"two_t", "one_t", "accept", "cut cut", 2},
	{"one_t", "two_t", "send", "cut open", 1},     {"two_t", "one_t", "recv", "cut open", 1},
	{"two_t", "one_t", "flowctl", "cut open", 1},  {"two_t", "one_t", "send", "open cut", 1},
	{"one_t", "two_t", "recv", "open cut", 1},     {"one_t", "two_t", "flowctl", "open cut", 1},
};

/* What each end can still do is what the flows' states say. */
static void assert_use(struct world *world, const struct pair *pair, const char *states)
{
	bool there = strncmp(states, "open", 4) == 0, back = strcmp(strchr(states, ' '), " open") == 0;

	cr_assert_eq(pair_send(world, pair, true, 1, 1), there ? CALL_OK : CALL_REVOKED);
	cr_assert_eq(pair_send(world, pair, false, 1, 1), back ? CALL_OK : CALL_REVOKED);
	cr_assert_eq(pair_receive(world, pair, false, 1), there ? 8 : CALL_REVOKED);
	cr_assert_eq(pair_receive(world, pair, true, 1), back ? 8 : CALL_REVOKED);
}

Test(identity, needs_row_by_row)
{
	struct world world;

	world_open(&world, &(struct world_options){.manifest = MANIFEST, .policy = policy_of(RULES)});
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		struct pair pair = pair_open(&world, "one", "two", "svc");
		json_t *report;

		assert_flowing(&world, &pair);
		report = change_planned(&world, to_revoke(row->source, row->target, row->permission),
		                        row->n_cut);
		cr_assert_str_eq(report_text(report, "cuts.0.permissions.0"), row->permission);
		cr_assert_str_eq(report_text(report, "cuts.0.from"),
		                 row->states[0] == 'c' ? "test/one" : "test/two");
		json_decref(report);
		assert_flows(&pair, row->states);
		assert_use(&world, &pair, row->states);
		change_quietly(&world, to_reset(), 0);
		pair_close(&world, &pair);
	}
	world_close(&world);
}

/* The label of a service decides about connect alone; a relabel of its domain leaves it. */
Test(identity, service_with_a_label_of_its_own)
{
	struct world world;
	struct pair pair;

	world_open(&world,
	           &(struct world_options){.manifest = MANIFEST,
	                                   .policy = policy_of(RULES "(allow four_t one_t (channel (accept)))"
	                                                             "(call can_flow (one_t four_t))"
	                                                             "(call can_flow (four_t one_t))")});
	pair = pair_open(&world, "one", "two", "svc");
	change_quietly(&world, to_revoke("one_t", "two_t", "connect"), 0);
	assert_flowing(&world, &pair);
	change_quietly(&world, to_relabel("two", SUBJECT("four_t")), 0);
	assert_flowing(&world, &pair);
	change_quietly(&world, to_revoke("one_t", "four_t", "send"), 1);
	assert_flows(&pair, "cut open");
	change_quietly(&world, to_revoke("*", "store_t", "connect"), 1);
	assert_revoked(&world, &pair);
	world_close(&world);
}

/* A channel that a context is missing for: the policy has forgotten the service's label. */
Test(identity, service_label_forgotten)
{
	struct world world;
	struct pair pair;
	json_t *report;

	world_open(&world, &(struct world_options){.manifest = MANIFEST, .policy = policy_of(RULES)});
	pair = pair_open(&world, "one", "two", "svc");
	report = push_planned(&world, policy_of(ACCEPT FLOWS "(allow one_t two_t (channel (connect)))"),
	                      STOP_ALL, 2);
	cr_assert_str_eq(report_text(report, "cuts.0.permissions.0"), "connect");
	json_decref(report);
	assert_revoked(&world, &pair);
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_DENIED);
	world_close(&world);
}
