/*
 * The two ends of a measurement.
 *
 *	pingpong client SERVICE BATCH...	runs the next batch each time the host wakes it
 *	pingpong serve				answers one client until it closes
 *	pingpong relay OWN SERVICE BATCH...	as client, on behalf of the one that connects to OWN
 *	pingpong principal OWN			that one
 *
 * A batch is KIND:BYTES:ROUND_TRIPS:MESSAGES: so many timed round trips, then so
 * many messages one way and one answer. The kinds:
 *
 *	m	both ends look until there is something, for MOST_TICKS before they sleep
 *	u	the same, but the ring's looks at its slot record go to a private copy: what they
 *		cost is the difference. (A cut it would then notice by the zero pages alone.)
 *	i	as m, and the server asks for each message who sent it, and compares
 *	s	both ends sleep when there is nothing at the first look
 *
 * and those whose "round trip" is something else, without messages:
 *
 *	c	a connect to a service that policy allows; that the server accepts, and the close, is
 *		not timed
 *	a	the same, until the server has accepted
 *	f	as c, but none is ever closed: each takes slots that nobody has used
 *	d	a connect to PINGPONG_CLOSED, which policy denies
 *	h	a hypercall that the host answers from what it knows
 *	y	a system call that the kernel knows nothing of
 */
#include "guest/lib/domain.h"
#include "guest/programs/pingpong.h"

#define MAX_BYTES (128u << 10)
#define ACCEPT_PATIENCE SECONDS(60)
#define MOST_TICKS (UINT64_C(1) << 26) /* some 20 ms: longer than a slice of the host's scheduler */

/* First message of a batch. */
struct batch {
	uint64_t kind;
	uint64_t bytes;
	uint64_t n_round_trips;
	uint64_t n_messages;
};

static uint8_t *buffer;

/* One end, and the words that its ring can look at. */
struct end {
	struct channel *channel;
	const uint64_t *word;
	uint64_t private_word;
	const char *peer; /* the context that it had when the channel was opened */
	char kind;        /* 0 between batches: the library's own way of waiting */
};

static bool is_connect(uint64_t kind)
{
	return kind == 'c' || kind == 'a' || kind == 'f';
}

