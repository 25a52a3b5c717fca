#include "tests/monitor/identity_support.h"

#include <stdio.h>
#include <string.h>

#include "guest/abi/call.h"

#define ACTOR(name, vcpu, more)                                                                              \
	"{ name = \"" name "\"; program = \"" TEST_DOMAINS "t_actor.elf\"; vcpu = " vcpu                     \
	"; context = \"" SUBJECT(name "_t") "\";" more " }"

const char MANIFEST_CHAIN[] =
	"name = \"test\"; vcpus = 2;\n"
	"domains = (\n" ACTOR("one", "0", "offers = ( \"own\" );") ",\n" ACTOR(
		"two", "1",
		"offers = ( \"svc\" );") ",\n" ACTOR("three", "0",
                                                     "offers = ( \"rel\" );") ",\n" ACTOR("four", "1",
                                                                                          "offers = ( "
                                                                                          "\"aux\" );") " );"
													"\n";

void chain_world(struct world *world, const char *rules)
{
	world_open(world, &(struct world_options){.manifest = MANIFEST_CHAIN, .policy = policy_of(rules)});
}

int64_t connect_for_result(struct world *world, const struct pair *parent, const char *service)
{
	return actor_do(world, parent->server,
	                (struct command){ACTOR_CONNECT_FOR, {parent->at_server, NO_TIMEOUT}, service});
}

struct pair pair_open_for(struct world *world, const struct pair *parent, const char *server,
                          const char *service)
{
	struct pair pair = {.client = parent->server, .server = server};

	actor_begin(world, server, (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL});
	cr_assert_eq(connect_for_result(world, parent, service), CALL_OK);
	cr_assert_eq(actor_finish(world, server), CALL_OK);
	pair.at_client = world_mailbox(world, pair.client)->value[0];
	pair.at_server = world_mailbox(world, server)->value[0];
	pair.channel = world->monitor->registry->last;
	return pair;
}

struct chain chain_open(struct world *world)
{
	struct chain chain = {.first = pair_open(world, "one", "two", "svc")};

	chain.second = pair_open_for(world, &chain.first, "three", "rel");
	chain.third = pair_open_for(world, &chain.second, "four", "aux");
	return chain;
}

const char *peer_of(struct world *world, const struct pair *pair, bool at_client)
{
	static char text[MAILBOX_VALUES * 8];
	const char *name = at_client ? pair->client : pair->server;

	cr_assert_eq(
		actor_do(world, name,
	                 (struct command){ACTOR_PEER, {at_client ? pair->at_client : pair->at_server}, NULL}),
		CALL_OK);
	snprintf(text, sizeof(text), "%s", (const char *)world_mailbox(world, name)->value);
	return text;
}
