#include "tests/monitor/life_support.h"

#include <stdio.h>
#include <string.h>

#define ACTOR(name, type, more)                                                                              \
	"{ name = \"" name "\"; program = \"" TEST_DOMAINS                                                   \
	"t_actor.elf\"; context = \"system_u:system_r:" type ":s0\"; " more " }"
#define OTHER(type) "name = \"other\";\ndomains = ( " ACTOR("five", type, "offers = ( \"sub\" );") " );\n"

const char LIFE_OTHER[] = OTHER("three_t");
const char LIFE_OTHER_AS_ONE[] = OTHER("one_t");
const char LIFE_OTHER_UNKNOWN[] = OTHER("no_such_t");
const char LIFE_WITHOUT_ONE[] = "name = \"test\"; vcpus = 2;\ndomains = (\n" ACTOR(
	"two", "two_t", "vcpu = 1; offers = ( \"svc\" );") ",\n" ACTOR("three", "three_t", "") " );\n";

struct definition *life_define(struct world *world, const char *text, bool persistent)
{
	const struct manifest_options options = {.directory = "./", .guests_only = true};
	struct definition *definition;
	struct manifest *manifest;
	char why[WHY_BYTES];

	cr_assert_eq(manifest_parse("other.conf", text, strlen(text), &options, &manifest, why), 0, "%s",
	             why);
	cr_assert_eq(lifecycle_define(world->monitor, manifest, persistent, &definition, why), 0, "%s", why);
	return definition;
}

struct definition *life_find(struct world *world, const char *name)
{
	struct definition *definition = lifecycle_find(world->monitor, name);

	cr_assert_not_null(definition, "no guest %s", name);
	return definition;
}

static void on_told(void *opaque, struct definition *definition, int error, const char *why)
{
	struct told *told = opaque;

	(void)definition;
	told->n++;
	told->error = error;
	snprintf(told->why, sizeof(told->why), "%s", why);
}

void life_begin(struct world *world, struct definition *definition, bool paused, struct told *told)
{
	*told = (struct told){0};
	DO(lifecycle_start(world->monitor, definition, paused, on_told, told, why_not));
	cr_assert_eq(told->n, 0, "told from within the call");
}

static bool was_told(struct world *world, void *opaque)
{
	(void)world;
	return ((const struct told *)opaque)->n > 0;
}

void life_finish(struct world *world, const struct told *told)
{
	world_until(world, was_told, (void *)told, "the caller of a start is told");
	cr_assert_eq(told->n, 1);
}

void life_start(struct world *world, const char *name)
{
	struct told told;

	life_begin(world, life_find(world, name), false, &told);
	life_finish(world, &told);
	cr_assert_eq(told.error, 0, "%s", told.why);
}

static bool is_up(struct world *world, void *opaque)
{
	return MAILBOX_LOAD(world_mailbox(world, opaque)->ready) == MAILBOX_READY;
}

void life_until_up(struct world *world, const char *domain)
{
	world_until(world, is_up, (void *)domain, "a domain is up");
}

struct wanted {
	const char *name;
	enum lifecycle_state state;
};

static bool is_in_state(struct world *world, void *opaque)
{
	const struct wanted *wanted = opaque;

	return life_find(world, wanted->name)->state == wanted->state;
}

void life_until_state(struct world *world, const char *name, enum lifecycle_state state)
{
	struct wanted wanted = {name, state};

	world_until(world, is_in_state, &wanted, "a guest changes its state");
}

static void hear(void *opaque, const struct definition *definition, enum lifecycle_event event,
                 enum lifecycle_reason reason)
{
	struct heard *heard = opaque;
	size_t used = strlen(heard->text);

	snprintf(heard->text + used, sizeof(heard->text) - used, "%s%s %s %s", used ? "; " : "",
	         definition->name, lifecycle_event_name(event), lifecycle_reason_name(reason));
}

void life_listen(struct world *world, struct heard *heard)
{
	*heard = (struct heard){.listener = {.heard = hear, .opaque = heard}};
	lifecycle_listen(world->monitor, &heard->listener);
}

void life_expect(struct heard *heard, const char *text)
{
	cr_assert_str_eq(heard->text, text);
	heard->text[0] = '\0';
}
