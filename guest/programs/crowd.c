/*
 * crowd serve
 * crowd client SERVICE
 *
 * Many clients call one server without end, each with a number, and get it back. A client whose channel is
 * cut, or that may not connect, tries again every few milliseconds; one whose reply is wrong or missing is
 * not forgiven. What `bench guests` measures changes under.
 *
 * Status: 1 a wrong reply, an error other than a cut or a denial, no heap; 2 wrong arguments. It does not end
 * otherwise.
 */
#include <portcullis.h>

#define RETRY MILLISECONDS(5)
#define PATIENCE SECONDS(60)
#define MOST_CLIENTS 1024u

/* ---- the server ---- */

static struct channel_poll *items; /* the first is for accept */
static size_t n_items = 1;

static void accept_all(void)
{
	struct channel *channel;

	while (n_items <= MOST_CLIENTS && channel_accept(0, &channel) == CALL_OK)
		items[n_items++] = (struct channel_poll){.channel = channel, .want = POLL_MESSAGE};
}

/* A client waits for its reply before it sends more: there is room for it. */
static bool answer(struct channel *channel)
{
	uint64_t number;
	int64_t result = channel_try_receive(channel, &number, sizeof number);

	if (result == CALL_AGAIN)
		return true;
	return result == sizeof number && channel_try_send(channel, &number, sizeof number) == CALL_OK;
}

static int serve(void)
{
	items = heap_alloc((MOST_CLIENTS + 1) * sizeof *items);
	if (items == NULL) {
		log_line("the heap has no room for %u clients", MOST_CLIENTS);
		return STATUS_FAILED;
	}
	items[0] = (struct channel_poll){.want = POLL_ACCEPT};
	for (;;) {
		(void)channel_poll(items, n_items, FOREVER);
		for (size_t i = n_items - 1; i > 0; i--) {
			if (!items[i].ready || answer(items[i].channel))
				continue;
			(void)channel_close(items[i].channel);
			items[i] = items[--n_items];
		}
		accept_all();
	}
}

/* ---- a client ---- */

static bool is_forgiven(int64_t result)
{
	return result == CALL_REVOKED || result == CALL_DENIED || result == CALL_BUSY ||
	       result == CALL_NO_SLOT || result == CALL_TIMED_OUT;
}

/* Calls until it is cut; what ended it. */
static int64_t call_on(struct channel *channel)
{
	for (uint64_t number = 1;; number++) {
		uint64_t reply = 0;
		int64_t result =
			channel_call(channel, &number, sizeof number, &reply, sizeof reply, PATIENCE, NULL);

		if (result != sizeof reply)
			return result;
		DOMAIN_ASSERT(reply == number);
	}
}

static int client(const char *service)
{
	for (;;) {
		struct channel *channel;
		int64_t result = channel_connect(service, PATIENCE, &channel);

		if (result == CALL_OK) {
			result = call_on(channel);
			(void)channel_close(channel);
		}
		if (!is_forgiven(result)) {
			log_line("%s: %s", service, call_error((int)result));
			return STATUS_FAILED;
		}
		time_wait(RETRY);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (argc == 3 && strcmp(argv[1], "client") == 0)
		return client(argv[2]);
	log_line("usage: crowd serve | crowd client SERVICE");
	return STATUS_USAGE;
}
