/*
 * Domains in the middle of calls, for `portcullis bench revoke`.
 *
 *	hold client SERVICE N		N calls to SERVICE that are never answered
 *	hold relay SERVICE		takes one call and hands it on
 *	hold server N			takes N calls and answers none
 *	hold idle			does nothing
 *	hold touch			reads the memory of all its slots whenever it is woken, and
 *					says how many show something; see monitor/bench/planted.h
 *	hold spin			runs for ever
 *	hold storm			enters the kernel, and the host, again and again
 *
 * Each blocks with all its channels open. When every one of them has been cut it
 * says how each end found that out; with the host's next policy it closes what it has, and
 * with the one after that it begins anew.
 */
#include "guest/lib/domain.h"

#define MAX_CHANNELS 4096u
#define PATIENCE SECONDS(60)

static struct channel **held;
static struct channel_poll *items;
static uint64_t n_held;

static void hold(struct channel *channel)
{
	held[n_held++] = channel;
}

static uint64_t policy_number(void)
{
	return __atomic_load_n(&DOMAIN_PAGE->policy_number, __ATOMIC_ACQUIRE);
}

/* Until another policy than this is in force; the host raises this domain's events once that is so. */
static uint64_t wait_for_policy(uint64_t number)
{
	uint64_t seen;

	do
		seen = events_seen();
	while (policy_number() == number && wait_events(seen, FOREVER));
	return policy_number();
}

/* ---- into the middle of a call ---- */

static int open(const char *service)
{
	struct channel *channel;
	int result = channel_connect(service, PATIENCE, &channel);

	if (result != CALL_OK)
		return result;
	hold(channel);
	result = channel_await(channel, PATIENCE); /* more of them than a service lets wait */
	return result != CALL_OK ? result : channel_send(channel, &n_held, sizeof n_held, PATIENCE);
}

static int take(void)
{
	struct channel *channel;
	uint64_t request;
	int64_t bytes;
	int result = channel_accept(PATIENCE, &channel);

	if (result != CALL_OK)
		return result;
	hold(channel);
	bytes = channel_receive(channel, &request, sizeof request, PATIENCE);
	return bytes < 0 ? (int)bytes : CALL_OK;
}

static int client(const char *service, uint64_t n)
{
	int result = CALL_OK;

	while (n_held < n && result == CALL_OK)
		result = open(service);
	return result;
}

static int relay(const char *service)
{
	int result = take();

	return result == CALL_OK ? open(service) : result;
}

static int server(uint64_t n)
{
	int result = CALL_OK;

	while (n_held < n && result == CALL_OK)
		result = take();
	return result;
}

/* ---- and out of it ---- */

static bool has_ended(const struct channel *channel)
{
	struct channel_info info;

	(void)channel_info(channel, &info);
	return info.receive_state != CALL_OK && info.send_state != CALL_OK;
}

/* Returns when every channel has ended: a cut without a stop reaches one after the other. */
static void block(void)
{
	for (;;) {
		size_t n = 0;

		for (uint64_t i = 0; i < n_held; i++)
			if (!has_ended(held[i]))
				items[n++] = (struct channel_poll){.channel = held[i], .want = POLL_MESSAGE};
		if (n == 0)
			return;
		(void)channel_poll(items, n, FOREVER);
	}
}

struct verdict {
	uint64_t revoked;      /* ends at which receive and send both say so */
	uint64_t messages;     /* sent and received over all ends: one each, if nothing has moved on */
	int64_t receive, send; /* of an end that says something else */
};

static struct verdict judge(void)
{
	struct verdict verdict = {0};

	for (uint64_t i = 0; i < n_held; i++) {
		struct channel_info info;
		uint64_t message = 0;
		int64_t received = channel_try_receive(held[i], &message, sizeof message);
		int sent = channel_try_send(held[i], &message, sizeof message);

		(void)channel_info(held[i], &info);
		verdict.messages += info.sent + info.received;
		if (received == CALL_REVOKED && sent == CALL_REVOKED) {
			verdict.revoked++;
		} else {
			verdict.receive = received;
			verdict.send = sent;
		}
	}
	return verdict;
}

