/*
 * sink [SERVICE]
 *
 * Accepts one connection, receives until the peer has closed, and logs
 * `xxh3 DIGEST bytes N`: the digest that `xxhsum -H3` prints of the same bytes.
 *
 * Status: 0 closed in order, 1 cut, peer died or no heap, 2 wrong arguments.
 */
#include <portcullis.h>

#define XXH_INLINE_ALL
#define XXH_NO_STREAM_ALLOCATION
#include <xxhash.h>

static int receive_all(struct channel *channel, void *buffer, XXH3_state_t *state, uint64_t *bytes)
{
	int64_t n;

	while ((n = channel_receive(channel, buffer, channel_max_bytes(), FOREVER)) >= 0) {
		XXH3_64bits_update(state, buffer, (size_t)n);
		*bytes += (uint64_t)n;
	}
	return (int)n;
}

int main(int argc, char **argv)
{
	static XXH3_state_t state __attribute__((aligned(64)));
	void *buffer = heap_alloc(channel_max_bytes());
	struct channel *channel;
	uint64_t bytes = 0;
	int result;

	(void)argv;
	if (argc > 2) {
		log_line("usage: sink [SERVICE]");
		return STATUS_USAGE;
	}
	if (buffer == NULL) {
		log_line("the heap has no room for a message of %zu bytes", channel_max_bytes());
		return STATUS_FAILED;
	}
	XXH3_64bits_reset(&state);
	result = channel_accept(FOREVER, &channel);
	if (result == CALL_OK)
		result = receive_all(channel, buffer, &state, &bytes);
	if (result != CALL_PEER_CLOSED) {
		log_line("%s after %llu bytes", call_error(result), (unsigned long long)bytes);
		return STATUS_FAILED;
	}
	log_line("xxh3 %016llx bytes %llu", (unsigned long long)XXH3_64bits_digest(&state),
	         (unsigned long long)bytes);
	(void)channel_close(channel);
	return STATUS_OK;
}
