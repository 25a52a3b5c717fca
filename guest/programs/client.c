/*
 * client SERVICE [--spin] [--interval MS] [--messages N] [--bytes N] [--retry MS] [--once]
 * client SERVICE --hold [--retry MS]
 * client SERVICE --connections N [--retry MS]
 *
 * Sends numbered messages and checks that each comes back; one every --interval
 * milliseconds (20), or with --spin as fast as they go. Says "revoked" with the count when a
 * change cuts it, then tries again every --retry milliseconds (200) and says "denied" once.
 * --hold: one message, then it stays in the receive. --connections N: holds N channels and waits on all.
 *
 * Status: 0 after --messages, 1 an echo was wrong or (with --once) a connect failed or was cut,
 * 2 wrong arguments.
 */
#include <portcullis.h>

#define USAGE                                                                                                \
	"usage: client SERVICE [--spin] [--interval MS] [--messages N] [--bytes N] [--hold] [--connections " \
	"N] "                                                                                                \
	"[--retry MS] [--once]"
#define CONNECT_TIMEOUT SECONDS(5)

struct options {
	const char *service;
	uint64_t interval_ms, messages, bytes, connections, retry_ms;
	bool spin, hold, once;
};

static bool parse_number(const char *name, const char *value, struct options *options)
{
	const struct {
		const char *name;
		uint64_t *number;
	} numbers[] = {
		{"--interval", &options->interval_ms}, {"--messages", &options->messages},
		{"--bytes", &options->bytes},          {"--connections", &options->connections},
		{"--retry", &options->retry_ms},
	};

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (strcmp(name, numbers[i].name) == 0)
			return value != NULL && text_number(value, numbers[i].number);
	}
	return false;
}

static bool parse(int argc, char **argv, struct options *options)
{
	*options = (struct options){.interval_ms = 20, .retry_ms = 200, .bytes = 32};
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--spin") == 0)
			options->spin = true;
		else if (strcmp(argv[i], "--hold") == 0)
			options->hold = true;
		else if (strcmp(argv[i], "--once") == 0)
			options->once = true;
		else if (i == 1 && argv[i][0] != '-')
			options->service = argv[i];
		else if (parse_number(argv[i], i + 1 < argc ? argv[i + 1] : NULL, options))
			i++;
		else
			return false;
	}
	return options->service != NULL && options->bytes >= 8 && options->bytes <= channel_max_bytes();
}

/* Policy can allow a connection and yet not both its ways. */
static bool is_both_ways(struct channel *channel)
{
	struct channel_info info;

	return channel_info(channel, &info) == CALL_OK && info.send_state != CALL_NOT_OPEN &&
	       info.receive_state != CALL_NOT_OPEN;
}

/* Says a failed connect once for each reason, until one succeeds. */
static bool connect(const struct options *options, struct channel **channel)
{
	static int said;
	int result = channel_connect(options->service, CONNECT_TIMEOUT, channel);
	bool open = result == CALL_OK;

	if (open && options->connections == 0 && !is_both_ways(*channel))
		result = CALL_DENIED;
	if (result == CALL_OK)
		result = channel_await(*channel, CONNECT_TIMEOUT);
	if (open && result != CALL_OK)
		(void)channel_close(*channel);
	if (result != CALL_OK && result != said)
		log_line("%s: %s", options->service, call_error(result));
	said = result;
	return result == CALL_OK;
}

static void wait_retry(const struct options *options)
{
	if (options->once)
		domain_exit(STATUS_FAILED);
	time_wait(MILLISECONDS(options->retry_ms));
}

/* One message there and back; the number stands first, the rest follows from it. */
static int64_t exchange(struct channel *channel, uint8_t *message, uint8_t *reply, size_t bytes,
                        uint64_t number)
{
	int64_t result;

	memset(message, (int)number, bytes);
	memcpy(message, &number, sizeof number);
	result = channel_call(channel, message, bytes, reply, bytes, FOREVER, NULL);
	if (result < 0)
		return result;
	if (result == 0) /* a server of the host that has closed: the end of its direction */
		return CALL_PEER_CLOSED;
	if ((size_t)result != bytes || memcmp(message, reply, bytes) != 0) {
		log_line("message %llu came back wrong", (unsigned long long)number);
		domain_exit(STATUS_FAILED);
	}
	return CALL_OK;
}