static void tell(const struct verdict *verdict)
{
	log_line("cut ends=%llu revoked=%llu messages=%llu receive=%lld send=%lld",
	         (unsigned long long)n_held, (unsigned long long)verdict->revoked,
	         (unsigned long long)verdict->messages, (long long)verdict->receive,
	         (long long)verdict->send);
}

static _Noreturn void idle(void)
{
	for (;;)
		(void)wait_events(events_seen(), FOREVER);
}

static volatile uint64_t *word_at(uint64_t window, uint64_t slot, uint64_t offset)
{
	return (volatile uint64_t *)(window + slot * DOMAIN_BOOT->slot_stride + offset);
}

/* Its own slots show their peers the slot's number, beyond the ring, which stays empty. */
static _Noreturn void touch(void)
{
	uint64_t first = DOMAIN_BOOT->first_slot, end = first + DOMAIN_BOOT->n_slots;

	for (;;) {
		uint64_t seen = events_seen(), shown = 0;

		for (uint64_t slot = first; slot < end; slot++) {
			*word_at(VA_OUTBOX, slot, SLOT_HEADER_OFFSET) = 0; /* as any message would: in use */
			*word_at(VA_OUTBOX, slot, SLOT_BULK_OFFSET) = slot + 1;
		}
		for (uint64_t slot = first; slot < end; slot++)
			shown += (*word_at(VA_INBOX, slot, SLOT_BULK_OFFSET) |
			          *word_at(VA_INBOX, slot, SLOT_HEADER_OFFSET)) != 0;
		log_line("shown=%llu", (unsigned long long)shown);
		(void)wait_events(seen, FOREVER);
	}
}

static _Noreturn void spin(void)
{
	for (volatile uint64_t rounds = 0;; rounds++)
		continue;
}

static _Noreturn void storm(void)
{
	struct channel *channel;

	for (;;)
		(void)channel_connect("nobody", 0, &channel);
}

static int begin(int argc, char **argv)
{
	uint64_t n;

	if (argc == 4 && strcmp(argv[1], "client") == 0 && text_number(argv[3], &n) && n <= MAX_CHANNELS)
		return client(argv[2], n);
	if (argc == 3 && strcmp(argv[1], "server") == 0 && text_number(argv[2], &n) && n <= MAX_CHANNELS)
		return server(n);
	if (argc == 3 && strcmp(argv[1], "relay") == 0)
		return relay(argv[2]);
	if (argc == 2 && strcmp(argv[1], "idle") == 0)
		idle();
	if (argc == 2 && strcmp(argv[1], "touch") == 0)
		touch();
	if (argc == 2 && strcmp(argv[1], "spin") == 0)
		spin();
	if (argc == 2 && strcmp(argv[1], "storm") == 0)
		storm();
	log_line("usage: hold client SERVICE N | hold relay SERVICE | hold server N | "
	         "hold idle | touch | spin | storm");
	domain_exit(STATUS_USAGE);
}

int main(int argc, char **argv)
{
	held = heap_alloc(MAX_CHANNELS * sizeof *held);
	items = heap_alloc(MAX_CHANNELS * sizeof *items);
	DOMAIN_ASSERT(held != NULL && items != NULL);
	for (;;) {
		int result = begin(argc, argv);
		struct verdict verdict;
		uint64_t number;

		if (result != CALL_OK) {
			log_line("failed: %s", call_error(result));
			return STATUS_FAILED;
		}
		block();
		verdict = judge();
		number = policy_number();
		tell(&verdict);
		number = wait_for_policy(number);
		while (n_held > 0)
			(void)channel_close(held[--n_held]);
		(void)wait_for_policy(number);
	}
}
