/*
 * relay SERVICE UPSTREAM [--stream | --call] [--for-client]
 *
 * For each connection to SERVICE connects to UPSTREAM and passes messages on, both ways. A
 * close is passed on when all that came before it has been; a cut of one side closes the other;
 * then it goes on accepting. --for-client: connects with its client's identity.
 * --stream: one connection, then it ends. --call: one connection at a time; each message is a
 * call to UPSTREAM, whose reply goes back.
 *
 * Status: 0 after --stream closed in order, 1 --stream was cut or no heap, 2 wrong arguments.
 */
#include "guest/programs/forward.h"

#define USAGE "usage: relay SERVICE UPSTREAM [--stream | --call] [--for-client]"
#define MOST 1024u
#define BURST 16
#define CONNECT_TIMEOUT SECONDS(5)

struct options {
	const char *service, *upstream;
	bool stream, call, for_client;
};

struct pair {
	struct forward up, down;
};

static struct pair pairs[MOST];
static struct channel_poll items[2 * MOST + 1];
static size_t n_pairs;

static bool parse(int argc, char **argv, struct options *options)
{
	if (argc < 3 || argv[1][0] == '-' || argv[2][0] == '-')
		return false;
	*options = (struct options){.service = argv[1], .upstream = argv[2]};
	for (int i = 3; i < argc; i++) {
		if (strcmp(argv[i], "--stream") == 0)
			options->stream = true;
		else if (strcmp(argv[i], "--call") == 0)
			options->call = true;
		else if (strcmp(argv[i], "--for-client") == 0)
			options->for_client = true;
		else
			return false;
	}
	return !(options->stream && options->call);
}

static int connect_upstream(const struct options *options, struct channel *client, struct channel **upstream)
{
	static int said; /* each failure once in a row */
	int result = options->for_client
	                     ? channel_connect_for(options->upstream, client, CONNECT_TIMEOUT, upstream)
	                     : channel_connect(options->upstream, CONNECT_TIMEOUT, upstream);

	if (result != CALL_OK && result != said)
		log_line("%s: %s", options->upstream, call_error(result));
	said = result;
	return result;
}

static void open_pair(const struct options *options, struct channel *client)
{
	struct channel *upstream;

	if (connect_upstream(options, client, &upstream) != CALL_OK) {
		(void)channel_close(client);
		return;
	}
	forward_begin(&pairs[n_pairs].up, client, upstream);
	forward_begin(&pairs[n_pairs].down, upstream, client);
	n_pairs++;
}

static void close_pair(size_t i, int why)
{
	struct pair *pair = &pairs[i];

	log_line("%s: %llu messages up, %llu down", call_error(why), (unsigned long long)pair->up.messages,
	         (unsigned long long)pair->down.messages);
	forward_end(&pair->up);
	forward_end(&pair->down);
	(void)channel_close(pair->up.from);
	(void)channel_close(pair->up.to);
	pairs[i] = pairs[--n_pairs];
}

/* One way of a pair. A way that policy never opened (CALL_NOT_OPEN) ends nothing. */
static int step(struct forward *forward)
{
	int result = forward_step(forward, BURST);

	return result == CALL_NOT_OPEN ? CALL_AGAIN : result;
}

static struct channel_poll wants(const struct forward *forward)
{
	struct channel_poll item = forward_wants(forward);
	struct channel_info info;

	/* A way that can never be read would look ready all the time: watch its end instead. */
	if ((item.want & POLL_MESSAGE) && channel_info(forward->from, &info) == CALL_OK &&
	    info.receive_state == CALL_NOT_OPEN)
		item.want = POLL_END;
	return item;
}

static int64_t poll_all(void)
{
	for (size_t i = 0; i < n_pairs; i++) {
		items[2 * i] = wants(&pairs[i].up);
		items[2 * i + 1] = wants(&pairs[i].down);
	}
	items[2 * n_pairs] = (struct channel_poll){.want = n_pairs < MOST ? POLL_ACCEPT : 0};
	return channel_poll(items, 2 * n_pairs + 1, FOREVER);
}

/* Why the pair has ended; CALL_OK while it has not. */
static int pair_state(struct pair *pair, const struct channel_poll item[2])
{
	int up = step(&pair->up), down = step(&pair->down);
	int state = CALL_AGAIN;

	if (up != CALL_OK && up != CALL_AGAIN)
		return up;
	if (down != CALL_OK && down != CALL_AGAIN)
		return down;
	if (up == CALL_OK || down == CALL_OK || pair->down.kept != NULL)
		return CALL_OK;
	for (int i = 0; i < 2 && state == CALL_AGAIN; i++) {
		if (item[i].ready & POLL_END)
			state = forward_ended(&pair->up, item[i].channel);
	}
	return state == CALL_AGAIN ? CALL_OK : state;
}

static int relay(const struct options *options)
{
	struct channel *client;
	bool whole;
	int state;

	for (;;) {
		(void)poll_all();
		for (size_t i = n_pairs; i-- > 0;) {
			state = pair_state(&pairs[i], &items[2 * i]);
			if (state == CALL_OK)
				continue;
			whole = state == CALL_PEER_CLOSED && !pairs[i].up.lost && !pairs[i].down.lost;
			close_pair(i, state);
			if (state == CALL_NO_SLOT)
				log_line("the heap has no room for a message; give this domain more");
			if (options->stream)
				return whole ? STATUS_OK : STATUS_FAILED;
		}
		while (n_pairs < MOST && channel_accept(0, &client) == CALL_OK)
			open_pair(options, client);
	}
}

/* Waits for the reply, and meanwhile for the end of the one who waits for it. */
static int64_t wait_reply(struct channel *client, struct channel *upstream, uint8_t *message)
{
	struct channel_poll wait[2] = {
		{.channel = upstream, .want = POLL_MESSAGE | POLL_END},
		{.channel = client, .want = POLL_END},
	};

	(void)channel_poll(wait, 2, FOREVER);
	if (wait[0].ready & POLL_MESSAGE)
		return channel_try_receive(upstream, message, channel_max_bytes());
	return CALL_REVOKED;
}

static int64_t serve_calls(struct channel *client, struct channel *upstream, uint8_t *message)
{
	int64_t result;

	for (;;) {
		result = channel_receive(client, message, channel_max_bytes(), FOREVER);
		if (result >= 0)
			result = channel_send(upstream, message, (size_t)result, FOREVER);
		if (result >= 0)
			result = wait_reply(client, upstream, message);
		if (result >= 0)
			result = channel_send(client, message, (size_t)result, FOREVER);
		if (result < 0)
			return result;
	}
}

static int call(const struct options *options)
{
	uint8_t *message = buffer_get();
	struct channel *client, *upstream;

	if (message == NULL) {
		log_line("the heap has no room for a message of %zu bytes", channel_max_bytes());
		return STATUS_FAILED;
	}
	for (;;) {
		if (channel_accept(FOREVER, &client) != CALL_OK)
			continue;
		if (connect_upstream(options, client, &upstream) == CALL_OK) {
			log_line("%s", call_error(serve_calls(client, upstream, message)));
			(void)channel_close(upstream);
		}
		(void)channel_close(client);
	}
}

int main(int argc, char **argv)
{
	struct options options;

	if (!parse(argc, argv, &options)) {
		log_line(USAGE);
		return STATUS_USAGE;
	}
	log_line("relaying %s to %s", options.service, options.upstream);
	return options.call ? call(&options) : relay(&options);
}
