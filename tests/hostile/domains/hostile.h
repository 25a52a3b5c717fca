/*
 * What hostile domains share: arguments, and the raw system call under the library.
 * Each program says in its head what it does and what survival proves.
 */
#ifndef PORTCULLIS_TESTS_HOSTILE_DOMAINS_H
#define PORTCULLIS_TESTS_HOSTILE_DOMAINS_H

#include "guest/lib/domain.h"

/* The argument, or a default. */
static inline const char *argument_or(int argc, char **argv, int i, const char *other)
{
	return i < argc ? argv[i] : other;
}

static inline uint64_t number_or(int argc, char **argv, int i, uint64_t other)
{
	uint64_t number;

	return i < argc && text_number(argv[i], &number) ? number : other;
}

/* Connects and is accepted, or ends with STATUS_FAILED and a line that says why. */
static inline struct channel *connect_or_exit(const char *service)
{
	struct channel *channel;
	int result = channel_connect(service, SECONDS(20), &channel);

	if (result == CALL_OK)
		result = channel_await(channel, SECONDS(20));
	if (result == CALL_OK)
		return channel;
	log_line("%s: %s", service, call_error(result));
	domain_exit(STATUS_FAILED);
}

static inline uint8_t *outbox_of(const struct channel *channel)
{
	return (uint8_t *)channel->ring.out;
}

static inline size_t slot_bytes(void)
{
	return SLOT_BULK_OFFSET + DOMAIN_BOOT->bulk_bytes;
}

/* xorshift64: the same noise in each run, so that a failure can be repeated. */
static inline uint64_t noise(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

#endif
