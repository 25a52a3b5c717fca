/*
 * Building guests: from a manifest to a machine that is stopped before its first instruction.
 */
#include "monitor/guest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/audit.h"
#include "monitor/bells.h"
#include "monitor/confine.h"
#include "monitor/mediation.h"
#include "monitor/posture.h"
#include "vmm/check.h"
#include "vmm/window.h"

/* What the two halves of making a machine share. */
struct blueprint {
	struct machine_spec spec;
	struct domain_spec domains[MAX_DOMAINS];
};

/* ---- handlers: vCPU threads ---- */

static void on_log(void *owner, uint32_t domain, const char *text, uint64_t n_lost)
{
	struct guest *guest = owner;

	audit_log(guest->monitor->audit, guest->name,
	          domain < guest->n_domains ? guest->domains[domain].name : NULL, text, n_lost);
}

static void on_crash(void *owner, const struct machine_crash *crash)
{
	struct guest *guest = owner;
	struct registry *registry = registry_lock(guest->monitor);
	struct domain *domain = crash->domain < guest->n_domains ? &guest->domains[crash->domain] : NULL;

	if (domain) {
		domain_end(registry, domain, true, 0);
	} else {
		/* Its other vCPUs may still be on their way out: nothing may be left for them to read. */
		machine_kill(guest->machine);
		guest->lost = true;
		snprintf(guest->crash, sizeof(guest->crash), "%s", crash->text);
		guest_reap(registry, guest);
	}
	registry_unlock(registry);
	audit_notice(guest->monitor->audit, "PORTCULLIS_CRASH", "guest=\"%s\"%s%s%s %s", guest->name,
	             domain ? " domain=\"" : "", domain ? domain->name : "", domain ? "\"" : "", crash->text);
	audit_log(guest->monitor->audit, guest->name, domain ? domain->name : NULL, crash->text, 0);
	registry_kick(registry);
}

static void on_began(void *owner)
{
	(void)owner;
	confine_thread();
}

static const struct machine_handlers handlers = {
	.request = mediation_request,
	.log = on_log,
	.crashed = on_crash,
	.began = on_began,
	.rang = bells_rang,
};

/* ---- building ---- */

static int intern(struct posture *posture, const struct manifest_guest *manifest,
                  const struct manifest_domain *from, const char *context, policy_sid *sid,
                  char why[static WHY_BYTES])
{
	int error = sid_intern(posture->sids, context, sid);

	if (error == -EINVAL)
		snprintf(why, WHY_BYTES,
		         "%s:%u: \"%s\" is no security context: expected user:role:type:level",
		         manifest->path, from->line, context);
	else if (error < 0)
		snprintf(why, WHY_BYTES, "%s:%u: %s", manifest->path, from->line, strerror(-error));
	return error;
}

static int domain_init(struct guest *guest, uint32_t index, const struct manifest_guest *manifest,
                       char why[static WHY_BYTES])
{
	const struct manifest_domain *from = &manifest->domains[index];
	struct posture *posture = guest->monitor->posture;
	struct domain *domain = &guest->domains[index];
	int error;

	domain->guest = guest;
	domain->index = index;
	domain->vcpu = from->vcpu;
	domain->n_services = from->n_services;
	snprintf(domain->name, sizeof(domain->name), "%s", from->name);
	error = intern(posture, manifest, from, from->context, &domain->sid, why);
	for (uint32_t s = 0; s < from->n_services && error == 0; s++) {
		const struct manifest_service *service = &from->services[s];

		snprintf(domain->services[s].name, sizeof(domain->services[s].name), "%s", service->name);
		domain->services[s].domain = domain;
		domain->services[s].per_client = service->per_client;
		domain->services[s].follows_domain = !service->context[0];
		error = intern(posture, manifest, from,
		               service->context[0] ? service->context : from->context,
		               &domain->services[s].sid, why);
	}
	return error;
}

