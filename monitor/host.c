#include "monitor/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/guest.h"

/* The ports as domains of a manifest. */
static struct manifest_guest *draw(const struct manifest_port *const *ports, uint32_t n_ports)
{
	struct manifest_guest *manifest = calloc(1, sizeof(*manifest));

	if (manifest)
		manifest->domains = calloc(n_ports, sizeof(*manifest->domains));
	if (!manifest || !manifest->domains) {
		free(manifest);
		return NULL;
	}
	manifest->path = ports[0]->manifest;
	manifest->n_domains = n_ports;
	snprintf(manifest->name, sizeof(manifest->name), "%s", HOST_NAME);
	for (uint32_t p = 0; p < n_ports; p++) {
		struct manifest_domain *domain = &manifest->domains[p];

		*domain = (struct manifest_domain){
			.n_slots = ports[p]->connections, .data_fd = -1, .line = ports[p]->line};
		snprintf(domain->name, sizeof(domain->name), "%s", ports[p]->name);
		snprintf(domain->context, sizeof(domain->context), "%s", ports[p]->context);
		domain->n_services = !ports[p]->to[0];
		domain->services[0] = ports[p]->offers;
	}
	return manifest;
}

static uint64_t largest_bulk(struct monitor *monitor)
{
	struct registry *registry = registry_lock(monitor);
	uint64_t largest = DEFAULT_BULK_BYTES;

	for (uint32_t g = 0; g < registry->n_guests; g++) {
		uint64_t bytes = machine_bulk_bytes(registry->guests[g]->machine);

		largest = bytes > largest ? bytes : largest;
	}
	registry_unlock(registry);
	return largest;
}

int host_create(struct monitor *monitor, const struct manifest_port *const *ports, uint32_t n_ports,
                struct guest **host, char why[static WHY_BYTES])
{
	struct manifest_guest *manifest = draw(ports, n_ports);
	int error = -ENOMEM;

	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (!manifest)
		return error;
	manifest->bulk_bytes = largest_bulk(monitor);
	error = guest_create(monitor, manifest, host, why);
	free(manifest->domains);
	free(manifest);
	return error;
}
