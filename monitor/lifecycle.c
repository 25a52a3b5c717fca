#include "monitor/lifecycle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/audit.h"
#include "monitor/guest.h"
#include "monitor/lifecycle_internal.h"
#include "monitor/workers.h"
#include "vmm/check.h"
#include "vmm/stop.h"

#define END_NS 500000000ull /* for vCPUs to leave; then the guest is killed: gone within a second (P10) */

/* ---- definitions ---- */

struct definition *lifecycle_first(struct monitor *monitor)
{
	return monitor->lifecycle->first;
}

struct definition *lifecycle_find(struct monitor *monitor, const char *name)
{
	struct definition *definition = monitor->lifecycle->first;

	while (definition && strcmp(definition->name, name) != 0)
		definition = definition->next;
	return definition;
}

struct definition *lifecycle_find_guest(struct monitor *monitor, const struct guest *guest)
{
	struct definition *definition = monitor->lifecycle->first;

	while (definition && definition->guest != guest)
		definition = definition->next;
	return definition;
}

bool definition_is_active(const struct definition *definition)
{
	return definition->state == LIFECYCLE_STARTING || definition->state == LIFECYCLE_RUNNING ||
	       definition->state == LIFECYCLE_SUSPENDED;
}

static struct definition *find_uuid(const struct lifecycle *lifecycle, const uint8_t uuid[static UUID_BYTES])
{
	struct definition *definition = lifecycle->first;

	while (definition && memcmp(definition->uuid, uuid, UUID_BYTES) != 0)
		definition = definition->next;
	return definition;
}

static void uuid_of(const struct lifecycle *lifecycle, const struct manifest_guest *spec,
                    uint8_t uuid[static UUID_BYTES])
{
	if (spec->has_uuid)
		memcpy(uuid, spec->uuid, UUID_BYTES);
	else
		uuid_derive(lifecycle->host, spec->name, uuid);
}

int lifecycle_check_guest(struct monitor *monitor, const struct manifest_guest *spec,
                          char why[static WHY_BYTES])
{
	const struct lifecycle *lifecycle = monitor->lifecycle;
	const struct definition *definition = lifecycle_find(monitor, spec->name), *same;
	uint8_t uuid[UUID_BYTES];

	uuid_of(lifecycle, spec, uuid);
	same = find_uuid(lifecycle, uuid);
	if (definition && definition_is_active(definition)) {
		snprintf(why, WHY_BYTES, "guest %s is there already, and %s", spec->name,
		         definition_state_name(definition));
		return -EEXIST;
	}
	if (same && same != definition) {
		snprintf(why, WHY_BYTES, "guest %s has the uuid of guest %s", spec->name, same->name);
		return -EEXIST;
	}
	if (!definition && lifecycle->n_definitions >= MAX_DEFINITIONS) {
		snprintf(why, WHY_BYTES,
		         "%u guests are defined; portcullis guest undefine removes one that does not run",
		         lifecycle->n_definitions);
		return -ENOSPC;
	}
	return 0;
}

/* A new one at the end of the list; NULL: no memory. */
static struct definition *add(struct lifecycle *lifecycle)
{
	struct definition *definition = calloc(1, sizeof(*definition));
	struct definition **link = &lifecycle->first;

	if (!definition)
		return NULL;
	while (*link)
		link = &(*link)->next;
	*link = definition;
	lifecycle->n_definitions++;
	return definition;
}

