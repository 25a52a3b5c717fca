/*
 * The differential oracle: random operations and changes are carried out by real guests and by a model of our
 * own (oracle_model.h), and after each one every flow must be in the same state.
 *
 * PORTCULLIS_ORACLE_SEED repeats a run, PORTCULLIS_ORACLE_OPERATIONS makes it longer
 * (3,000 otherwise). A failure names the seed and the operation.
 *
 * A run of 100,000 from seed 100 took nine minutes on two busy cores: 26,500 connects,
 * 34,099 changes, 13,029 flows cut, and no difference. The control build
 * (monitor-control), which takes nothing away, is caught at operation 60 from seed 1.
 */
#include "tests/monitor/oracle_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "guest/abi/call.h"
#include "monitor/loop.h"
#include "tests/monitor/kind_support.h"
#include "tests/support/rounds.h"

#define LOOK_NS 100000ull

struct oracle oracle;

unsigned pick(unsigned n)
{
	return oracle_pick(&oracle.random, n);
}

bool chance(unsigned percent)
{
	return oracle_chance(&oracle.random, percent);
}

void doing(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(oracle.doing, sizeof(oracle.doing), format, arguments);
	va_end(arguments);
}

/* ---- the guest ---- */

const char *name_of(int domain)
{
	static const char *const names[N_ORACLE_DOMAINS] = {"d0", "d1", "d2", "d3", "d4"};

	return names[domain];
}

const char *service_name(int service)
{
	static const char *const names[N_ORACLE_DOMAINS + 1] = {"s0", "s1", "s2", "s3", "s4", "m"};

	return names[service];
}

/* Of two guests the first has domains 0 to 2, which find "m" in the other. */
#define D(name, vcpu, type)                                                                                  \
	"{ name = \"" name "\"; program = \"" TEST_DOMAINS "t_actor.elf\"; vcpu = " vcpu                     \
	"; context = \"" SUBJECT(type) "\"; offers = "
#define LABELLED(name, type) "{ name = \"" name "\"; context = \"" SUBJECT(type) "\"; }"
#define DOMAIN_0 D("d0", "0", "t0_t") "( \"s0\" ); }"
#define DOMAIN_1 D("d1", "1", "t1_t") "( \"s1\" ); }"
#define DOMAIN_2 D("d2", "0", "t2_t") "( \"s2\" ); }"
#define DOMAIN_3 D("d3", "1", "t3_t") "( " LABELLED("s3", "t5_t") ", " LABELLED("m", "t6_t") " ); }"
#define DOMAIN_4 D("d4", "0", "t4_t") "( \"s4\", " LABELLED("m", "t6_t") " ); }"
#define FIRST_DOMAINS DOMAIN_0 "," DOMAIN_1 "," DOMAIN_2
#define LAST_DOMAINS DOMAIN_3 "," DOMAIN_4
#define GUEST(name) "name = \"" name "\"; vcpus = 2; bulk_bytes = 4096; domains = ( "

static const char ONE_GUEST[] = GUEST("test") FIRST_DOMAINS "," LAST_DOMAINS " );";
static const char TWO_GUESTS[] =
	"guests = ( { " GUEST("test") FIRST_DOMAINS " ); }, { " GUEST("other") LAST_DOMAINS " ); } );";

/* As world_until, but it looks more often: a run is tens of thousands of short waits. */
void until(world_condition *condition, void *opaque, const char *what)
{
	struct loop *loop = oracle.world.monitor->loop;
	uint64_t end = loop_now() + (uint64_t)(WAIT_SECONDS * 1e9);

	while (!condition(&oracle.world, opaque)) {
		uint64_t now = loop_now();

		cr_assert_lt(now, end, "seed %llu, operation %llu, %s: waited in vain: %s",
		             (unsigned long long)oracle.seed, (unsigned long long)oracle.n_operations,
		             oracle.doing, what);
		loop_step(loop, now + LOOK_NS);
	}
}

static bool is_done(struct world *world, void *opaque)
{
	return actor_is_done(world, opaque);
}

int64_t finish(int domain)
{
	until(is_done, (void *)name_of(domain), name_of(domain));
	return world_mailbox(&oracle.world, name_of(domain))->result;
}

int64_t carry_out(int domain, struct command command)
{
	actor_begin(&oracle.world, name_of(domain), command);
	return finish(domain);
}

uint64_t value_of(int domain, unsigned i)
{
	return world_mailbox(&oracle.world, name_of(domain))->value[i];
}

/* The domain's program is in a connect that waits. */
bool is_busy(int domain)
{
	for (size_t i = 0; i < oracle.model.n_channels; i++)
		if (oracle.model.channels[i].blocked && oracle.model.channels[i].domain[0] == domain)
			return true;
	return false;
}

