/*
 * A connect returns before the server accepts, and what the client does meanwhile waits for the server:
 * messages (I4), a close, a death. A cut finds them there (R1, R2, R5, I7): nothing is handed on, all of it
 * is reported.
 */
#include <stdlib.h>

#include "guest/abi/ring.h"
#include "tests/monitor/world.h"

#define POLL_ROOM 2u /* guest/lib/include/portcullis.h */

static uint64_t open_unaccepted(struct world *world)
{
	cr_assert_eq(actor_do(world, "one", (struct command){ACTOR_OPEN, {NO_TIMEOUT}, "svc"}), CALL_OK);
	return world_mailbox(world, "one")->value[0];
}

static int64_t send_from(struct world *world, const char *name, uint64_t handle, uint64_t first, uint64_t n,
                         uint64_t bytes)
{
	return actor_do(world, name, (struct command){ACTOR_SEND, {handle, first, n, bytes, 0}, NULL});
}

static int64_t close_of(struct world *world, const char *name, uint64_t handle)
{
	return actor_do(world, name, (struct command){ACTOR_CLOSE, {handle}, NULL});
}

static int64_t accept_one(struct world *world, uint64_t *handle)
{
	int64_t result = actor_do(world, "two", (struct command){ACTOR_ACCEPT, {0}, NULL});

	*handle = world_mailbox(world, "two")->value[0];
	return result;
}

/* The server takes messages 1 to n, then is told `then`. */
static void expect_messages(struct world *world, uint64_t handle, uint64_t n, int64_t then)
{
	const struct mailbox *mail = world_mailbox(world, "two");

	cr_assert_eq(actor_do(world, "two", (struct command){ACTOR_RECEIVE, {handle, n + 1, 0}, NULL}), then);
	cr_assert_eq(mail->value[0], n);
	cr_assert_eq(mail->value[2], n ? n : 0);
	cr_assert_eq(mail->value[3], 0, "out of order");
}

/* Nothing of it is left, at either end. */
static void expect_no_trace(struct world *world)
{
	uint64_t handle;

	cr_expect_eq(world->monitor->registry->n_channels, 0);
	cr_expect_eq(world_domain(world, "one")->n_used, 0);
	cr_expect_eq(world_domain(world, "two")->n_used, 0);
	cr_expect_eq(world_domain(world, "two")->services[0].n_backlog, 0);
	cr_expect_eq(machine_domain_page(world_guest(world)->machine, 1)->accepts_waiting, 0);
	cr_expect_eq(accept_one(world, &handle), CALL_AGAIN);
}

static bool has_ended(struct world *world, void *opaque)
{
	const struct domain *domain = opaque;

	(void)world;
	return domain->life != LIFE_RUNNING;
}

static json_int_t sum_of(const json_t *report, const char *what)
{
	json_int_t sum = 0;

	for (size_t i = 0; i < json_array_size(json_object_get(report, "cuts")); i++) {
		char path[64];

		snprintf(path, sizeof(path), "cuts.%zu.%s", i, what);
		sum += report_number(report, path);
	}
	return sum;
}

/* I4: short and long, in order, none lost. */
Test(backlog, what_is_sent_before_the_accept_arrives)
{
	static const uint64_t lengths[] = {8, 56, 57, 1000};
	struct world world;

	world_open(&world, NULL);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint64_t client = open_unaccepted(&world), server;

		cr_assert_eq(send_from(&world, "one", client, 1, 20, lengths[i]), CALL_OK);
		cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_AWAIT, {client, 0}, NULL}),
		             CALL_AGAIN);
		cr_assert_eq(accept_one(&world, &server), CALL_OK);
		cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_AWAIT, {client, 0}, NULL}),
		             CALL_OK);
		expect_messages(&world, server, 20, CALL_AGAIN);
		/* From here it is a channel as any. */
		cr_assert_eq(send_from(&world, "one", client, 1, 30, lengths[i]), CALL_OK);
		expect_messages(&world, server, 30, CALL_AGAIN);
		cr_assert_eq(close_of(&world, "one", client), CALL_OK);
		cr_assert_eq(close_of(&world, "two", server), CALL_OK);
		expect_no_trace(&world);
	}
	world_close(&world);
}