int lifecycle_define_guest(struct monitor *monitor, struct manifest *manifest, uint32_t guest,
                           bool persistent, struct definition **out, char why[static WHY_BYTES])
{
	struct lifecycle *lifecycle = monitor->lifecycle;
	const struct manifest_guest *spec = &manifest->guests[guest];
	struct definition *definition = lifecycle_find(monitor, spec->name);
	int error = lifecycle_check_guest(monitor, spec, why);

	if (error < 0)
		return error;
	definition = definition ? definition : add(lifecycle);
	if (!definition) {
		snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	manifest_hold(manifest);
	manifest_free(definition->manifest);
	definition->manifest = manifest;
	definition->spec = spec;
	snprintf(definition->name, sizeof(definition->name), "%s", spec->name);
	uuid_of(lifecycle, spec, definition->uuid);
	definition->persistent = persistent;
	definition->id = -1;
	definition_drop_run(lifecycle, definition);
	definition_becomes(lifecycle, definition, LIFECYCLE_OFF, EVENT_DEFINED, REASON_NONE);
	*out = definition;
	return 0;
}

int lifecycle_define(struct monitor *monitor, struct manifest *manifest, bool persistent,
                     struct definition **definition, char why[static WHY_BYTES])
{
	int error;

	if (manifest->n_guests != 1) {
		snprintf(why, WHY_BYTES, "%s: %u guests where one was expected", manifest->path,
		         manifest->n_guests);
		return -EINVAL;
	}
	error = lifecycle_define_guest(monitor, manifest, 0, persistent, definition, why);
	if (error == 0)
		manifest_free(manifest); /* the definition holds it */
	return error;
}

static void tell(struct lifecycle *lifecycle, const struct definition *definition, enum lifecycle_event event,
                 enum lifecycle_reason reason)
{
	struct lifecycle_listener *next;

	if (event != EVENT_DEFINED)
		audit_notice(lifecycle->monitor->audit, "PORTCULLIS_GUEST", "guest=\"%s\" event=%s reason=%s",
		             definition->name, lifecycle_event_name(event), lifecycle_reason_name(reason));
	for (struct lifecycle_listener *listener = lifecycle->listeners; listener; listener = next) {
		next = listener->next;
		listener->heard(listener->opaque, definition, event, reason);
	}
}

static void remove_definition(struct lifecycle *lifecycle, struct definition *definition)
{
	struct definition **link = &lifecycle->first;

	while (*link && *link != definition)
		link = &(*link)->next;
	CHECK(*link);
	*link = definition->next;
	lifecycle->n_definitions--;
	start_orphan(lifecycle, definition);
	definition_drop_run(lifecycle, definition);
	tell(lifecycle, definition, EVENT_UNDEFINED, REASON_NONE);
	manifest_free(definition->manifest);
	free(definition);
}

int lifecycle_undefine(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES])
{
	if (definition_is_active(definition)) {
		snprintf(why, WHY_BYTES, "guest %s is %s; portcullis guest stop %s ends it", definition->name,
		         definition_state_name(definition), definition->name);
		return -EBUSY;
	}
	remove_definition(monitor->lifecycle, definition);
	return 0;
}

void definition_becomes(struct lifecycle *lifecycle, struct definition *definition,
                        enum lifecycle_state state, enum lifecycle_event event, enum lifecycle_reason reason)
{
	definition->state = state;
	definition->reason = reason;
	definition->since_ns = loop_now();
	if (state == LIFECYCLE_OFF)
		definition->id = -1;
	tell(lifecycle, definition, event, reason);
	if (state == LIFECYCLE_OFF && event != EVENT_DEFINED && !definition->persistent)
		remove_definition(lifecycle, definition);
}

/* ---- runs ---- */

static void bury(void *opaque)
{
	guest_bury(opaque);
}

static void buried(void *opaque)
{
	(void)opaque;
}

/* The registry forgets it at once; giving its memory back takes as long as there is much of it. */
static void drop(struct lifecycle *lifecycle, struct guest *guest)
{
	guest_leave(guest);
	if (workers_run(lifecycle->workers, bury, buried, guest) < 0)
		guest_bury(guest);
}

void definition_drop_run(struct lifecycle *lifecycle, struct definition *definition)
{
	struct guest *guest = definition->guest;
	struct registry *registry;

	definition->guest = NULL;
	if (!guest)
		return;
	registry = registry_lock(lifecycle->monitor);
	lifecycle->exit_status |= guest_exit_status(registry, guest);
	guest->leaving = true;
	registry_unlock(registry);
	/* A change that is under way may point to its domains. */
	if (!lifecycle->monitor->change)
		drop(lifecycle, guest);
}

