/*
 * Connects that are under way when something changes (P11): in the middle of mediation, with their decisions
 * still to come, and at the gate. Each is decided by what holds when it is decided, and never half.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "tests/monitor/identity_support.h"
#include "tests/monitor/world_proxy.h"

/* Waits for the monitor's own doorbell, so that its loop has not yet looked at what has come. */
static void wait_for_kick(struct world *world)
{
	struct pollfd kick = {.fd = world->monitor->registry->kick_fd, .events = POLLIN};

	cr_assert_eq(poll(&kick, 1, 60000), 1);
}

/* Refused, or granted just before and cut: which of both depends on who is faster. */
static bool is_refused(int64_t result, int64_t expected)
{
	return result == expected || result == CALL_REVOKED;
}

/* The change comes while one's connect waits for its first decisions. CALL_OK: it leaves the connect alone.
 */
static void assert_refused(struct change_request request, int64_t result)
{
	struct world world;
	int64_t got;

	world_open(&world, NULL);
	world_turn(&world);
	actor_begin(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"});
	wait_for_kick(&world);
	json_decref(change_do(&world, request));
	if (result == CALL_OK)
		cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL}),
		             CALL_OK);
	got = actor_finish(&world, "one");
	cr_assert(result == CALL_OK ? got == CALL_OK : is_refused(got, result), "connect: %lld",
	          (long long)got);
	cr_assert_eq(world.monitor->registry->n_channels, result == CALL_OK);
	world_close(&world);
}

Test(kind, p11_quarantine_of_the_client)
{
	assert_refused(to_quarantine("one"), CALL_QUARANTINED);
}

Test(kind, p11_quarantine_of_the_server)
{
	assert_refused(to_quarantine("two"), CALL_DENIED);
}

Test(kind, p11_relabel_of_the_client)
{
	assert_refused(to_relabel("one", SUBJECT("two_t")), CALL_DENIED);
}

Test(kind, p11_relabel_of_the_server)
{
	assert_refused(to_relabel("two", SUBJECT("one_t")), CALL_DENIED);
}

Test(kind, p11_overlay)
{
	assert_refused(to_revoke("one_t", "*", "connect"), CALL_DENIED);
}

Test(kind, p11_change_that_leaves_it)
{
	assert_refused(to_revoke("three_t", "*", "connect"), CALL_OK);
}

/* A connect on behalf of a client that is cut, or goes, meanwhile. */
Test(kind, p11_parent_is_cut)
{
	struct world world;
	struct pair first;

	chain_world(&world, RULES_CHAIN);
	first = pair_open(&world, "one", "two", "svc");
	world_turn(&world);
	actor_begin(&world, "two", (struct command){ACTOR_CONNECT_FOR, {first.at_server, NO_TIMEOUT}, "rel"});
	wait_for_kick(&world);
	json_decref(change_do(&world, to_cut(first.channel->number)));
	cr_assert(is_refused(actor_finish(&world, "two"), CALL_DENIED));
	cr_assert_eq(world.monitor->registry->n_channels, 1);
	world_close(&world);
}

static bool is_held(struct world *world, void *opaque)
{
	(void)world;
	(void)opaque;
	return proxy_fired();
}

/* Answers until one is connected to two; with n, the nth is held while one closes what two connects for. */
static unsigned close_while_deciding(unsigned n)
{
	struct world world;
	struct pair first;
	unsigned answers;

	proxy_arm(n ? PROXY_HOLD : PROXY_NONE, n);
	chain_world(&world, RULES_CHAIN);
	first = pair_open(&world, "one", "two", "svc");
	answers = proxy_answers();
	if (n) {
		actor_begin(&world, "two",
		            (struct command){ACTOR_CONNECT_FOR, {first.at_server, NO_TIMEOUT}, "rel"});
		world_until(&world, is_held, NULL, "the first answer about the connect is held");
		cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {first.at_client}, NULL}),
		             CALL_OK);
		proxy_let_go();
		cr_assert_eq(actor_finish(&world, "two"), CALL_NOT_OPEN);
	}
	world_close(&world);
	return answers;
}

/* Its client closes meanwhile: in whose name would it be? */
Test(kind, p11_parent_closes)
{
	(void)close_while_deciding(close_while_deciding(0) + 1);
}

/* ---- at the gate ---- */

struct ending {
	bool done;
	int status;
};

static void on_done(void *opaque, int status, json_t *report, const char *why)
{
	struct ending *ending = opaque;

	(void)why;
	ending->done = true;
	ending->status = status;
	json_decref(report);
}

static bool has_ended(struct world *world, void *opaque)
{
	(void)world;
	return ((struct ending *)opaque)->done;
}

/*
 * From the end of prepare to the end of commit connects wait, those that would be granted either way too;
 * then the new number decides.
 */
Test(kind, p11_connects_wait_at_the_gate)
{
	struct world world;
	struct policy_source sources[4];
	struct change_request push;
	struct ending ending = {0};
	struct pair pair;
	char why[WHY_BYTES];
	unsigned answers;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	proxy_arm(PROXY_NONE, 0);
	world_push_quietly(&world, POLICY_NO_CONNECT, STOP_ALL);
	answers = proxy_answers();
	world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	pair_close(&world, &pair);
	pair = pair_open(&world, "one", "two", "svc");
	/* Both are decided without the server. */
	pair_close(&world, &pair);
	pair = pair_open(&world, "three", "four", "aux");
	pair_close(&world, &pair);
	pair = pair_open(&world, "one", "two", "svc");

	proxy_arm(PROXY_HOLD, answers);
	push = push_request(POLICY_NO_CONNECT, sources);
	cr_assert_eq(change_begin(world.monitor, &push, on_done, &ending, why), 0, "%s", why);
	world_until(&world, is_held, NULL, "the last answer is held");
	cr_assert(world.monitor->registry->gate_closed);
	assert_flowing(&world, &pair);
	actor_begin(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"});
	actor_begin(&world, "three", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "aux"});
	actor_until_blocked(&world, "one");
	actor_until_blocked(&world, "three");
	cr_assert_eq(world.monitor->registry->n_channels, 1);
	cr_assert(world_domain(&world, "three")->pending.active);
	proxy_let_go();
	world_until(&world, has_ended, &ending, "the push ends");
	cr_assert_eq(ending.status, 0);
	cr_assert_eq(actor_finish(&world, "one"), CALL_DENIED);
	cr_assert_eq(actor_do(&world, "four", (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL}), CALL_OK);
	cr_assert_eq(actor_finish(&world, "three"), CALL_OK);
	cr_assert_eq(world.monitor->registry->last->opened_at_policy, 4);
	assert_revoked(&world, &pair);
	world_close(&world);
}