static uint64_t read_tsc(void)
{
	uint32_t low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static void end_open(struct end *end, struct channel *channel)
{
	static char context[MAX_CONTEXT_BYTES];
	struct channel_info info;

	DOMAIN_ASSERT(channel_info(channel, &info) == CALL_OK);
	memcpy(context, info.peer_context, strlen(info.peer_context) + 1);
	end->peer = context;
	end->channel = channel;
	end->word = channel->ring.word;
	end->private_word = *end->word;
}

static void set_kind(struct end *end, uint64_t kind)
{
	end->kind = (char)kind;
	end->channel->ring.word = kind == 'u' ? &end->private_word : end->word;
}

/* After a look in vain: looks again for a while, then leaves the waiting to the library. */
static uint64_t patience(const struct end *end, uint64_t *until)
{
	uint64_t now;

	if (end->kind != 'm' && end->kind != 'u' && end->kind != 'i')
		return FOREVER;
	now = read_tsc();
	if (*until == 0)
		*until = now + MOST_TICKS;
	spin_pause();
	return now < *until ? 0 : FOREVER;
}

static void send(struct end *end, const void *message, size_t bytes)
{
	uint64_t until = 0;
	int result = channel_try_send(end->channel, message, bytes);

	while (result == CALL_AGAIN)
		result = channel_send(end->channel, message, bytes, patience(end, &until));
	DOMAIN_ASSERT(result == CALL_OK);
}

/* As the library's receive, without the looks before the sleep. */
static int64_t receive_sleeping(struct end *end)
{
	struct channel *channel = end->channel;
	int64_t result = channel_try_receive(channel, buffer, MAX_BYTES);

	while (result == CALL_AGAIN) {
		uint64_t seen = events_seen();

		ring_want_message(&channel->ring);
		result = channel_try_receive(channel, buffer, MAX_BYTES);
		if (result == CALL_AGAIN)
			(void)wait_events(seen, FOREVER);
	}
	ring_unwant(&channel->ring);
	return result;
}

static void receive(struct end *end, size_t bytes)
{
	uint64_t until = 0;
	int64_t result = end->kind == 's' ? receive_sleeping(end)
	                                  : channel_try_receive(end->channel, buffer, MAX_BYTES);

	while (result == CALL_AGAIN)
		result = channel_receive(end->channel, buffer, MAX_BYTES, patience(end, &until));
	DOMAIN_ASSERT(result == (int64_t)bytes);
}

/* What a server does that gives each client what is that client's. */
static void identify(const struct end *end)
{
	struct channel_info info;

	DOMAIN_ASSERT(channel_info(end->channel, &info) == CALL_OK &&
	              strcmp(info.peer_context, end->peer) == 0);
}

/* ---- the client ---- */

static struct pingpong_result *result_page(void)
{
	const struct boot_record *boot = DOMAIN_BOOT;

	return (struct pingpong_result *)(VA_OUTBOX +
	                                  (boot->first_slot + boot->n_slots - 1) * boot->slot_stride);
}

static uint32_t round_trips(struct end *end, const struct batch *batch)
{
	uint32_t *times = (uint32_t *)((uint8_t *)result_page() + SLOT_BULK_OFFSET);
	uint64_t room = DOMAIN_BOOT->bulk_bytes / sizeof *times, before, now;

	for (uint64_t i = 0; i < PINGPONG_WARM_UP; i++) {
		send(end, buffer, batch->bytes);
		receive(end, batch->bytes);
	}
	before = read_tsc();
	for (uint64_t i = 0; i < batch->n_round_trips; i++) {
		send(end, buffer, batch->bytes);
		receive(end, batch->bytes);
		now = read_tsc();
		if (i < room)
			times[i] = (uint32_t)(now - before);
		before = now;
	}
	return (uint32_t)(batch->n_round_trips < room ? batch->n_round_trips : room);
}

/* One of the other things; what of it is timed lies between the stamps. */
static uint64_t operate(const struct end *end, const char *service, uint64_t kind)
{
	struct channel *channel = NULL;
	int64_t result, wanted = CALL_OK;
	uint64_t begun = read_tsc(), ticks;

	if (is_connect(kind)) {
		result = channel_connect(service, FOREVER, &channel);
		if (kind == 'a' && result == CALL_OK)
			result = channel_await(channel, FOREVER);
	} else if (kind == 'd') {
		result = channel_connect(PINGPONG_CLOSED, FOREVER, &channel);
		wanted = CALL_DENIED;
	} else if (kind == 'h') {
		result = system_call(SYS_INFO, end->channel->slot, 0);
	} else {
		result = system_call(0, 0, 0);
		wanted = CALL_NO_CALL;
	}
	ticks = read_tsc() - begun;
	DOMAIN_ASSERT(result == wanted);
	if (channel == NULL)
		return ticks;
	DOMAIN_ASSERT(channel_await(channel, FOREVER) == CALL_OK); /* the server counts them */
	/* Either is a request to the host behind the accept: the events that it raised for that are counted.
	 */
	if (kind == 'f')
		DOMAIN_ASSERT(system_call(SYS_INFO, channel->slot, 0) == CALL_OK);
	else
		(void)channel_close(channel);
	return ticks;
}

static uint32_t operations(struct end *end, const char *service, const struct batch *batch)
{
	uint32_t *times = (uint32_t *)((uint8_t *)result_page() + SLOT_BULK_OFFSET);
	uint64_t room = DOMAIN_BOOT->bulk_bytes / sizeof *times;

	for (uint64_t i = 0; i < PINGPONG_WARM_UP; i++)
		(void)operate(end, service, batch->kind);
	for (uint64_t i = 0; i < batch->n_round_trips; i++) {
		uint64_t ticks = operate(end, service, batch->kind);

		if (i < room)
			times[i] = (uint32_t)ticks;
	}
	return (uint32_t)(batch->n_round_trips < room ? batch->n_round_trips : room);
}

static void stream(struct end *end, const struct batch *batch)
{
	for (uint64_t i = 0; i < batch->n_messages; i++)
		send(end, buffer, batch->bytes);
	receive(end, 1);
}

static bool has_messages(uint64_t kind)
{
	return kind == 'm' || kind == 'u' || kind == 's' || kind == 'i';
}

static void run(struct end *end, const char *service, const struct batch *batch)
{
	struct pingpong_result result = {.tsc_khz = DOMAIN_BOOT->tsc_khz, .bytes = (uint32_t)batch->bytes};
	uint64_t begun;

	send(end, batch, sizeof *batch);
	set_kind(end, batch->kind);
	result.n_times =
		has_messages(batch->kind) ? round_trips(end, batch) : operations(end, service, batch);
	if (batch->n_messages) {
		begun = read_tsc();
		stream(end, batch);
		result.stream_ticks = read_tsc() - begun;
	}
	set_kind(end, 0);
	*result_page() = result;
	log_line(PINGPONG_DONE);
}

static uint64_t host_events(void)
{
	return __atomic_load_n(&DOMAIN_PAGE->host_events, __ATOMIC_ACQUIRE);
}

/* Nothing but the host's word for the next batch raises this count once the channel stands. */
static void wait_for_host(uint64_t host_seen)
{
	uint64_t seen;

	do
		seen = events_seen();
	while (host_events() == host_seen && wait_events(seen, FOREVER));
}

/* The number up to the next colon or the end; *text is moved behind that. */
static bool next_number(const char **text, uint64_t *number)
{
	char digits[24];
	size_t n = 0;

	while (**text != '\0' && **text != ':' && n < sizeof digits - 1)
		digits[n++] = *(*text)++;
	digits[n] = '\0';
	if (**text == ':')
		(*text)++;
	return text_number(digits, number);
}

static bool parse(const char *text, struct batch *batch)
{
	batch->kind = (uint8_t)text[0];
	if (text[0] == '\0' || text[1] != ':')
		return false;
	text += 2;
	return next_number(&text, &batch->bytes) && next_number(&text, &batch->n_round_trips) &&
	       next_number(&text, &batch->n_messages) && *text == '\0' && batch->bytes > 0 &&
	       batch->bytes <= channel_max_bytes() && batch->bytes <= MAX_BYTES;
}

/* own: NULL, or the service at which the one connects on whose behalf this is. */
static int connect_as(const char *own, const char *service, struct channel **channel)
{
	struct channel *principal;
	int result = CALL_OK;

	if (own == NULL)
		return channel_connect(service, ACCEPT_PATIENCE, channel);
	result = channel_accept(ACCEPT_PATIENCE, &principal);
	return result == CALL_OK ? channel_connect_for(service, principal, ACCEPT_PATIENCE, channel) : result;
}

static int client(const char *own, const char *service, char **texts, int n)
{
	static struct batch batches[MAX_ARGUMENTS];
	struct channel *channel;
	struct end end;
	int result = connect_as(own, service, &channel);

	if (result == CALL_OK) /* the word of its record changes no more: end_open copies it */
		result = channel_await(channel, ACCEPT_PATIENCE);
	for (int i = 0; i < n; i++)
		if (!parse(texts[i], &batches[i]))
			return STATUS_USAGE;
	if (result != CALL_OK) {
		log_line("connect to %s: %s", service, call_error(result));
		return STATUS_FAILED;
	}
	end_open(&end, channel);
	receive(&end, 1); /* the server is behind its accept: so are the host's events for that */
	for (int i = 0;; i = (i + 1) % n) {
		uint64_t seen = host_events();

		if (i == 0)
			log_line(PINGPONG_READY);
		wait_for_host(seen);
		run(&end, service, &batches[i]);
	}
}

/* Keeps its channel for as long as the relay does. */
static int principal(const char *service)
{
	struct channel *channel;

	if (channel_connect(service, ACCEPT_PATIENCE, &channel) != CALL_OK)
		return STATUS_FAILED;
	(void)channel_receive(channel, buffer, MAX_BYTES, FOREVER);
	return STATUS_OK;
}

/* ---- the server ---- */

/* Each client is gone before the next is taken; it may be gone before it was looked at. */
static void accept_all(uint64_t n, uint64_t kind)
{
	struct channel *channel;

	for (uint64_t i = 0; i < n; i++) {
		DOMAIN_ASSERT(channel_accept(FOREVER, &channel) == CALL_OK);
		if (kind == 'f')
			continue;
		DOMAIN_ASSERT(channel_receive(channel, buffer, MAX_BYTES, FOREVER) < 0);
		(void)channel_close(channel);
	}
}

static void answer(struct end *end, const struct batch *batch)
{
	if (is_connect(batch->kind))
		accept_all(PINGPONG_WARM_UP + batch->n_round_trips, batch->kind);
	if (!has_messages(batch->kind))
		return;
	for (uint64_t i = 0; i < PINGPONG_WARM_UP + batch->n_round_trips; i++) {
		receive(end, batch->bytes);
		if (batch->kind == 'i')
			identify(end);
		send(end, buffer, batch->bytes);
	}
	for (uint64_t i = 0; i < batch->n_messages; i++) {
		receive(end, batch->bytes);
		if (batch->kind == 'i')
			identify(end);
	}
	if (batch->n_messages)
		send(end, buffer, 1);
}

static int serve(void)
{
	struct channel *channel;
	struct batch batch;
	struct end end;

	if (channel_accept(ACCEPT_PATIENCE, &channel) != CALL_OK)
		return STATUS_FAILED;
	end_open(&end, channel);
	send(&end, buffer, 1);
	while (channel_receive(channel, &batch, sizeof batch, FOREVER) == (int64_t)sizeof batch) {
		set_kind(&end, batch.kind);
		answer(&end, &batch);
		set_kind(&end, 0);
	}
	return STATUS_OK;
}

int main(int argc, char **argv)
{
	buffer = heap_alloc(MAX_BYTES);
	DOMAIN_ASSERT(buffer != NULL);
	if (argc == 2 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (argc == 3 && strcmp(argv[1], "principal") == 0)
		return principal(argv[2]);
	if (argc >= 4 && argc < (int)MAX_ARGUMENTS && strcmp(argv[1], "client") == 0)
		return client(NULL, argv[2], &argv[3], argc - 3);
	if (argc >= 5 && argc < (int)MAX_ARGUMENTS && strcmp(argv[1], "relay") == 0)
		return client(argv[2], argv[3], &argv[4], argc - 4);
	log_line("usage: pingpong client SERVICE KIND:BYTES:ROUND_TRIPS:MESSAGES... | pingpong serve | "
	         "pingpong relay OWN SERVICE KIND:BYTES:ROUND_TRIPS:MESSAGES... | pingpong principal OWN");
	return STATUS_USAGE;
}
