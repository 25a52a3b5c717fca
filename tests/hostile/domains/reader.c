/*
 * reader SERVICE | reader --accept
 *
 * Reads its peer's outbox without asking any record, as fast as it goes, and publishes what it saw in
 * words of its own outbox header that no ring uses:
 *	outbox + 2048: the highest commit word of cell 1 ever seen
 *	outbox + 2056: how many times it looked
 *	outbox + 2064: the commit word at the last look
 *
 * Survival: after a cut has been reported complete, 2064 is zero and 2048 grows no more, however
 * long it goes on. I1, R3, R4.
 */
#include "tests/hostile/domains/hostile.h"

int main(int argc, char **argv)
{
	const char *service = argument_or(argc, argv, 1, "echo");
	struct channel *channel = NULL;
	uint64_t highest = 0, looks = 0;
	uint64_t *published;
	const uint64_t *watched;

	if (strcmp(service, "--accept") == 0)
		DOMAIN_ASSERT(channel_accept(FOREVER, &channel) == CALL_OK);
	else
		channel = connect_or_exit(service);
	published = (uint64_t *)(outbox_of(channel) + 2048);
	watched = &ring_cells(channel->ring.in)[1].commit;
	log_line("reading");
	for (;;) {
		uint64_t seen = __atomic_load_n(watched, __ATOMIC_RELAXED);

		highest = seen > highest ? seen : highest;
		__atomic_store_n(&published[0], highest, __ATOMIC_RELAXED);
		__atomic_store_n(&published[1], ++looks, __ATOMIC_RELAXED);
		__atomic_store_n(&published[2], seen, __ATOMIC_RELEASE);
	}
}