/* The ring has its 64 messages; whoever waits for room, or for an answer, waits for the accept too (I10). */
Test(backlog, a_full_ring_waits_for_the_accept)
{
	struct world world;
	uint64_t client, server;

	world_open(&world, NULL);
	client = open_unaccepted(&world);
	cr_assert_eq(send_from(&world, "one", client, 1, RING_CELLS + 1, 8), CALL_AGAIN);
	cr_assert_eq(world_mailbox(&world, "one")->value[0], RING_CELLS);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_POLL, {client, POLL_ROOM, 0}, NULL}), 0);
	actor_begin(&world, "one",
	            (struct command){ACTOR_SEND, {client, RING_CELLS + 1, 1, 8, NO_TIMEOUT}, NULL});
	actor_until_blocked(&world, "one");
	cr_assert_eq(accept_one(&world, &server), CALL_OK);
	cr_assert_eq(actor_do(&world, "two",
	                      (struct command){ACTOR_RECEIVE, {server, RING_CELLS + 1, NO_TIMEOUT}, NULL}),
	             8);
	cr_assert_eq(world_mailbox(&world, "two")->value[3], 0);
	cr_assert_eq(actor_finish(&world, "one"), CALL_OK);
	world_close(&world);
}

Test(backlog, a_call_is_answered_once_it_is_accepted)
{
	struct world world;
	uint64_t client, server;

	world_open(&world, NULL);
	client = open_unaccepted(&world);
	actor_begin(&world, "one", (struct command){ACTOR_PING, {client, 3}, NULL});
	actor_until_blocked(&world, "one");
	cr_assert_eq(accept_one(&world, &server), CALL_OK);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_PONG, {server, 3}, NULL}), CALL_OK);
	cr_assert_eq(actor_finish(&world, "one"), CALL_OK);
	world_close(&world);
}

/* A close in order keeps what was sent, also before the accept; the slot is the server's to give back (I8).
 */
Test(backlog, a_client_may_send_and_leave)
{
	struct world world;
	uint64_t server;

	world_open(&world, NULL);
	for (unsigned i = 0; i < 20; i++) { /* more than there are slots */
		uint64_t client = open_unaccepted(&world);

		cr_assert_eq(send_from(&world, "one", client, 1, 5, 100), CALL_OK);
		cr_assert_eq(close_of(&world, "one", client), CALL_OK);
		cr_expect_eq(world_domain(&world, "one")->n_used, 1);
		cr_assert_eq(accept_one(&world, &server), CALL_OK);
		cr_expect(inbox_is_empty(world.monitor->registry->first, SIDE_CLIENT));
		cr_assert_eq(send_from(&world, "two", server, 1, 1, 8), CALL_PEER_CLOSED);
		expect_messages(&world, server, 5, CALL_PEER_CLOSED);
		cr_assert_eq(close_of(&world, "two", server), CALL_OK);
		expect_no_trace(&world);
	}
	world_close(&world);
}

/* It may try again as often as it likes. */
Test(backlog, a_client_that_sent_nothing_takes_it_back)
{
	struct world world;

	world_open(&world, NULL);
	for (unsigned i = 0; i < 20; i++)
		cr_assert_eq(close_of(&world, "one", open_unaccepted(&world)), CALL_OK);
	expect_no_trace(&world);
	world_close(&world);
}

/* H7: nor does a server keep its slots by saying that it has read what was never sent. */
Test(backlog, h7_a_server_that_has_accepted_nothing_says_nothing)
{
	struct world world;

	world_open(&world, NULL);
	for (unsigned i = 0; i < 20; i++) {
		uint64_t client = open_unaccepted(&world);
		const struct endpoint *server = &world.monitor->registry->last->end[SIDE_SERVER];
		struct outbox_header *header = window_outbox(server->domain->guest->machine, server->slot);

		__atomic_store_n(&header->read, 1, __ATOMIC_SEQ_CST); /* as its domain can */
		cr_assert_eq(close_of(&world, "one", client), CALL_OK);
	}
	expect_no_trace(&world);
	world_close(&world);
}

