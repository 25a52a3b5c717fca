/*
 * echo [SERVICE] [--hold] [--connections N]
 *
 * Accepts any number of connections to the services of this domain and sends each
 * message back. --hold: takes messages and never answers. --connections N: ends with 0 when N
 * connections have ended. SERVICE is for the log alone: what is offered stands in the manifest.
 *
 * Status: 0 after --connections, 1 no heap, 2 wrong arguments.
 */
#include "guest/programs/forward.h"

#define USAGE "usage: echo [SERVICE] [--hold] [--connections N]"
#define MOST 4096u
#define BURST 16

struct options {
	const char *service;
	bool hold;
	uint64_t connections; /* 0: goes on for ever */
};

static struct forward connections[MOST];
static struct channel_poll items[MOST + 1]; /* the last is accept's */
static size_t n_connections;

static bool parse(int argc, char **argv, struct options *options)
{
	*options = (struct options){.service = "echo"};
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--hold") == 0)
			options->hold = true;
		else if (strcmp(argv[i], "--connections") == 0 && i + 1 < argc &&
		         text_number(argv[i + 1], &options->connections))
			i++;
		else if (i == 1 && argv[i][0] != '-')
			options->service = argv[i];
		else
			return false;
	}
	return true;
}

static int drain(struct forward *connection)
{
	static uint8_t *sink;
	int64_t bytes;

	if (sink == NULL)
		sink = buffer_get();
	do
		bytes = channel_try_receive(connection->from, sink, channel_max_bytes());
	while (bytes >= 0);
	return (int)bytes;
}

/* A connection over which policy lets nothing pass this way is said once, not at each try of the client. */
static void end(size_t i, int why)
{
	struct forward *connection = &connections[i];
	static bool said;

	if (why != CALL_PEER_CLOSED && (why != CALL_NOT_OPEN || !said))
		log_line("%s after %llu messages", call_error(why), (unsigned long long)connection->messages);
	said = said || why == CALL_NOT_OPEN;
	forward_end(connection);
	(void)channel_close(connection->from);
	connections[i] = connections[--n_connections];
}

static void accept_all(void)
{
	struct channel *channel;
	int result = CALL_OK;

	while (n_connections < MOST && (result = channel_accept(0, &channel)) == CALL_OK)
		forward_begin(&connections[n_connections++], channel, channel);
	if (result != CALL_OK && result != CALL_AGAIN)
		log_line("accept: %s", call_error(result));
}

int main(int argc, char **argv)
{
	struct options options;
	size_t n_polled;
	uint64_t ended = 0;

	if (!parse(argc, argv, &options)) {
		log_line(USAGE);
		return STATUS_USAGE;
	}
	log_line("serving %s", options.service);
	while (options.connections == 0 || ended < options.connections) {
		for (size_t i = 0; i < n_connections; i++)
			items[i] = forward_wants(&connections[i]);
		items[n_connections] = (struct channel_poll){.want = n_connections < MOST ? POLL_ACCEPT : 0};
		(void)channel_poll(items, n_connections + 1, FOREVER);
		n_polled = n_connections;
		if (items[n_polled].ready)
			accept_all();
		for (size_t i = n_polled; i-- > 0;) {
			int result =
				options.hold ? drain(&connections[i]) : forward_step(&connections[i], BURST);

			if (result == CALL_AGAIN && (items[i].ready & POLL_END))
				result = forward_ended(&connections[i], connections[i].from);
			if (result == CALL_OK || result == CALL_AGAIN)
				continue;
			if (result == CALL_NO_SLOT) {
				log_line("the heap has no room for a message; give this domain more");
				return STATUS_FAILED;
			}
			end(i, result);
			ended++;
		}
	}
	return STATUS_OK;
}
