/*
 * The guests that the monitor begins with: made while the security server compiles the policy.
 *
 *	loop thread			threads that build		security server
 *	VMs, one after the other					starts
 *	policies to the server		memory, images, vCPUs
 *	waits for the server						compiles, loads
 *	waits for the builders
 *	contexts known? enter
 *
 * Nothing of a guest runs before its contexts are known: what is built here stays before its first
 * instruction, and is thrown away if the policy is refused. Errors are told in the order that there would be
 * without threads: the policy's, then guest by guest, its contexts before its machine.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/guest.h"
#include "monitor/lifecycle_internal.h"
#include "monitor/workers.h"

struct boot {
	struct boot *next;
	struct lifecycle *lifecycle;
	struct definition *definition;
	const struct manifest_guest *spec;
	struct guest *guest; /* NULL: none was made, or the registry has it */

	/* Of the thread that builds, until it has ended. */
	int error;
	char why[WHY_BYTES];
};

static void run_build(void *opaque)
{
	struct boot *boot = opaque;

	boot->error = guest_build(boot->guest, boot->why);
}

static void built(void *opaque)
{
	(void)opaque;
}

/* What must be done here; the rest another thread does. */
static int begin(struct boot *boot, struct manifest *manifest, uint32_t guest)
{
	struct lifecycle *lifecycle = boot->lifecycle;
	struct monitor *monitor = lifecycle->monitor;
	int error = lifecycle_define_guest(monitor, manifest, guest, true, &boot->definition, boot->why);

	if (error == 0)
		error = guest_outline(monitor, boot->spec, &boot->guest, boot->why);
	if (error == 0)
		error = guest_begin(boot->guest, boot->spec, boot->why);
	if (error < 0)
		return error;
	error = workers_run(lifecycle->workers, run_build, built, boot);
	if (error < 0)
		snprintf(boot->why, sizeof(boot->why), "guest %s: no thread to build it: %s",
		         boot->spec->name, strerror(-error));
	return error;
}

/* At the end of the list; NULL: no memory. */
static struct boot *add(struct lifecycle *lifecycle)
{
	struct boot *boot = calloc(1, sizeof(*boot));
	struct boot **link = &lifecycle->boots;

	while (*link)
		link = &(*link)->next;
	*link = boot;
	return boot;
}

static bool boot_guest(struct lifecycle *lifecycle, struct manifest *manifest, uint32_t guest)
{
	struct boot *boot = add(lifecycle);
	int error;

	if (!boot) {
		lifecycle->boots_incomplete = true;
		return false;
	}
	boot->lifecycle = lifecycle;
	boot->spec = &manifest->guests[guest];
	error = begin(boot, manifest, guest);
	if (error < 0)
		boot->error = error; /* and nobody builds it */
	return error == 0;
}

void lifecycle_boot(struct monitor *monitor, struct manifest *const *manifests, size_t n_manifests)
{
	bool going = true;

	for (size_t m = 0; m < n_manifests && going; m++)
		for (uint32_t g = 0; g < manifests[m]->n_guests && going; g++)
			going = boot_guest(monitor->lifecycle, manifests[m], g);
}

/* Its contexts first: that they are unknown is what its owner has to know. */
static int finish(struct boot *boot, char why[static WHY_BYTES])
{
	struct registry *registry = registry_lock(boot->lifecycle->monitor);
	int error = boot->guest ? guest_check_contexts(registry, boot->guest, boot->spec, why) : 0;

	registry_unlock(registry);
	if (error == 0 && boot->error < 0) {
		error = boot->error;
		snprintf(why, WHY_BYTES, "%s", boot->why);
	}
	if (error == 0)
		error = guest_enter(boot->guest, why);
	if (error < 0)
		return error;
	boot->definition->guest = boot->guest;
	boot->definition->state = LIFECYCLE_STARTING;
	boot->guest = NULL;
	return 0;
}

int lifecycle_booted(struct monitor *monitor, char why[static WHY_BYTES])
{
	struct lifecycle *lifecycle = monitor->lifecycle;
	int error = 0;

	workers_wait(lifecycle->workers);
	for (struct boot *boot = lifecycle->boots; boot && error == 0; boot = boot->next)
		error = finish(boot, why);
	if (error == 0 && lifecycle->boots_incomplete) {
		error = -ENOMEM;
		snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	}
	boots_free(lifecycle);
	return error;
}

void boots_free(struct lifecycle *lifecycle)
{
	struct boot *boot;

	while ((boot = lifecycle->boots)) {
		lifecycle->boots = boot->next;
		if (boot->guest)
			guest_discard(boot->guest);
		free(boot);
	}
}
