/*
 * Guests that come and go in a world: a definition, its starts, and what listeners heard.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_LIFE_SUPPORT_H
#define PORTCULLIS_TESTS_MONITOR_LIFE_SUPPORT_H

#include "monitor/lifecycle.h"
#include "tests/monitor/world.h"

/* "other": an actor "five" with the context of that type and level, which offers "sub". */
extern const char LIFE_OTHER[];         /* three_t:s0 */
extern const char LIFE_OTHER_AS_ONE[];  /* one_t:s0 */
extern const char LIFE_OTHER_UNKNOWN[]; /* no_such_t:s0 */

/* A world without one_t: "test" with "two" and "three" alone. */
extern const char LIFE_WITHOUT_ONE[];

struct definition *life_define(struct world *world, const char *text, bool persistent);
struct definition *life_find(struct world *world, const char *name); /* must be there */

/* What a start's caller was told. */
struct told {
	unsigned n;
	int error;
	char why[WHY_BYTES];
};

void life_begin(struct world *world, struct definition *definition, bool paused, struct told *told);
void life_finish(struct world *world, const struct told *told);
/* Both, and it must succeed. */
void life_start(struct world *world, const char *name);
void life_until_up(struct world *world, const char *domain);
void life_until_state(struct world *world, const char *name, enum lifecycle_state state);

/* Everything that a listener hears, as "other started booted; other ..." */
struct heard {
	struct lifecycle_listener listener;
	char text[2048];
};
void life_listen(struct world *world, struct heard *heard);
/* And begins anew. */
void life_expect(struct heard *heard, const char *text);

#define DO(call)                                                                                             \
	do {                                                                                                 \
		char why_not[WHY_BYTES] = "";                                                                \
		cr_assert_eq(call, 0, "%s: %s", #call, why_not);                                             \
	} while (0)

#endif