/*
 * Exchanges until it fails, or until --messages have passed: then CALL_OK. A connection over which nothing
 * passes (a relay that may not go on closes at once) is said once, not at each try.
 */
static int64_t exchange_all(const struct options *options, struct channel *channel, uint8_t *message,
                            uint8_t *reply, uint64_t *number)
{
	static bool quiet;
	uint64_t before = *number;
	int64_t result;

	if (!quiet)
		log_line("connected to %s", options->service);
	while ((result = exchange(channel, message, reply, options->bytes, *number)) == CALL_OK) {
		if (++*number == options->messages)
			return CALL_OK;
		if (quiet)
			log_line("connected to %s", options->service);
		quiet = false;
		if (!options->spin)
			time_wait(MILLISECONDS(options->interval_ms));
	}
	if (!quiet)
		log_line("%s after %llu messages", call_error(result),
		         (unsigned long long)(*number - before));
	quiet = *number == before;
	return result;
}

static int traffic(const struct options *options)
{
	uint8_t *message = heap_alloc(options->bytes), *reply = heap_alloc(options->bytes);
	struct channel *channel;
	uint64_t number = 0;
	int64_t result;

	if (message == NULL || reply == NULL) {
		log_line("the heap has no room for two messages of %llu bytes",
		         (unsigned long long)options->bytes);
		return STATUS_FAILED;
	}
	for (;;) {
		if (connect(options, &channel)) {
			result = exchange_all(options, channel, message, reply, &number);
			(void)channel_close(channel);
			if (result == CALL_OK) {
				log_line("%llu messages", (unsigned long long)number);
				return STATUS_OK;
			}
		}
		wait_retry(options);
	}
}

/* Stays in the receive. What comes all the same is passed over. */
static _Noreturn void hold(const struct options *options)
{
	uint64_t request = 1, reply;
	struct channel *channel;
	int64_t result;

	for (;;) {
		if (!connect(options, &channel)) {
			wait_retry(options);
			continue;
		}
		log_line("holding %s", options->service);
		result = channel_call(channel, &request, sizeof request, &reply, sizeof reply, FOREVER, NULL);
		while (result >= 0)
			result = channel_receive(channel, &reply, sizeof reply, FOREVER);
		log_line("%s in the call", call_error(result));
		(void)channel_close(channel);
		wait_retry(options);
	}
}

/* Closes those that have ended, connects those that are not open. How many are open. */
static size_t fan_mend(const struct options *options, struct channel_poll *items)
{
	size_t n_open = 0, n_ended = 0;
	bool may = true;

	for (size_t i = 0; i < options->connections; i++) {
		if (items[i].channel != NULL && items[i].ready) {
			(void)channel_close(items[i].channel);
			items[i] = (struct channel_poll){0};
			n_ended++;
		}
	}
	if (n_ended != 0)
		log_line("%zu channels ended", n_ended);
	for (size_t i = 0; i < options->connections; i++) {
		may = may && (items[i].channel != NULL || connect(options, &items[i].channel));
		items[i].want = items[i].channel != NULL ? POLL_END : 0;
		n_open += items[i].channel != NULL;
	}
	return n_open;
}

static int fan(const struct options *options)
{
	struct channel_poll *items = heap_alloc(options->connections * sizeof *items);
	size_t n_open, n_said = 0;

	if (items == NULL) {
		log_line("the heap has no room for %llu channels", (unsigned long long)options->connections);
		return STATUS_FAILED;
	}
	for (;;) {
		n_open = fan_mend(options, items);
		if (n_open != n_said)
			log_line("holding %zu channels", n_open);
		n_said = n_open;
		if (n_open < options->connections && options->once)
			return STATUS_FAILED;
		(void)channel_poll(items, options->connections,
		                   n_open == options->connections ? FOREVER
		                                                  : MILLISECONDS(options->retry_ms));
	}
}

int main(int argc, char **argv)
{
	struct options options;

	if (!parse(argc, argv, &options)) {
		log_line(USAGE "; N bytes: 8 to %zu", channel_max_bytes());
		return STATUS_USAGE;
	}
	if (options.hold)
		hold(&options);
	return options.connections != 0 ? fan(&options) : traffic(&options);
}