static struct guest *find_leaving(struct monitor *monitor)
{
	struct registry *registry = registry_lock(monitor);
	struct guest *found = NULL;

	for (uint32_t g = 0; g < registry->n_guests && !found; g++)
		if (registry->guests[g]->leaving)
			found = registry->guests[g];
	registry_unlock(registry);
	return found;
}

void lifecycle_change_ended(struct monitor *monitor)
{
	struct lifecycle *lifecycle = monitor->lifecycle;
	struct guest *guest;

	if (!lifecycle || lifecycle->ending)
		return;
	CHECK(!monitor->change);
	while ((guest = find_leaving(monitor)))
		drop(lifecycle, guest);
	starts_pump(lifecycle);
}

int definition_launch(struct lifecycle *lifecycle, struct definition *definition, bool paused,
                      char why[static WHY_BYTES])
{
	struct guest *guest = definition->guest;
	int error = 0;

	/* Nothing runs yet: this waits for nobody. */
	if (paused)
		error = stop_machines(&guest->machine, 1, loop_now() + END_NS, NULL, NULL, why);
	if (error == 0)
		error = machine_start(guest->machine, why);
	if (error < 0)
		return error;
	definition->id = (int32_t)guest->number;
	definition_becomes(lifecycle, definition, LIFECYCLE_RUNNING, EVENT_STARTED, REASON_BOOTED);
	if (paused)
		definition_becomes(lifecycle, definition, LIFECYCLE_SUSPENDED, EVENT_SUSPENDED,
		                   REASON_OPERATOR);
	return 0;
}

/* Every domain ends, as `failed` says; the vCPUs have left, or the guest is killed. */
static void end_run(struct monitor *monitor, struct guest *guest, bool failed)
{
	char why[WHY_BYTES];
	int error = machine_shutdown(guest->machine, loop_now() + END_NS, why);
	struct registry *registry = registry_lock(monitor);

	if (error < 0) {
		guest_lose(registry, guest, why);
		guest_reap(registry, guest);
	}
	for (uint32_t d = 0; d < guest->n_domains; d++)
		domain_end(registry, &guest->domains[d], failed, 0);
	guest->ended = true;
	registry_kick(registry);
	registry_unlock(registry);
}

static void ended(struct lifecycle *lifecycle, struct definition *definition)
{
	struct guest *guest = definition->guest;

	if (machine_state(guest->machine) == MACHINE_CRASHED) {
		definition_becomes(lifecycle, definition, LIFECYCLE_CRASHED, EVENT_CRASHED, REASON_CRASHED);
	} else if (guest->lost) {
		definition_becomes(lifecycle, definition, LIFECYCLE_OFF, EVENT_KILLED, REASON_KILLED);
	} else {
		end_run(lifecycle->monitor, guest, false);
		definition_becomes(lifecycle, definition, LIFECYCLE_OFF, EVENT_SHUTDOWN, REASON_FINISHED);
	}
}

/* One that has come to its end and was not noticed yet; its channels end if it is lost. */
static struct guest *next_ended(struct monitor *monitor)
{
	struct registry *registry = registry_lock(monitor);
	struct guest *found = NULL;

	for (uint32_t g = 0; g < registry->n_guests; g++) {
		struct guest *guest = registry->guests[g];

		if (guest->ended || (guest->is_host && !guest->lost) || !guest_is_over(registry, guest))
			continue; /* the host has no end of its own */
		guest->ended = true;
		if (guest->lost)
			guest_reap(registry, guest);
		found = guest;
		break;
	}
	registry_unlock(registry);
	return found;
}

void lifecycle_settle(struct monitor *monitor, bool *over)
{
	struct lifecycle *lifecycle = monitor->lifecycle;
	struct guest *guest;

	while ((guest = next_ended(monitor))) {
		struct definition *definition = lifecycle_find_guest(monitor, guest);

		if (definition)
			ended(lifecycle, definition);
	}
	*over = lifecycle->first != NULL;
	for (struct definition *definition = lifecycle->first; definition; definition = definition->next)
		*over = *over && !definition_is_active(definition);
}

