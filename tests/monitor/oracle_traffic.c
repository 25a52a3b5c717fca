/* The oracle's channels and messages: what guests do, and what the model says that it gives. */
#include "guest/abi/call.h"
#include "guest/abi/ring.h"
#include "tests/monitor/oracle_run.h"

/* ---- channels ---- */

static bool is_listed(struct world *world, void *opaque)
{
	(void)opaque;
	return world->monitor->registry->n_channels == oracle.model.n_channels + 1;
}

static void accept_oldest(int server)
{
	int index = oracle_waiting(&oracle.model, server);
	struct oracle_channel *channel = &oracle.model.channels[index];

	doing("%s accepts channel %llu", name_of(server), (unsigned long long)channel->number);
	SAME(carry_out(server, (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL}), CALL_OK, "accept");
	channel->handle[1] = value_of(server, 0);
	oracle_accept(&oracle.model, index);
	if (!channel->blocked)
		return;
	channel->blocked = false;
	SAME(finish(channel->domain[0]), CALL_OK, "connect");
	channel->handle[0] = value_of(channel->domain[0], 0);
}

static const int64_t connect_results[] = {
	[ORACLE_GRANTED] = CALL_OK,
	[ORACLE_REFUSED] = CALL_DENIED,
	[ORACLE_NO_SERVICE] = CALL_NO_SERVICE,
	[ORACLE_QUARANTINED] = CALL_QUARANTINED,
};

static void begin_connect(int client, int service, int parent, bool quick)
{
	struct command command = {ACTOR_CONNECT, {NO_TIMEOUT}, service_name(service)};

	doing("%s connects to %s for %lld", name_of(client), service_name(service),
	      parent < 0 ? 0ll : (long long)oracle.model.channels[parent].number);
	if (quick)
		command = (struct command){
			ACTOR_OPEN,
			{NO_TIMEOUT, parent >= 0, parent < 0 ? 0 : oracle.model.channels[parent].handle[1]},
			service_name(service)};
	else if (parent >= 0)
		command = (struct command){ACTOR_CONNECT_FOR,
		                           {oracle.model.channels[parent].handle[1], NO_TIMEOUT},
		                           service_name(service)};
	actor_begin(&oracle.world, name_of(client), command);
	oracle.n_connects++;
}

static bool connect_to(int client, int service, int parent)
{
	struct oracle_grant grant = oracle_connect(&oracle.model, client, service, parent);
	struct oracle_channel *channel;
	int index;

	if (oracle.model.n_channels == MOST_ORACLE_CHANNELS ||
	    oracle_ends(&oracle.model, client) >= MOST_ORACLE_ENDS ||
	    (grant.server >= 0 && oracle_ends(&oracle.model, grant.server) >= MOST_ORACLE_ENDS))
		return false;
	grant.quick = grant.blind || chance(40);
	begin_connect(client, service, parent, grant.quick);
	if (grant.answer != ORACLE_GRANTED || grant.quick)
		SAME(finish(client), connect_results[grant.answer], "connect");
	if (grant.answer != ORACLE_GRANTED)
		return true;
	if (!grant.quick)
		until(is_listed, NULL, "the connect is granted");
	oracle.n_granted++;
	index = oracle_open(&oracle.model, client, service, parent, &grant,
	                    oracle.world.monitor->registry->last_channel);
	channel = &oracle.model.channels[index];
	if (grant.quick)
		channel->handle[0] = value_of(client, 0);
	while (chance(grant.quick && !grant.blind ? 30 : 92) && !is_busy(grant.server) &&
	       oracle_waiting(&oracle.model, grant.server) >= 0)
		accept_oldest(grant.server);
	return true;
}

bool do_connect(void)
{
	int client = (int)pick(N_ORACLE_DOMAINS), service = (int)pick(N_ORACLE_DOMAINS + 1), parent = -1;

	if (is_busy(client) || service == client)
		return false;
	if (chance(50))
		for (size_t i = 0; i < oracle.model.n_channels && parent < 0; i++) {
			const struct oracle_channel *channel = &oracle.model.channels[i];

			if (channel->held[1] && channel->domain[1] == client && chance(40))
				parent = (int)i;
		}
	return connect_to(client, service, parent);
}

bool do_accept(void)
{
	int server = (int)pick(N_ORACLE_DOMAINS);

	if (is_busy(server) || oracle_waiting(&oracle.model, server) < 0)
		return false;
	accept_oldest(server);
	return true;
}

/* An end that its program holds and can use now, mostly of a channel that still is live, or is not; false:
 * this draw is none. */
