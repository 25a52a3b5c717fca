/*
 * A flow without flow control at full speed: the writer overwrites, the reader
 * checks that what it is handed is one whole message, and counts.
 *
 * t_diode writer: numbered messages of many lengths to "diode", in bursts, while the
 * host wants it. Most words of a message look like what stands around messages in a ring.
 * t_diode reader: takes them, now and then slowly.
 * Lane 0 of the mailbox: attempt (writer); taken, n_taken, wrong, ended: lost (reader).
 */
#include "tests/hostile/domains/t_domain.h"

#include "guest/abi/ring.h"

#define MOST_WORDS 700u

static struct mailbox *mail;
static uint64_t words[MOST_WORDS];

static uint64_t mix(uint64_t value)
{
	value ^= value >> 31;
	value *= 0x9e3779b97f4a7c15ull;
	return value ^ value >> 29;
}

/* Most fit a cell; the others share the bulk area. */
static uint64_t n_words(uint64_t counter)
{
	uint64_t draw = mix(counter);

	return draw % 4 ? 2 + draw / 4 % 6 : 8 + draw / 4 % (MOST_WORDS - 8);
}

/* A commit word of a message near this one, a position, or anything. */
static uint64_t word_of(uint64_t counter, uint64_t i)
{
	uint64_t draw = mix(counter * MOST_WORDS + i);

	switch (draw % 4) {
	case 0:
		return (counter - 64 + draw / 4 % 192) << RING_LENGTH_BITS | draw / 1024 % 64;
	case 1:
		return counter + draw / 4 % 130;
	case 2:
		return draw % 2 ? 0 : UINT64_MAX;
	default:
		return draw;
	}
}

static uint64_t fill(uint64_t counter)
{
	uint64_t n = n_words(counter);

	words[0] = counter;
	for (uint64_t i = 1; i < n; i++)
		words[i] = word_of(counter, i);
	return n * sizeof(words[0]);
}

static bool is_whole(uint64_t bytes)
{
	uint64_t counter = words[0], n = n_words(counter);

	if (bytes != n * sizeof(words[0]))
		return false;
	for (uint64_t i = 1; i < n; i++)
		if (words[i] != word_of(counter, i))
			return false;
	return true;
}

static int run_writer(void)
{
	struct mailbox_lane *lane = &mail->lane[0];
	struct channel *channel;

	DOMAIN_ASSERT(channel_connect("diode", FOREVER, &channel) == CALL_OK);
	MAILBOX_STORE(lane->is_open, 1);
	for (;;) {
		uint64_t seen = events_seen(), burst = 1 + mix(lane->attempt) % 300;

		for (uint64_t i = 0; i < burst && MAILBOX_LOAD(mail->want); i++) {
			uint64_t counter = lane->attempt + 1;

			if (channel_send(channel, words, fill(counter), 0) != CALL_OK)
				return STATUS_OK;
			MAILBOX_STORE(lane->attempt, counter);
		}
		wait_events(seen, deadline_after(MILLISECONDS(1)));
	}
}

static int run_reader(void)
{
	struct mailbox_lane *lane = &mail->lane[0];
	struct channel_info info;
	struct channel *channel;

	DOMAIN_ASSERT(channel_accept(FOREVER, &channel) == CALL_OK);
	for (;;) {
		int64_t bytes = channel_receive(channel, words, sizeof(words), FOREVER);

		if (bytes < 0) {
			lane->ending = bytes;
			MAILBOX_STORE(lane->revoked, 1);
			for (;;)
				wait_events(events_seen(), FOREVER);
		}
		if (!is_whole((uint64_t)bytes) || words[0] <= lane->taken)
			lane->wrong++;
		(void)channel_info(channel, &info);
		MAILBOX_STORE(lane->ended, info.lost);
		MAILBOX_STORE(lane->taken, words[0]);
		MAILBOX_STORE(lane->n_taken, lane->n_taken + 1);
		if (mix(words[0]) % 64 == 0)
			wait_events(events_seen(), deadline_after(MILLISECONDS(2)));
	}
}

int main(int argc, char **argv)
{
	DOMAIN_ASSERT(argc == 2);
	mail = t_mailbox();
	MAILBOX_STORE(mail->ready, MAILBOX_READY);
	return strcmp(argv[1], "writer") == 0 ? run_writer() : run_reader();
}