/* ---- both are the same ---- */

static const enum oracle_state model_states[] = {
	[FLOW_DENIED] = ORACLE_DENIED, [FLOW_PENDING] = ORACLE_PENDING, [FLOW_OPEN] = ORACLE_OPEN,
	[FLOW_CUT] = ORACLE_CUT,       [FLOW_CLOSED] = ORACLE_CLOSED,
};

static void compare_channel(const struct channel *real, const struct oracle_channel *model)
{
	char identity[64];

	SAME(real->number, model->number, "a channel's number");
	snprintf(identity, sizeof(identity), SUBJECT("t%d_t"), model->identity);
	cr_assert_str_eq(sid_context(oracle.world.monitor->posture->sids, real->client_sid), identity,
	                 "seed %llu, operation %llu, %s: identity", (unsigned long long)oracle.seed,
	                 (unsigned long long)oracle.n_operations, oracle.doing);
	SAME(real->parent ? real->parent->number : 0,
	     model->parent >= 0 ? oracle.model.channels[model->parent].number : 0, "a parent");
	for (int side = 0; side < 2; side++) {
		cr_assert_str_eq(real->end[side].domain->name, name_of(model->domain[side]));
		SAME(real->end[side].fate == END_HELD, model->held[side], "whether an end is held");
		SAME(model_states[real->flow[side].state], model->flow[side].state, "a flow's state");
		SAME(real->flow[side].flowctl, model->flow[side].flowctl, "flow control");
	}
}

static void compare(void)
{
	struct registry *registry = registry_lock(oracle.world.monitor);
	const struct channel *real = registry->first;

	SAME(registry->n_channels, oracle.model.n_channels, "the number of channels");
	for (size_t i = 0; i < oracle.model.n_channels; i++, real = real->next)
		compare_channel(real, &oracle.model.channels[i]);
	registry_unlock(registry);
	SAME(oracle.world.monitor->posture->policy_number, oracle.model.policy_number, "the policy number");
}

/* ---- a run ---- */

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static void draw_policies(void)
{
	for (int i = 0; i < N_ORACLE_POLICIES; i++) {
		oracle_policy_draw(&oracle.policies[i], &oracle.random, i == 0);
		oracle.files[i] = oracle_policy_files(&oracle.policies[i]);
	}
}

static void open_world(const char *manifest)
{
	draw_policies();
	world_open(&oracle.world, &(struct world_options){.manifest = manifest, .policy = oracle.files[0]});
	oracle.model.posture = (struct oracle_posture){.policy = &oracle.policies[0], .enforcing = true};
	for (int i = 0; i < N_ORACLE_DOMAINS; i++)
		oracle.model.posture.type[i] = i;
	oracle.model.policy_number = 1;
}

static bool draw_operation(void)
{
	unsigned draw = pick(100);

	if (draw < 32)
		return do_connect();
	if (draw < 40)
		return do_accept();
	if (draw < 48)
		return do_close();
	if (draw < 68)
		return do_send();
	if (draw < 86)
		return do_receive();
	return do_change();
}

static void operate(void)
{
	while (!draw_operation())
		;
	compare();
}

/* R1 to R14, I1, I4, I5, I8 at once: whatever happened before, flows are as the decisions say. */
static void run(const char *manifest, uint64_t operations)
{
	uint64_t n = number_from("PORTCULLIS_ORACLE_OPERATIONS", operations);

	oracle.seed = oracle.random = number_from("PORTCULLIS_ORACLE_SEED", 1);
	open_world(manifest);
	for (oracle.n_operations = 1; oracle.n_operations <= n; oracle.n_operations++)
		operate();
	fprintf(stderr,
	        "oracle: seed %llu: %llu operations: %llu connects, %llu granted, %llu messages, %llu "
	        "changes, "
	        "%llu flows cut; every flow as the model says\n",
	        (unsigned long long)oracle.seed, (unsigned long long)n, (unsigned long long)oracle.n_connects,
	        (unsigned long long)oracle.n_granted, (unsigned long long)oracle.n_messages,
	        (unsigned long long)oracle.n_changes, (unsigned long long)oracle.n_cut);
	cr_assert_gt(oracle.n_cut, 0);
	world_close(&oracle.world);
}

Test(oracle, flows_are_what_decisions_say)
{
	run(ONE_GUEST, SAMPLED(3000));
}

/* The same where channels cross between guests: the model does not know the difference. */
Test(oracle, flows_between_guests_are_what_decisions_say)
{
	run(TWO_GUESTS, SAMPLED(1000));
}