int lifecycle_exit_status(struct monitor *monitor)
{
	struct registry *registry = registry_lock(monitor);
	int status = monitor->lifecycle->exit_status;

	for (uint32_t g = 0; g < registry->n_guests; g++)
		status |= guest_exit_status(registry, registry->guests[g]);
	registry_unlock(registry);
	return status;
}

/* ---- on request ---- */

/* What has happened meanwhile is noticed first. -ESRCH: it does not run, -EBUSY: not yet. */
static int need_run(struct monitor *monitor, struct definition **definition, char why[static WHY_BYTES])
{
	char name[MAX_NAME_BYTES];
	bool over;

	snprintf(name, sizeof(name), "%s", (*definition)->name);
	lifecycle_settle(monitor, &over);
	*definition = lifecycle_find(monitor, name); /* one that is not persistent may have gone just now */
	if (*definition && (*definition)->state == LIFECYCLE_STARTING) {
		snprintf(why, WHY_BYTES, "guest %s is starting; try again in a moment", name);
		return -EBUSY;
	}
	if (*definition && definition_is_active(*definition))
		return 0;
	snprintf(why, WHY_BYTES, "guest %s does not run: it is %s", name,
	         *definition ? definition_state_name(*definition) : "gone");
	return -ESRCH;
}

static int fail_already(const struct definition *definition, char why[static WHY_BYTES])
{
	snprintf(why, WHY_BYTES, "guest %s is %s already", definition->name,
	         definition_state_name(definition));
	return -EALREADY;
}

int lifecycle_suspend(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES])
{
	int error = need_run(monitor, &definition, why);
	struct registry *registry;
	bool over;

	if (error < 0)
		return error;
	if (definition->state == LIFECYCLE_SUSPENDED)
		return fail_already(definition, why);
	error = stop_machines(&definition->guest->machine, 1, loop_now() + monitor->deadline_ns, NULL, NULL,
	                      why);
	if (error == 0) {
		definition_becomes(monitor->lifecycle, definition, LIFECYCLE_SUSPENDED, EVENT_SUSPENDED,
		                   REASON_OPERATOR);
		return 0;
	}
	registry = registry_lock(monitor);
	guest_lose(registry, definition->guest, why);
	registry_unlock(registry);
	lifecycle_settle(monitor, &over);
	return error;
}

int lifecycle_resume(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES])
{
	int error = need_run(monitor, &definition, why);

	if (error < 0)
		return error;
	if (definition->state != LIFECYCLE_SUSPENDED)
		return fail_already(definition, why);
	error = resume_machines(&definition->guest->machine, 1, loop_now() + monitor->deadline_ns, why);
	definition_becomes(monitor->lifecycle, definition, LIFECYCLE_RUNNING, EVENT_RESUMED, REASON_OPERATOR);
	return error;
}

static int end_on_request(struct monitor *monitor, struct definition *definition, bool failed,
                          char why[static WHY_BYTES])
{
	struct lifecycle *lifecycle = monitor->lifecycle;
	enum lifecycle_event event = failed ? EVENT_DESTROYED : EVENT_SHUTDOWN;
	int error = need_run(monitor, &definition, why);

	if (error == -EBUSY) {
		start_cancel(lifecycle, definition);
		return 0;
	}
	if (error < 0 && (!definition || definition->state != LIFECYCLE_CRASHED))
		return error;
	end_run(monitor, definition->guest, failed);
	definition_becomes(lifecycle, definition, LIFECYCLE_OFF, event, REASON_OPERATOR);
	return 0;
}

int lifecycle_shutdown(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES])
{
	return end_on_request(monitor, definition, false, why);
}

int lifecycle_destroy(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES])
{
	return end_on_request(monitor, definition, true, why);
}
