/*
 * A domain that does what the test on the host tells it, one command after the
 * other, and waits in between without a stir. See t_mailbox.h.
 */
#include "tests/hostile/domains/t_domain.h"

#define N_HANDLES 128u
#define MESSAGE_BYTES 65536u

static struct mailbox *mail;
static struct channel *handles[N_HANDLES];
static uint32_t n_handles;
static uint8_t *buffer;

static int64_t keep(int result, struct channel *channel)
{
	uint32_t i = 0;

	if (result != CALL_OK)
		return result;
	/* The library's state of a slot is used again, and so is its handle. */
	while (i < n_handles && handles[i] != channel)
		i++;
	DOMAIN_ASSERT(i < N_HANDLES);
	if (i == n_handles)
		handles[n_handles++] = channel;
	mail->value[0] = i;
	return CALL_OK;
}

static int64_t do_connect(const uint64_t *argument)
{
	struct channel *channel = NULL;
	int result = channel_connect(mail->text, argument[0], &channel);

	return keep(t_accepted(result, argument[0], channel), channel);
}

static int64_t do_open(const uint64_t *argument)
{
	struct channel *channel = NULL;
	int result = argument[1]
	                     ? channel_connect_for(mail->text, handles[argument[2]], argument[0], &channel)
	                     : channel_connect(mail->text, argument[0], &channel);

	return keep(result, channel);
}

static int64_t do_await(const uint64_t *argument)
{
	return channel_await(handles[argument[0]], argument[1]);
}

static int64_t do_connect_for(const uint64_t *argument)
{
	struct channel *channel = NULL;
	int result = channel_connect_for(mail->text, handles[argument[0]], argument[1], &channel);

	return keep(t_accepted(result, argument[1], channel), channel);
}

static int64_t do_peer(const uint64_t *argument)
{
	struct channel_info info;
	int result = channel_info(handles[argument[0]], &info);

	if (result == CALL_OK)
		format_text((char *)mail->value, sizeof(mail->value), "%s", info.peer_context);
	return result;
}

static int64_t do_events(const uint64_t *argument)
{
	(void)argument;
	mail->value[0] = __atomic_load_n(&DOMAIN_CALL->events, __ATOMIC_ACQUIRE);
	return CALL_OK;
}

static int64_t do_accept(const uint64_t *argument)
{
	struct channel *channel = NULL;
	int result = channel_accept(argument[0], &channel);

	return keep(result, channel);
}

static int64_t do_close(const uint64_t *argument)
{
	return channel_close(handles[argument[0]]);
}

static int64_t do_send(const uint64_t *argument)
{
	int64_t result = CALL_OK;
	uint64_t counter = argument[1];

	MAILBOX_STORE(mail->value[0], 0);
	for (uint64_t i = 0; i < argument[2] && result == CALL_OK; i++, counter++) {
		memcpy(buffer, &counter, sizeof(counter));
		result = channel_send(handles[argument[0]], buffer, argument[3], argument[4]);
		if (result == CALL_OK)
			MAILBOX_STORE(mail->value[0], i + 1);
	}
	return result;
}

static int64_t do_receive(const uint64_t *argument)
{
	uint64_t counter = 0, n = 0;
	int64_t result = CALL_OK;

	mail->value[0] = mail->value[1] = mail->value[2] = 0;
	while (n < argument[1]) {
		result = channel_receive(handles[argument[0]], buffer, MESSAGE_BYTES, argument[2]);
		if (result < 0)
			break;
		memcpy(&counter, buffer, sizeof(counter));
		if (n++ == 0)
			mail->value[1] = counter;
		else
			mail->value[3] += counter != mail->value[2] + 1;
		mail->value[2] = counter;
		MAILBOX_STORE(mail->value[0], n);
	}
	return result;
}

static int64_t do_call(const uint64_t *argument)
{
	bool sent = false;
	int64_t result = channel_call(handles[argument[0]], &argument[1], sizeof(argument[1]), buffer,
	                              MESSAGE_BYTES, argument[2], &sent);

	mail->value[0] = sent;
	return result;
}

static int64_t do_poll(const uint64_t *argument)
{
	struct channel_poll item = {
		.channel = handles[argument[0]], .bytes = 8, .want = (uint32_t)argument[1]};
	int result = channel_poll(&item, 1, argument[2]);

	mail->value[0] = item.ready;
	return result;
}