/* Counts the instances of each name. One name has one context: that of several instances stays when one of
 * their domains is relabelled. */
static int services_init(struct guest *guest, const struct manifest_guest *manifest,
                         char why[static WHY_BYTES])
{
	for (uint32_t d = 0; d < guest->n_domains; d++)
		for (uint32_t s = 0; s < guest->domains[d].n_services; s++) {
			struct service *service = &guest->domains[d].services[s];

			service->n_instances = 0;
			for (uint32_t i = 0; i < guest->n_domains; i++)
				for (uint32_t j = 0; j < guest->domains[i].n_services; j++) {
					const struct service *other = &guest->domains[i].services[j];

					if (strcmp(other->name, service->name) != 0)
						continue;
					service->n_instances++;
					service->follows_domain &= service->n_instances == 1;
					if (other->sid == service->sid)
						continue;
					snprintf(why, WHY_BYTES,
					         "%s:%u: service \"%s\" is offered with different contexts; "
					         "its instances must "
					         "name one: offers = ({ name = \"%s\"; context = ... })",
					         manifest->path, manifest->domains[d].line, service->name,
					         service->name);
					return -EINVAL;
				}
		}
	return 0;
}

static bool is_known(const struct guest *guest, const struct manifest_guest *manifest, uint32_t index,
                     policy_sid sid, char why[static WHY_BYTES])
{
	const struct sid_table *sids = guest->monitor->posture->sids;

	if (sid_known(sids, sid))
		return true;
	snprintf(why, WHY_BYTES, "%s:%u: the policy does not know the context \"%s\" of domain \"%s\"",
	         manifest->path, manifest->domains[index].line, sid_context(sids, sid),
	         guest->domains[index].name);
	return false;
}

int guest_check_contexts(struct registry *registry, const struct guest *guest,
                         const struct manifest_guest *manifest, char why[static WHY_BYTES])
{
	CHECK(registry->held);
	for (uint32_t d = 0; d < guest->n_domains; d++) {
		const struct domain *domain = &guest->domains[d];

		if (!is_known(guest, manifest, d, domain->sid, why))
			return -EINVAL;
		for (uint32_t s = 0; s < domain->n_services; s++)
			if (!is_known(guest, manifest, d, domain->services[s].sid, why))
				return -EINVAL;
	}
	return 0;
}

int guest_outline(struct monitor *monitor, const struct manifest_guest *manifest, struct guest **out,
                  char why[static WHY_BYTES])
{
	struct guest *guest = calloc(1, sizeof(*guest));
	struct registry *registry;
	int error = 0;

	*out = NULL;
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (!guest)
		return -ENOMEM;
	guest->monitor = monitor;
	guest->n_vcpus = manifest->n_vcpus;
	guest->is_host = manifest->n_vcpus == 0;
	guest->n_domains = manifest->n_domains;
	snprintf(guest->name, sizeof(guest->name), "%s", manifest->name);
	guest->domains = calloc(MAX_DOMAINS, sizeof(*guest->domains));
	if (!guest->domains) {
		guest_discard(guest);
		return -ENOMEM;
	}
	registry = registry_lock(monitor);
	for (uint32_t d = 0; d < manifest->n_domains && error == 0; d++)
		error = domain_init(guest, d, manifest, why);
	if (error == 0)
		error = services_init(guest, manifest, why);
	registry_unlock(registry);
	if (error < 0)
		guest_discard(guest);
	else
		*out = guest;
	return error;
}

