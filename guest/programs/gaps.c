/*
 * A domain that is not concerned, and notices when it does not run; see gaps.h.
 */
#include "guest/programs/gaps.h"

#include "guest/lib/domain.h"

#define N_SAMPLES 20000u
#define N_TICKS 4096u /* longer ones count as the longest: none of them is the median */

static uint32_t n_of[N_TICKS];

static uint64_t median_ticks(void)
{
	uint64_t last = tsc_now();
	uint32_t below = 0, ticks = 0;

	for (uint32_t i = 0; i < N_SAMPLES; i++) {
		uint64_t now = tsc_now(), passed = now - last;

		n_of[passed < N_TICKS ? passed : N_TICKS - 1]++;
		last = now;
	}
	while (ticks < N_TICKS - 1 && (below += n_of[ticks]) <= N_SAMPLES / 2)
		ticks++;
	return ticks > 0 ? ticks : 1;
}

int main(int argc, char **argv)
{
	struct gaps *gaps = (struct gaps *)(VA_OUTBOX + DOMAIN_BOOT->first_slot * DOMAIN_BOOT->slot_stride +
	                                    SLOT_BULK_OFFSET);
	uint64_t median = median_ticks(), most = GAP_TIMES * median, last, n = 0;

	(void)argc, (void)argv;
	DOMAIN_ASSERT(DOMAIN_BOOT->bulk_bytes >= sizeof *gaps);
	gaps->tsc_khz = DOMAIN_BOOT->tsc_khz;
	last = tsc_now();
	__atomic_store_n(&gaps->now, last, __ATOMIC_RELAXED);
	__atomic_store_n(&gaps->median, median, __ATOMIC_RELEASE);
	for (;;) {
		uint64_t now = tsc_now();

		if (now - last > most) {
			gaps->gap[n % GAPS_KEPT] = (struct gap){last, now};
			__atomic_store_n(&gaps->n, ++n, __ATOMIC_RELEASE);
			now = tsc_now(); /* what noting it took is no gap */
		}
		__atomic_store_n(&gaps->now, now, __ATOMIC_RELAXED);
		last = now;
	}
}