static bool draw_end(int *index, int *side, bool live)
{
	const struct oracle_channel *channel;

	if (oracle.model.n_channels == 0)
		return false;
	*index = (int)pick((unsigned)oracle.model.n_channels);
	*side = (int)pick(2);
	channel = &oracle.model.channels[*index];
	if ((oracle_is_live(&channel->flow[0]) || oracle_is_live(&channel->flow[1])) != live && chance(80))
		return false;
	return channel->held[*side] && !channel->blocked && !is_busy(channel->domain[*side]);
}

bool do_close(void)
{
	struct oracle_channel *channel;
	int index, side;

	if (!draw_end(&index, &side, false))
		return false;
	channel = &oracle.model.channels[index];
	doing("%s closes channel %llu", name_of(channel->domain[side]), (unsigned long long)channel->number);
	SAME(carry_out(channel->domain[side], (struct command){ACTOR_CLOSE, {channel->handle[side]}, NULL}),
	     CALL_OK, "close");
	oracle_close(&oracle.model, index, side);
	return true;
}

/* ---- messages ---- */

/* Whether that end is told that its peer is gone. */
static bool sees_peer_gone(const struct oracle_channel *channel, int side)
{
	return !channel->held[1 - side] && !channel->waits && oracle_hears(channel, side);
}

static int64_t expected_send(const struct oracle_channel *channel, int side, uint64_t n, uint64_t *n_sent)
{
	const struct oracle_flow *out = &channel->flow[side];
	uint64_t room = RING_CELLS - (out->sent - out->taken);

	*n_sent = 0;
	if (out->state == ORACLE_CUT)
		return CALL_REVOKED;
	if (sees_peer_gone(channel, side))
		return CALL_PEER_CLOSED;
	if (!oracle_is_live(out))
		return CALL_NOT_OPEN;
	*n_sent = out->flowctl && n > room ? room : n;
	return *n_sent == n ? CALL_OK : CALL_AGAIN;
}

bool do_send(void)
{
	uint64_t n = 1 + pick(chance(10) ? 80 : 8), bytes = chance(80) ? 8 : 60, n_sent;
	struct oracle_channel *channel;
	struct oracle_flow *out;
	int index, side, domain;
	int64_t expected;

	if (!draw_end(&index, &side, true))
		return false;
	channel = &oracle.model.channels[index];
	out = &channel->flow[side];
	domain = channel->domain[side];
	doing("%s sends %llu to channel %llu", name_of(domain), (unsigned long long)n,
	      (unsigned long long)channel->number);
	expected = expected_send(channel, side, n, &n_sent);
	/* Long ones go only where nothing waits for room: how many fit is the ring's own business. */
	if (out->flowctl)
		bytes = 8;
	SAME(carry_out(
		     domain,
		     (struct command){ACTOR_SEND, {channel->handle[side], out->sent + 1, n, bytes, 0}, NULL}),
	     expected, "send");
	SAME(value_of(domain, 0), n_sent, "the number of messages sent");
	out->sent += n_sent;
	oracle.n_messages += n_sent;
	return true;
}

/* Of a flow without flow control only how it ends is foretold. */
static int64_t expected_receive(const struct oracle_channel *channel, int side, uint64_t most, uint64_t *n)
{
	const struct oracle_flow *in = &channel->flow[1 - side];
	uint64_t there = in->sent - in->taken;

	*n = 0;
	if (in->state == ORACLE_CUT)
		return CALL_REVOKED;
	if (in->state == ORACLE_CLOSED)
		return CALL_PEER_CLOSED;
	if (in->state == ORACLE_PENDING)
		return CALL_AGAIN;
	if (in->state != ORACLE_OPEN)
		return CALL_NOT_OPEN;
	*n = there < most ? there : most;
	if (*n == most && in->flowctl)
		return 8;
	return sees_peer_gone(channel, side) ? CALL_PEER_CLOSED : CALL_AGAIN;
}

bool do_receive(void)
{
	struct oracle_channel *channel;
	struct oracle_flow *in;
	int index, side, domain;
	uint64_t most, n;
	int64_t expected;

	if (!draw_end(&index, &side, true))
		return false;
	channel = &oracle.model.channels[index];
	in = &channel->flow[1 - side];
	domain = channel->domain[side];
	most = in->flowctl ? 1 + pick(chance(30) ? 100 : 8) : 1000;
	doing("%s receives from channel %llu", name_of(domain), (unsigned long long)channel->number);
	expected = expected_receive(channel, side, most, &n);
	SAME(carry_out(domain, (struct command){ACTOR_RECEIVE, {channel->handle[side], most, 0}, NULL}),
	     expected, "receive");
	if (!in->flowctl) {
		in->taken = in->sent;
		return true;
	}
	SAME(value_of(domain, 0), n, "the number of messages taken");
	if (n > 0) {
		SAME(value_of(domain, 1), in->taken + 1, "the first message");
		SAME(value_of(domain, 2), in->taken + n, "the last message");
		SAME(value_of(domain, 3), 0, "messages out of order");
	}
	in->taken += n;
	return true;
}
