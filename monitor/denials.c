#include "monitor/denials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "monitor/audit.h"
#include "monitor/loop.h"
#include "monitor/posture.h"
#include "policy/overlay.h"
#include "policy/server.h"
#include "vmm/check.h"

#define MAX_NOTED 256u

/* With the names of its domain, whose guest may be gone when its line is written. */
struct noted {
	struct denial denial;
	char guest[MAX_NAME_BYTES], domain[MAX_NAME_BYTES];
};

struct denials {
	/* Registry lock. */
	struct noted noted[MAX_NOTED];
	uint32_t n_noted;

	/* Loop thread only. */
	uint32_t n_asked; /* without an answer: a server that hangs must not let them pile up */
};

/* One that waits for its explanation. */
struct asked {
	struct monitor *monitor;
	struct noted noted;
};

struct denials *denials_create(void)
{
	return calloc(1, sizeof(struct denials));
}

void denials_destroy(struct denials *denials)
{
	free(denials);
}

static void write_line(struct monitor *monitor, const struct noted *noted, const char *reason)
{
	const struct denial *denial = &noted->denial;
	const struct sid_table *sids = monitor->posture->sids;

	audit_avc(monitor->audit, &(struct audit_avc){
					  .tclass = denial->tclass,
					  .permissions = denial->permissions,
					  .guest = noted->guest[0] ? noted->guest : NULL,
					  .domain = noted->domain[0] ? noted->domain : NULL,
					  .channel = denial->channel,
					  .source_context = sid_context(sids, denial->source),
					  .target_context = sid_context(sids, denial->target),
					  .permissive = denial->permissive,
					  .reason = reason,
				  });
}

void denials_note(struct registry *registry, struct monitor *monitor, const struct denial *denial)
{
	struct denials *denials = monitor->denials;
	struct noted noted = {.denial = *denial};

	CHECK(registry->held);
	if (denial->domain) {
		snprintf(noted.guest, sizeof(noted.guest), "%s", denial->domain->guest->name);
		snprintf(noted.domain, sizeof(noted.domain), "%s", denial->domain->name);
	}
	if (denials->n_noted == MAX_NOTED) {
		write_line(monitor, &noted, NULL);
		return;
	}
	denials->noted[denials->n_noted++] = noted;
	registry_kick(registry);
}

static void explained(void *opaque, int status, const char *text)
{
	struct asked *asked = opaque;

	asked->monitor->denials->n_asked--;
	write_line(asked->monitor, &asked->noted, status == 0 ? text : NULL);
	free(asked);
}

/* The lowest permission stands for all: what denies one of a line denies the rest in the same words. */
static void ask(struct monitor *monitor, const struct noted *noted)
{
	const struct denial *denial = &noted->denial;
	struct posture *posture = monitor->posture;
	const char *source = sid_context(posture->sids, denial->source);
	const char *target = sid_context(posture->sids, denial->target);
	uint32_t permission = denial->permissions & -denial->permissions;
	const struct overlay_rule *rule =
		overlay_find(&posture->overlay, source, target, denial->tclass, permission);
	struct asked *asked;
	char text[WHY_BYTES];

	if (rule) {
		overlay_format(rule, text);
		write_line(monitor, noted, text);
		return;
	}
	asked = posture->policy.server && monitor->denials->n_asked < MAX_NOTED ? malloc(sizeof(*asked))
	                                                                        : NULL;
	if (asked)
		*asked = (struct asked){monitor, *noted};
	if (asked && server_explain(posture->policy.server, source, target, denial->tclass, permission,
	                            loop_now() + monitor->deadline_ns, explained, asked) == 0) {
		monitor->denials->n_asked++;
		return;
	}
	free(asked);
	write_line(monitor, noted, NULL);
}

static uint32_t take(struct monitor *monitor, struct noted noted[static MAX_NOTED])
{
	struct registry *registry = registry_lock(monitor);
	uint32_t n = monitor->denials->n_noted;

	for (uint32_t i = 0; i < n; i++)
		noted[i] = monitor->denials->noted[i];
	monitor->denials->n_noted = 0;
	registry_unlock(registry);
	return n;
}

void denials_flush(struct monitor *monitor)
{
	struct noted noted[MAX_NOTED];
	uint32_t n = take(monitor, noted);

	for (uint32_t i = 0; i < n; i++)
		write_line(monitor, &noted[i], NULL);
}

void denials_pump(struct monitor *monitor)
{
	struct noted noted[MAX_NOTED];
	uint32_t n = take(monitor, noted);

	for (uint32_t i = 0; i < n; i++)
		ask(monitor, &noted[i]);
	if (n)
		posture_rearm(monitor);
}