static int64_t do_info(const uint64_t *argument)
{
	struct channel_info info;
	int result = channel_info(handles[argument[0]], &info);

	if (result != CALL_OK)
		return result;
	mail->value[0] = (uint64_t)info.send_state;
	mail->value[1] = (uint64_t)info.receive_state;
	mail->value[2] = info.sent;
	mail->value[3] = info.received;
	mail->value[4] = info.lossless_send | (uint64_t)info.lossless_receive << 1;
	mail->value[5] = info.opened_at_policy;
	mail->value[6] = info.channel;
	mail->value[7] = info.lost;
	return CALL_OK;
}

static int64_t do_exit(const uint64_t *argument)
{
	domain_exit((int)argument[0]);
}

static int64_t do_fault(const uint64_t *argument)
{
	*(volatile uint64_t *)(argument[0] & 0) = 1;
	return CALL_OK;
}

static int64_t do_system_call(const uint64_t *argument)
{
	return system_call(argument[0], argument[1], argument[2]);
}

static bool told_to_end(void)
{
	return MAILBOX_LOAD(mail->end) >= mail->begun;
}

/* The word that COUNT writes and WATCH reads: the last of the first bulk page. */
static uint64_t watched_word(uint64_t window, const struct channel *channel)
{
	return window + channel->slot * DOMAIN_BOOT->slot_stride + SLOT_BULK_OFFSET + ABI_PAGE_BYTES - 8;
}

static int64_t do_count(const uint64_t *argument)
{
	volatile uint64_t *word = (uint64_t *)watched_word(VA_OUTBOX, handles[argument[0]]);
	uint64_t count = 0;

	while (!told_to_end())
		*word = ++count;
	mail->value[0] = count;
	return CALL_OK;
}

static int64_t do_watch(const uint64_t *argument)
{
	const volatile uint64_t *word = (uint64_t *)watched_word(VA_INBOX, handles[argument[0]]);
	uint64_t loop = 0;

	for (; !told_to_end(); MAILBOX_STORE(mail->value[0], ++loop)) {
		uint64_t seen = *word;

		if (seen == 0)
			continue;
		if (seen > mail->value[1])
			mail->value[1] = seen;
		mail->value[2] = loop + 1;
	}
	return CALL_OK;
}