/* A server that waits for this one client would wait for ever. */
Test(backlog, a_domain_that_ends_has_come_and_gone)
{
	struct world world;
	uint64_t server;

	world_open(&world, NULL);
	(void)open_unaccepted(&world);
	actor_begin(&world, "one", (struct command){ACTOR_EXIT, {0}, NULL});
	world_until(&world, has_ended, world_domain(&world, "one"), "one has ended");
	cr_assert_eq(accept_one(&world, &server), CALL_OK);
	expect_messages(&world, server, 0, CALL_PEER_CLOSED);
	cr_assert_eq(close_of(&world, "two", server), CALL_OK);
	cr_expect_eq(world.monitor->registry->n_channels, 0);
	world_close(&world);
}

Test(backlog, a_client_that_dies_can_be_read)
{
	struct world world;
	uint64_t client, server;

	world_open(&world, NULL);
	client = open_unaccepted(&world);
	cr_assert_eq(send_from(&world, "one", client, 1, 3, 8), CALL_OK);
	actor_begin(&world, "one", (struct command){ACTOR_FAULT, {0}, NULL});
	actor_begin(&world, "two", (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL});
	cr_assert_eq(actor_finish(&world, "two"), CALL_OK);
	server = world_mailbox(&world, "two")->value[0];
	actor_begin(&world, "two", (struct command){ACTOR_RECEIVE, {server, 4, NO_TIMEOUT}, NULL});
	cr_assert_eq(actor_finish(&world, "two"), CALL_PEER_DIED);
	cr_assert_eq(world_mailbox(&world, "two")->value[0], 3);
	cr_assert_eq(close_of(&world, "two", server), CALL_OK);
	cr_expect_eq(world.monitor->registry->n_channels, 0);
	world_close(&world);
}

/* The service ends before it accepts: whatever the client is in says so. */
static void end_server(struct command in, struct command how, int64_t expected)
{
	struct world world;
	uint64_t client;

	world_open(&world, NULL);
	client = open_unaccepted(&world);
	in.argument[0] = client;
	actor_begin(&world, "one", in);
	actor_until_blocked(&world, "one");
	actor_begin(&world, "two", how);
	cr_assert_eq(actor_finish(&world, "one"), expected);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_AWAIT, {client, 0}, NULL}), expected);
	cr_assert_eq(send_from(&world, "one", client, 1, 1, 8), expected);
	cr_assert_eq(close_of(&world, "one", client), CALL_OK);
	cr_expect_eq(world.monitor->registry->n_channels, 0);
	cr_expect_eq(world_domain(&world, "one")->n_used, 0);
	world_close(&world);
}

Test(backlog, a_server_that_dies_is_told_to_whoever_awaits)
{
	end_server((struct command){ACTOR_AWAIT, {0, NO_TIMEOUT}, NULL},
	           (struct command){ACTOR_FAULT, {0}, NULL}, CALL_PEER_DIED);
}

Test(backlog, a_server_that_exits_is_told_to_whoever_receives)
{
	end_server((struct command){ACTOR_RECEIVE, {0, 1, NO_TIMEOUT}, NULL},
	           (struct command){ACTOR_EXIT, {0}, NULL}, CALL_PEER_CLOSED);
}

/* R2: nobody will ever see them, and the report says how many; nobody was blocked. */
Test(backlog, r2_a_cut_discards_what_waits)
{
	struct world world;
	uint64_t client;
	json_t *report;

	world_open(&world, NULL);
	client = open_unaccepted(&world);
	cr_assert_eq(send_from(&world, "one", client, 1, 7, 10), CALL_OK);
	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_expect_eq(report_number(report, "flows.cut"), 2);
	cr_expect_eq(sum_of(report, "discarded_messages"), 7);
	cr_expect_eq(sum_of(report, "discarded_bytes"), 70);
	cr_expect_eq(sum_of(report, "cancelled_calls"), 0);
	json_decref(report);
	cr_assert_eq(send_from(&world, "one", client, 8, 1, 8), CALL_REVOKED);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_RECEIVE, {client, 1, 0}, NULL}),
	             CALL_REVOKED);
	cr_assert_eq(close_of(&world, "one", client), CALL_OK);
	expect_no_trace(&world);
	world_close(&world);
}

/* R5: in a call, and not accepted: told at once, and counted once. */
Test(backlog, r5_a_cut_wakes_a_call)
{
	struct world world;
	uint64_t client;
	json_t *report;

	world_open(&world, NULL);
	client = open_unaccepted(&world);
	actor_begin(&world, "one", (struct command){ACTOR_CALL, {client, 1, NO_TIMEOUT}, NULL});
	actor_until_blocked(&world, "one");
	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_expect_eq(sum_of(report, "cancelled_calls"), 1);
	cr_expect_eq(sum_of(report, "discarded_messages"), 1);
	json_decref(report);
	cr_assert_eq(actor_finish(&world, "one"), CALL_REVOKED);
	world_close(&world);
}

