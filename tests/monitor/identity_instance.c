/* Polyinstantiation (F6): one name, several instances, and the member decision says which a client gets. */
#include <string.h>

#include "guest/abi/call.h"
#include "tests/monitor/identity_support.h"

#define AT(type, level) "system_u:system_r:" type ":" level
#define ACTOR(name, vcpu, context, more)                                                                     \
	"{ name = \"" name "\"; program = \"" TEST_DOMAINS "t_actor.elf\"; vcpu = " vcpu                     \
	"; context = \"" context "\";" more " }"
#define STORE "offers = ({ name = \"store\"; context = \"" AT("store_t", "s0") "\"; });"

/* two keeps the store of s0, four that of s1; one and three are clients at these levels. */
static const char MANIFEST[] =
	"name = \"test\"; vcpus = 2; domains = (" ACTOR("one", "0", AT("one_t", "s0"), "") "," ACTOR(
		"two", "1", AT("two_t", "s0"), STORE) "," ACTOR("three", "0", AT("one_t", "s1"),
                                                                "") "," ACTOR("four", "1", AT("two_t", "s1"),
                                                                              STORE) ");";

#define RULES                                                                                                \
	"(type store_t) (call a_domain (store_t)) (allow one_t store_t (channel (connect)))"                 \
	"(allow two_t one_t (channel (accept)))"                                                             \
	"(allow store_t one_t (channel (accept)))"                                                           \
	"(call can_flow (one_t two_t)) (call can_flow (two_t one_t))"                                        \
	"(call can_flow (one_t store_t)) (call can_flow (store_t one_t))"
#define BY_LEVEL RULES "(typemember one_t store_t channel two_t)"
/* A member rule that names a type that no instance has. */
#define ELSEWHERE RULES "(typemember one_t store_t channel three_t)"

static void instances(struct world *world, const char *rules)
{
	world_open(world, &(struct world_options){.manifest = MANIFEST, .policy = policy_of(rules)});
}

Test(identity, instance_of_the_clients_level)
{
	struct world world;
	struct pair low, high;

	instances(&world, BY_LEVEL);
	low = pair_open(&world, "one", "two", "store");
	high = pair_open(&world, "three", "four", "store");
	assert_flowing(&world, &low);
	assert_flowing(&world, &high);
	cr_assert_str_eq(peer_of(&world, &high, true), AT("two_t", "s1"));
	/* Policies that say the same of them leave them alone. */
	json_decref(push_planned(&world, policy_of(BY_LEVEL "(type more_t)"), STOP_ALL, 0));
	assert_flowing(&world, &high);
	world_close(&world);
}

/* Without a rule the service's own type and level count; here no instance has them. */
Test(identity, no_rule_no_instance)
{
	struct world world;
	struct pair pair;

	instances(&world, RULES);
	cr_assert_eq(connect_result(&world, "one", "store"), CALL_NO_SERVICE);
	cr_assert_eq(connect_result(&world, "three", "store"), CALL_NO_SERVICE);
	change_quietly(&world, to_relabel("two", AT("store_t", "s0")), 0);
	pair = pair_open(&world, "one", "two", "store");
	assert_flowing(&world, &pair);
	world_close(&world);
}

Test(identity, member_rule_without_instance)
{
	struct world world;

	instances(&world, ELSEWHERE);
	cr_assert_eq(connect_result(&world, "one", "store"), CALL_NO_SERVICE);
	/* The answer follows a push, as any other. */
	json_decref(push_planned(&world, policy_of(BY_LEVEL), STOP_ALL, 0));
	(void)pair_open(&world, "one", "two", "store");
	world_close(&world);
}

/* A push, a boolean and a relabel that name another instance cut, and say why. */
Test(identity, another_instance_cuts)
{
	struct world world;
	struct pair low, high;
	json_t *report;

	instances(&world, BY_LEVEL);
	low = pair_open(&world, "one", "two", "store");
	high = pair_open(&world, "three", "four", "store");
	report = push_planned(&world, policy_of(ELSEWHERE), STOP_ALL, 4);
	cr_assert_str_eq(report_text(report, "cuts.0.reason"),
	                 "the member decision gives this client another instance");
	cr_assert_eq(json_array_size(json_object_get(json_array_get(json_object_get(report, "cuts"), 0),
	                                             "permissions")),
	             0);
	json_decref(report);
	assert_revoked(&world, &low);
	assert_revoked(&world, &high);
	cr_assert_eq(connect_result(&world, "one", "store"), CALL_NO_SERVICE);

	json_decref(push_planned(&world,
	                         policy_of(RULES "(boolean here true) (booleanif here"
	                                         " (true (typemember one_t store_t channel two_t))"
	                                         " (false (typemember one_t store_t channel three_t)))"),
	                         STOP_ALL, 0));
	low = pair_open(&world, "one", "two", "store");
	change_quietly(&world, to_boolean("here", false), 2);
	assert_revoked(&world, &low);
	change_quietly(&world, to_boolean("here", true), 0);

	high = pair_open(&world, "three", "four", "store");
	/* Its client is of the other level now, so the other store is meant. */
	change_quietly(&world, to_relabel("three", AT("one_t", "s0")), 2);
	assert_revoked(&world, &high);
	high = pair_open(&world, "three", "two", "store");
	assert_flowing(&world, &high);
	/* Not planned first: a context that is new gets its handle from the plan already. */
	json_decref(change_do(&world, to_relabel("two", AT("two_t", "s2"))));
	assert_revoked(&world, &high);
	world_close(&world);
}

/* On behalf of a client one gets that client's instance. */
Test(identity, instance_of_an_effective_identity)
{
	static const char manifest[] =
		"name = \"test\"; vcpus = 2; domains = (" ACTOR("one", "0", AT("one_t", "s1"), "") "," ACTOR(
			"two", "1", AT("two_t", "s0"),
			STORE) "," ACTOR("three", "0", AT("three_t", "s0-s1"),
	                                 "offers = (\"rel\");") "," ACTOR("four", "1", AT("two_t", "s1"),
	                                                                  STORE) ");";
	struct world world;
	struct pair first, second;

	world_open(&world,
	           &(struct world_options){
			   .manifest = manifest,
			   .policy = policy_of(
				   BY_LEVEL "(call can_open (one_t three_t)) (call can_flow (one_t three_t))"
					    "(call can_relay (three_t one_t))")});
	first = pair_open(&world, "one", "three", "rel");
	assert_flows(&first, "open denied");
	second = pair_open_for(&world, &first, "four", "store");
	cr_assert_str_eq(peer_of(&world, &second, false), AT("one_t", "s1"));
	assert_flows(&second, "open denied");
	world_close(&world);
}

/* Instances share the context that their name had at the start, though one of their domains is relabelled. */
Test(identity, relabel_of_an_instance)
{
	static const char manifest[] =
		"name = \"test\"; vcpus = 2; domains = (" ACTOR("one", "0", AT("one_t", "s0"), "") "," ACTOR(
			"two", "1", AT("two_t", "s0"),
			"offers = (\"svc\");") "," ACTOR("four", "1", AT("two_t", "s0"),
	                                                 "offers = (\"svc\");") ");";
	struct world world;
	struct pair pair;

	world_open(&world, &(struct world_options){.manifest = manifest});
	pair = pair_open(&world, "one", "two", "svc");
	json_decref(change_do(&world, to_relabel("two", AT("four_t", "s0"))));
	assert_revoked(&world, &pair);
	/* The other one has the service's type and level, and is the only one that has. */
	pair = pair_open(&world, "one", "four", "svc");
	assert_flowing(&world, &pair);
	world_close(&world);
}