static void draw(struct blueprint *blueprint, const struct manifest_guest *manifest)
{
	for (uint32_t d = 0; d < manifest->n_domains; d++) {
		const struct manifest_domain *from = &manifest->domains[d];

		blueprint->domains[d] = (struct domain_spec){
			.name = from->name,
			.image_name = from->program,
			.image = from->image,
			.image_bytes = from->image_bytes,
			/* The domain library has the name from the boot record: it is its argument 0. */
			.arguments = from->n_arguments ? (const char *const *)from->arguments + 1 : NULL,
			.n_arguments = from->n_arguments ? from->n_arguments - 1 : 0,
			.vcpu = from->vcpu,
			.n_slots = from->n_slots,
			.heap_bytes = from->heap_bytes,
			.stack_bytes = from->stack_bytes,
			.data_fd = from->data_fd,
			.data_bytes = from->data_bytes,
		};
	}
	blueprint->spec = (struct machine_spec){
		.name = manifest->name,
		.n_vcpus = manifest->n_vcpus,
		.n_domains = manifest->n_domains,
		.domains = blueprint->domains,
		.bulk_bytes = manifest->bulk_bytes,
	};
}

int guest_begin(struct guest *guest, const struct manifest_guest *manifest, char why[static WHY_BYTES])
{
	guest->blueprint = calloc(1, sizeof(*guest->blueprint));
	if (!guest->blueprint) {
		snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	draw(guest->blueprint, manifest);
	if (guest->is_host)
		return machine_create_windows(&guest->blueprint->spec, &guest->machine, why);
	guest->blueprint->spec.kvm_fd = guest->monitor->kvm_fd;
	return machine_begin(&guest->blueprint->spec, &handlers, guest, &guest->machine, why);
}

#define MAPPINGS_RESERVE 4096u /* libraries, stacks, heaps, and what a change needs for a moment */

uint64_t guest_mappings_allowed(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned long long n = 0;

	if (file && fscanf(file, "%llu", &n) != 1)
		n = 0;
	if (file)
		fclose(file);
	return n;
}

/*
 * Of a channel's two ends at most one shows a header alone: it writes a flow that its peer sees whole
 * (channel_part). So two slots are three mappings at worst and not four. That is so of all guests together,
 * since an end and its peer can be in two of them. Not if their slots differ in size: then what is seen whole
 * can have a tombstone behind it.
 */
static uint64_t worst_mappings(const struct guest *guest, bool alike)
{
	return window_worst_mappings(guest->machine) - (alike ? machine_total_slots(guest->machine) / 2 : 0);
}

/* Registry lock. */
static uint64_t worst_of_all(const struct registry *registry, const struct guest *guest)
{
	uint64_t needed = MAPPINGS_RESERVE;
	bool alike = true;

	for (uint32_t g = 0; g < registry->n_guests; g++)
		alike &= machine_bulk_bytes(registry->guests[g]->machine) ==
		         machine_bulk_bytes(guest->machine);
	for (uint32_t g = 0; g < registry->n_guests; g++)
		needed += worst_mappings(registry->guests[g], alike);
	return needed + worst_mappings(guest, alike);
}

/*
 * At vm.max_map_count the host refuses a mapping and a window keeps showing what it showed. So the
 * worst layout of all windows must fit beforehand (design: 7).
 */
static int mappings_check(struct monitor *monitor, const struct guest *guest, char why[static WHY_BYTES])
{
	uint64_t allowed = monitor->mappings_allowed;
	struct registry *registry = registry_lock(monitor);
	uint64_t needed = worst_of_all(registry, guest);

	registry_unlock(registry);
	if (!allowed || needed <= allowed)
		return 0;
	snprintf(why, WHY_BYTES,
	         "the slots of guest %s could need %llu mappings of memory and the host allows %llu: fewer "
	         "slots, or "
	         "sysctl vm.max_map_count=%llu",
	         guest->name, (unsigned long long)needed, (unsigned long long)allowed,
	         (unsigned long long)needed);
	return -ENOSPC;
}

/* The layout rounds slots up to whole 2 MiB; of a port the manifest's number is the one that counts. */
static int slots_init(struct guest *guest)
{
	for (uint32_t d = 0; d < guest->n_domains; d++) {
		struct domain *domain = &guest->domains[d];

		domain->first_slot = machine_first_slot(guest->machine, d);
		domain->n_slots = guest->is_host ? guest->blueprint->domains[d].n_slots
		                                 : machine_n_slots(guest->machine, d);
		domain->slots = calloc(domain->n_slots, sizeof(*domain->slots));
		if (!domain->slots || placement_create(domain) < 0)
			return -ENOMEM;
	}
	guest->shown = calloc(machine_total_slots(guest->machine), sizeof(*guest->shown));
	return guest->shown ? 0 : -ENOMEM;
}

int guest_build(struct guest *guest, char why[static WHY_BYTES])
{
	int error = guest->is_host ? 0 : machine_build(guest->machine, &guest->blueprint->spec, why);

	if (error == 0 && slots_init(guest) < 0) {
		snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
		error = -ENOMEM;
	}
	free(guest->blueprint);
	guest->blueprint = NULL;
	return error;
}

/* Guests share the cores in turn. Registry lock; the guest is not in the registry yet. */
static void place(struct registry *registry, struct guest *guest)
{
	uint32_t n = 0;

	for (uint32_t g = 0; g < registry->n_guests; g++)
		if (!registry->guests[g]->ended)
			n += registry->guests[g]->n_vcpus;
	machine_place(guest->machine, n);
}

int guest_enter(struct guest *guest, char why[static WHY_BYTES])
{
	struct registry *registry;
	int error = mappings_check(guest->monitor, guest, why);

	if (error < 0)
		return error;
	registry = registry_lock(guest->monitor);
	place(registry, guest);
	error = registry_add(registry, guest);
	for (uint32_t d = 0; d < guest->n_domains && error == 0; d++)
		__atomic_store_n(&machine_domain_page(guest->machine, d)->policy_number,
		                 guest->monitor->posture->policy_number, __ATOMIC_RELEASE);
	registry_unlock(registry);
	if (error < 0)
		snprintf(why, WHY_BYTES, "guest %s: there are %u guests already", guest->name, MAX_GUESTS);
	return error;
}

int guest_create(struct monitor *monitor, const struct manifest_guest *manifest, struct guest **out,
                 char why[static WHY_BYTES])
{
	struct registry *registry;
	struct guest *guest;
	int error = guest_outline(monitor, manifest, &guest, why);

	if (error < 0)
		return error;
	registry = registry_lock(monitor);
	error = guest_check_contexts(registry, guest, manifest, why);
	registry_unlock(registry);
	if (error == 0)
		error = guest_begin(guest, manifest, why);
	if (error == 0)
		error = guest_build(guest, why);
	if (error == 0)
		error = guest_enter(guest, why);
	if (error < 0)
		guest_discard(guest);
	else
		*out = guest;
	return error;
}

void guest_discard(struct guest *guest)
{
	machine_destroy(guest->machine);
	for (uint32_t d = 0; guest->domains && d < guest->n_domains; d++) {
		placement_destroy(&guest->domains[d]);
		free(guest->domains[d].slots);
	}
	free(guest->blueprint);
	free(guest->shown);
	free(guest->domains);
	free(guest);
}

void guest_release(struct guest *guest)
{
	if (--guest->n_refs == 0)
		guest_discard(guest);
}

void guest_leave(struct guest *guest)
{
	struct registry *registry = registry_lock(guest->monitor);

	for (uint32_t d = 0; d < guest->n_domains; d++)
		domain_end(registry, &guest->domains[d], false, 0);
	registry_remove(registry, guest);
	registry_unlock(registry);
}

void guest_bury(struct guest *guest)
{
	struct monitor *monitor = guest->monitor;
	struct registry *registry;

	if (machine_retire(guest->machine) < 0)
		return; /* a thread is still in there: what it uses stays */
	registry = registry_lock(monitor);
	guest_release(guest);
	registry_unlock(registry);
}

void guest_destroy(struct guest *guest)
{
	guest_leave(guest);
	guest_bury(guest);
}