/* R1, R2: the client has left already; nobody is there to be told, and nothing stays behind. */
Test(backlog, r2_a_cut_of_what_a_client_left_behind)
{
	struct world world;
	uint64_t client;
	json_t *report;

	world_open(&world, NULL);
	client = open_unaccepted(&world);
	cr_assert_eq(send_from(&world, "one", client, 1, 4, 8), CALL_OK);
	cr_assert_eq(close_of(&world, "one", client), CALL_OK);
	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_expect_eq(report_number(report, "flows.cut"), 1);
	cr_expect_eq(sum_of(report, "discarded_messages"), 4);
	cr_expect_eq(sum_of(report, "cancelled_calls"), 0);
	json_decref(report);
	expect_no_trace(&world);
	world_push_quietly(&world, POLICY_OPEN, STOP_ALL);
	(void)open_unaccepted(&world); /* and the service is open to the next */
	world_close(&world);
}

/* The same of a flow without flowctl, whose client could have heard an answer. */
Test(backlog, r2_a_cut_of_a_diode_that_a_client_left_behind)
{
	struct world world;
	uint64_t client;
	json_t *report;

	world_open(&world, &(struct world_options){.policy = POLICY_NO_FLOWCTL});
	client = open_unaccepted(&world);
	cr_assert_eq(send_from(&world, "one", client, 1, 4, 8), CALL_OK);
	cr_assert_eq(close_of(&world, "one", client), CALL_OK);
	report = world_push(&world, POLICY_NO_CONNECT, STOP_ALL);
	cr_expect_eq(report_number(report, "flows.cut"), 1);
	cr_expect_eq(sum_of(report, "discarded_messages"), 4);
	json_decref(report);
	expect_no_trace(&world);
	world_close(&world);
}

/* Half of it is cut: the rest waits on, and is accepted. */
Test(backlog, a_cut_of_one_flow_leaves_the_other_in_the_backlog)
{
	struct world world;
	uint64_t client, server;

	world_open(&world, NULL);
	client = open_unaccepted(&world);
	cr_assert_eq(send_from(&world, "one", client, 1, 2, 8), CALL_OK);
	world_push_quietly(&world, POLICY_NO_SEND, STOP_ALL);
	cr_assert_eq(send_from(&world, "one", client, 3, 1, 8), CALL_REVOKED);
	cr_assert_eq(accept_one(&world, &server), CALL_OK);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_RECEIVE, {server, 1, 0}, NULL}),
	             CALL_REVOKED);
	cr_assert_eq(send_from(&world, "two", server, 1, 1, 8), CALL_OK);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_RECEIVE, {client, 1, 0}, NULL}), 8);
	world_close(&world);
}

static const char MANIFEST_CROWD[] =
	"name = \"test\"; vcpus = 2; bulk_bytes = 4096; domains = (\n"
	"{ name = \"one\"; program = \"" TEST_DOMAINS "t_actor.elf\"; vcpu = 0; slots = 80;\n"
	"  context = \"system_u:system_r:one_t:s0\"; },\n"
	"{ name = \"two\"; program = \"" TEST_DOMAINS "t_actor.elf\"; vcpu = 1; slots = 80;\n"
	"  context = \"system_u:system_r:two_t:s0\"; offers = (\"svc\"); } );";

/* A full backlog is told at once, and to nobody else's harm. */
Test(backlog, a_full_one_is_busy)
{
	struct world world;
	uint64_t server;

	world_open(&world, &(struct world_options){.manifest = MANIFEST_CROWD});
	for (unsigned i = 0; i < MAX_BACKLOG; i++)
		(void)open_unaccepted(&world);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_OPEN, {NO_TIMEOUT}, "svc"}), CALL_BUSY);
	cr_expect_eq(world_domain(&world, "one")->n_used, MAX_BACKLOG);
	cr_assert_eq(accept_one(&world, &server), CALL_OK);
	(void)open_unaccepted(&world);
	world_close(&world);
}
