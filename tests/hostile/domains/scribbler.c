/*
 * scribbler SERVICE [words] [ROUNDS]
 *
 * Connects, then writes noise over its whole outbox, header and cells included, for ever or ROUNDS
 * times. `words`: writes only into the header's words and commit words, values near what a
 * ring expects, which get further than noise does.
 *
 * Survival: the peer says "broken by the peer" (or goes on) and never hands on more than it
 * checked; the host's counters are clamped; nobody else notices. H1, H2, H13.
 */
#include "tests/hostile/domains/hostile.h"

static const uint64_t near[] = {0, 1, 2, 63, 64, 65, 1u << 24, 1u << 31, UINT32_MAX, 1ull << 63, UINT64_MAX};

static void scribble_all(uint64_t *outbox)
{
	for (size_t i = 0; i < slot_bytes() / 8; i++)
		__atomic_store_n(&outbox[i], noise(), __ATOMIC_RELAXED);
}

static void scribble_words(uint64_t *outbox)
{
	const size_t cells = SLOT_CELLS_OFFSET / 8, header = sizeof(struct outbox_header) / 8;

	for (size_t i = 0; i < 4096; i++) {
		uint64_t value = near[noise() % (sizeof near / sizeof *near)];

		if (noise() % 2)
			value = (noise() % 130) << RING_LENGTH_BITS | value % (1u << RING_LENGTH_BITS);
		__atomic_store_n(&outbox[noise() % 2 ? noise() % header : cells + noise() % 64 * 8], value,
		                 __ATOMIC_RELAXED);
	}
}

int main(int argc, char **argv)
{
	bool words = argc > 2 && strcmp(argv[2], "words") == 0;
	uint64_t rounds = number_or(argc, argv, words ? 3 : 2, UINT64_MAX);
	struct channel *channel = connect_or_exit(argument_or(argc, argv, 1, "echo"));

	log_line("scribbling");
	for (uint64_t i = 0; i < rounds; i++) {
		if (words)
			scribble_words((uint64_t *)outbox_of(channel));
		else
			scribble_all((uint64_t *)outbox_of(channel));
		channel_notify(channel);
	}
	log_line("scribbled %llu rounds", (unsigned long long)rounds);
	return STATUS_OK;
}