static uint64_t xorshift(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int64_t do_scribble(const uint64_t *argument)
{
	static const uint64_t edges[] = {0,          1,          RING_CELLS, RING_CELLS + 1,
	                                 1ull << 31, UINT32_MAX, UINT64_MAX};
	uint64_t state = argument[0] | 1, n_words = (DOMAIN_BOOT->n_slots - 1) * DOMAIN_BOOT->slot_stride / 8;
	volatile uint64_t *words = (uint64_t *)(VA_OUTBOX + t_slot_offset(0));

	for (uint64_t round = 1; !told_to_end(); round++) {
		for (uint64_t i = 0; i < n_words && !told_to_end(); i += 1 + xorshift(&state) % 8) {
			uint64_t value = xorshift(&state);

			words[i] =
				value & 1 ? value : edges[(value >> 8) % (sizeof(edges) / sizeof(edges[0]))];
		}
		/* The headers again and again: they are what anybody looks at. */
		for (uint64_t slot = 0; slot + 1 < DOMAIN_BOOT->n_slots; slot++)
			for (uint64_t i = 0; i < sizeof(struct outbox_header) / 8; i++)
				words[slot * DOMAIN_BOOT->slot_stride / 8 + i] =
					edges[xorshift(&state) % (sizeof(edges) / sizeof(edges[0]))];
		MAILBOX_STORE(mail->value[0], round);
	}
	return CALL_OK;
}

static int64_t do_look(const uint64_t *argument)
{
	const volatile uint64_t *words = (uint64_t *)(VA_INBOX + t_slot_offset(argument[0]));
	uint64_t n = 0;

	for (uint64_t i = 0; i < (SLOT_BULK_OFFSET + DOMAIN_BOOT->bulk_bytes) / 8; i++)
		n += words[i] != 0;
	mail->value[0] = n;
	return CALL_OK;
}

static int64_t do_storm(const uint64_t *argument)
{
	for (uint64_t i = 0; i < argument[0]; i++) {
		struct channel *channel = NULL;
		int granted = channel_connect(mail->text, argument[1], &channel);
		int result = t_accepted(granted, argument[1], channel);
		uint32_t kind = result == CALL_OK        ? 0
		                : result == CALL_DENIED  ? 1
		                : result == CALL_REVOKED ? 2
		                                         : 3;

		if (result == CALL_OK)
			channel_close(channel);
		MAILBOX_STORE(mail->value[kind], mail->value[kind] + 1);
		if (kind == 3)
			mail->value[4] = (uint64_t)result;
	}
	return CALL_OK;
}

static int64_t do_serve(const uint64_t *argument)
{
	(void)argument;
	while (!told_to_end()) {
		struct channel *channel;

		if (channel_accept(MILLISECONDS(1), &channel) == CALL_OK) {
			channel_close(channel);
			MAILBOX_STORE(mail->value[0], mail->value[0] + 1);
		}
	}
	return CALL_OK;
}

static int64_t do_ping(const uint64_t *argument)
{
	for (uint64_t i = 1; i <= argument[1]; i++) {
		uint64_t back = 0;
		int64_t result =
			channel_call(handles[argument[0]], &i, sizeof(i), &back, sizeof(back), FOREVER, NULL);

		if (result != sizeof(back))
			return result;
		DOMAIN_ASSERT(back == i);
		MAILBOX_STORE(mail->value[0], i);
	}
	return CALL_OK;
}

static int64_t do_pong(const uint64_t *argument)
{
	for (uint64_t i = 1; i <= argument[1]; i++) {
		uint64_t number = 0;
		int64_t result = channel_receive(handles[argument[0]], &number, sizeof(number), FOREVER);

		if (result != sizeof(number))
			return result;
		DOMAIN_ASSERT(number == i);
		result = channel_send(handles[argument[0]], &number, sizeof(number), FOREVER);
		if (result != CALL_OK)
			return result;
		MAILBOX_STORE(mail->value[0], i);
	}
	return CALL_OK;
}

/* A flood of notifications, whether they are allowed or not. */
static int64_t do_notify(const uint64_t *argument)
{
	for (uint64_t i = 0; i < argument[1] && !told_to_end(); i++) {
		int64_t result = system_call(SYS_NOTIFY, DOMAIN_BOOT->first_slot + argument[0], 0);

		MAILBOX_STORE(mail->value[result != CALL_OK], mail->value[result != CALL_OK] + 1);
	}
	return CALL_OK;
}

static int64_t do_log(const uint64_t *argument)
{
	for (uint64_t i = 0; i < argument[0]; i++)
		log_line("%s %llu", mail->text, (unsigned long long)i);
	return CALL_OK;
}

static int64_t do_write(const uint64_t *argument)
{
	*(volatile uint64_t *)argument[0] = argument[1];
	return CALL_OK;
}

static int64_t carry_out(uint64_t operation, const uint64_t *argument)
{
	static int64_t (*const operations[])(const uint64_t *argument) = {
		[ACTOR_CONNECT] = do_connect, [ACTOR_ACCEPT] = do_accept,
		[ACTOR_CLOSE] = do_close,     [ACTOR_SEND] = do_send,
		[ACTOR_RECEIVE] = do_receive, [ACTOR_CALL] = do_call,
		[ACTOR_POLL] = do_poll,       [ACTOR_INFO] = do_info,
		[ACTOR_EXIT] = do_exit,       [ACTOR_FAULT] = do_fault,
		[ACTOR_COUNT] = do_count,     [ACTOR_SYSTEM_CALL] = do_system_call,
		[ACTOR_WATCH] = do_watch,     [ACTOR_SCRIBBLE] = do_scribble,
		[ACTOR_LOOK] = do_look,       [ACTOR_STORM] = do_storm,
		[ACTOR_LOG] = do_log,         [ACTOR_WRITE] = do_write,
		[ACTOR_SERVE] = do_serve,     [ACTOR_PING] = do_ping,
		[ACTOR_PONG] = do_pong,       [ACTOR_CONNECT_FOR] = do_connect_for,
		[ACTOR_PEER] = do_peer,       [ACTOR_EVENTS] = do_events,
		[ACTOR_NOTIFY] = do_notify,   [ACTOR_OPEN] = do_open,
		[ACTOR_AWAIT] = do_await,
	};

	DOMAIN_ASSERT(operation < sizeof(operations) / sizeof(operations[0]) && operations[operation]);
	return operations[operation](argument);
}

int main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	mail = t_mailbox();
	buffer = heap_alloc(MESSAGE_BYTES);
	DOMAIN_ASSERT(buffer != NULL);
	MAILBOX_STORE(mail->ready, MAILBOX_READY);
	for (;;) {
		uint64_t seen = events_seen(), command = MAILBOX_LOAD(mail->command), argument[6];

		if (command == mail->begun) {
			wait_events(seen, FOREVER);
			continue;
		}
		memcpy(argument, mail->argument, sizeof(argument));
		for (uint32_t i = 0; i < MAILBOX_VALUES; i++)
			mail->value[i] = 0;
		MAILBOX_STORE(mail->begun, command);
		mail->result = carry_out(mail->operation, argument);
		MAILBOX_STORE(mail->done, command);
	}
}
