/*
 * Guests start and end again and again: nothing of them stays (H7).
 */
#include <dirent.h>
#include <stdlib.h>

#include "monitor/guest.h"
#include "tests/monitor/life_support.h"

#define ROUNDS 25

#ifdef __SANITIZE_ADDRESS__ /* keeps for a while what was freed, and finds leaks itself */
#define ROOM_BYTES (512u << 20)
#else
#define ROOM_BYTES (8u << 20)
#endif

static unsigned count_in(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned n = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* No more descriptors than that: workers give back what ended guests had. */
static bool is_settled(struct world *world, void *opaque)
{
	const unsigned *fds = opaque;

	(void)world;
	return count_in("/proc/self/fd") <= *fds;
}

/* It ends in different states. */
static void one_life(struct world *world, unsigned round)
{
	struct definition *other = life_find(world, "other");
	struct pair pair;

	life_start(world, "other");
	if (round % 4 == 0)
		DO(lifecycle_suspend(world->monitor, other, why_not));
	if (round % 4 == 1) {
		life_until_up(world, "five");
		pair = pair_open(world, "one", "two", "svc");
		pair_close(world, &pair);
	}
	if (round % 2)
		DO(lifecycle_destroy(world->monitor, other, why_not));
	else
		DO(lifecycle_shutdown(world->monitor, other, why_not));
}

Test(life, h7_a_storm_of_starts_and_ends_leaves_nothing)
{
	const char *given = getenv("LIFE_ROUNDS");
	unsigned n = given ? (unsigned)atoi(given) : ROUNDS, fds = 0;
	struct world world;
	uint64_t bytes = 0;

	world_open(&world, &(struct world_options){.quiet = true});
	life_define(&world, LIFE_OTHER, true);
	for (unsigned round = 0; round < n; round++) {
		one_life(&world, round);
		if (round == n / 5) {
			bytes = resident_bytes();
			fds = count_in("/proc/self/fd");
		}
	}
	world_until(&world, is_settled, &fds, "as few descriptors as after a fifth of the rounds");
	cr_assert_eq(world.monitor->registry->n_guests, 2);
	cr_assert_leq(resident_bytes(), bytes + ROOM_BYTES,
	              "%llu bytes after a fifth of %u rounds, %llu at the end", (unsigned long long)bytes, n,
	              (unsigned long long)resident_bytes());
	world_close(&world);
}
