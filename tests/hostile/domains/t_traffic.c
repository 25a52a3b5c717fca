/*
 * Traffic that notices every message that is lost, repeated or too late.
 *
 * t_traffic client: keeps a channel open to each service "a" to "d" that the
 * host wants, and sends numbered messages over all of them.
 * t_traffic server: accepts all, and checks the numbers.
 * What either has seen stands in its mailbox, lane by lane.
 */
#include "tests/hostile/domains/t_domain.h"

#define MAX_CHANNELS 12u
#define BURST 24u

struct message {
	uint64_t lane;
	uint64_t counter;
	uint64_t first; /* counter of the channel's first message */
	uint8_t rest[232];
};

/* Every second lane's messages do not fit a cell. */
static size_t message_bytes(uint64_t lane)
{
	return lane % 2 ? sizeof(struct message) : offsetof(struct message, rest);
}

static struct mailbox *mail;

/* ---- client ---- */

struct outgoing {
	struct channel *channel; /* NULL: none */
	uint64_t first;
};

static void open_lane(struct outgoing *out, uint64_t lane)
{
	struct mailbox_lane *state = &mail->lane[lane];
	const char name[] = {(char)('a' + lane), '\0'};
	int result = channel_connect(name, SECONDS(60), &out->channel);

	result = t_accepted(result, SECONDS(60), out->channel);
	if (result != CALL_OK) {
		out->channel = NULL;
		state->result = result;
		MAILBOX_STORE(state->refused, state->refused + 1);
		return;
	}
	out->first = state->attempt + 1;
	MAILBOX_STORE(state->opened, state->opened + 1);
	MAILBOX_STORE(state->is_open, 1);
}

static void close_lane(struct outgoing *out, struct mailbox_lane *state)
{
	channel_close(out->channel);
	out->channel = NULL;
	MAILBOX_STORE(state->is_open, 0);
}

/* Messages until the ring is full or the channel has ended. True if one went. */
static bool fill_lane(struct outgoing *out, uint64_t lane)
{
	struct mailbox_lane *state = &mail->lane[lane];
	bool sent = false;

	for (uint32_t i = 0; i < BURST; i++) {
		struct message message = {.lane = lane, .counter = state->attempt + 1, .first = out->first};
		uint64_t before = state->attempt;
		int result;

		MAILBOX_STORE(state->attempt, message.counter);
		result = channel_try_send(out->channel, &message, message_bytes(lane));
		if (result == CALL_OK) {
			sent = true;
			continue;
		}
		MAILBOX_STORE(state->attempt, before);
		if (result == CALL_AGAIN)
			return sent;
		state->result = result;
		close_lane(out, state);
		return true;
	}
	return sent;
}

static void run_client(void)
{
	static struct outgoing out[MAILBOX_LANES];

	for (;;) {
		uint64_t seen = events_seen(), want = MAILBOX_LOAD(mail->want);
		bool idle = true;

		for (uint64_t lane = 0; lane < MAILBOX_LANES; lane++) {
			if (!out[lane].channel && want & 1ull << lane)
				open_lane(&out[lane], lane);
			if (out[lane].channel && fill_lane(&out[lane], lane))
				idle = false;
		}
		if (idle)
			wait_events(seen, deadline_after(MILLISECONDS(1)));
	}
}

/* ---- server ---- */

struct incoming {
	struct channel *channel; /* NULL: none */
	uint64_t lane;
	uint64_t next; /* counter; 0: none yet */
};

static void take(struct incoming *in, const struct message *message)
{
	struct mailbox_lane *state = &mail->lane[in->lane];
	bool right = message->lane == in->lane && message->counter == (in->next ? in->next : message->first);

	if (!right)
		state->wrong++;
	in->next = message->counter + 1;
	MAILBOX_STORE(state->taken, message->counter);
	MAILBOX_STORE(state->n_taken, state->n_taken + 1);
}

static void finish(struct incoming *in, int64_t result)
{
	struct mailbox_lane *state = &mail->lane[in->lane];

	state->ending = result;
	channel_close(in->channel);
	in->channel = NULL;
	if (result == CALL_REVOKED)
		MAILBOX_STORE(state->revoked, state->revoked + 1);
	else
		MAILBOX_STORE(state->ended, state->ended + 1);
}

/* The messages that are there. True if there was any. */
static bool drain(struct incoming *in)
{
	bool any = false;

	for (uint32_t i = 0; i < RING_CELLS; i++) {
		struct message message;
		int64_t result = channel_try_receive(in->channel, &message, sizeof(message));

		if (result == CALL_AGAIN)
			break;
		any = true;
		if (result != (int64_t)message_bytes(in->lane)) {
			finish(in, result);
			break;
		}
		take(in, &message);
	}
	return any;
}

static bool accept_one(struct incoming *in)
{
	struct channel_info info;

	if (channel_accept(0, &in->channel) != CALL_OK) {
		in->channel = NULL;
		return false;
	}
	DOMAIN_ASSERT(channel_info(in->channel, &info) == CALL_OK);
	in->lane = (uint64_t)(info.service[0] - 'a');
	in->next = 0;
	DOMAIN_ASSERT(in->lane < MAILBOX_LANES);
	MAILBOX_STORE(mail->lane[in->lane].accepted, mail->lane[in->lane].accepted + 1);
	return true;
}

static void wait_for_all(struct incoming *in)
{
	struct channel_poll items[MAX_CHANNELS + 1] = {{.want = POLL_ACCEPT}};
	size_t n = 1;

	for (uint32_t i = 0; i < MAX_CHANNELS; i++)
		if (in[i].channel)
			items[n++] = (struct channel_poll){.channel = in[i].channel, .want = POLL_MESSAGE};
	channel_poll(items, n, SECONDS(1));
}

static void run_server(void)
{
	static struct incoming in[MAX_CHANNELS];

	for (;;) {
		bool idle = true;

		for (uint32_t i = 0; i < MAX_CHANNELS; i++)
			if (in[i].channel ? drain(&in[i]) : accept_one(&in[i]))
				idle = false;
		if (idle)
			wait_for_all(in);
	}
}

int main(int argc, char **argv)
{
	DOMAIN_ASSERT(argc == 2);
	mail = t_mailbox();
	MAILBOX_STORE(mail->ready, MAILBOX_READY);
	if (strcmp(argv[1], "server") == 0)
		run_server();
	run_client();
	return STATUS_OK;
}
