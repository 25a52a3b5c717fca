#include "monitor/libvirt/filter.h"

#include <libvirt/libvirt.h>

#include "monitor/libvirt/state.h"

/* The flag of each group that the guest fits; what Portcullis has not (saved images, autostart, snapshots) no
 * guest has. */
static uint32_t flags_of(const struct definition *definition)
{
	uint32_t flags = VIR_CONNECT_LIST_DOMAINS_NO_MANAGEDSAVE | VIR_CONNECT_LIST_DOMAINS_NO_AUTOSTART |
	                 VIR_CONNECT_LIST_DOMAINS_NO_SNAPSHOT | VIR_CONNECT_LIST_DOMAINS_NO_CHECKPOINT;

	flags |= state_is_active(definition) ? VIR_CONNECT_LIST_DOMAINS_ACTIVE
	                                     : VIR_CONNECT_LIST_DOMAINS_INACTIVE;
	flags |= definition->persistent ? VIR_CONNECT_LIST_DOMAINS_PERSISTENT
	                                : VIR_CONNECT_LIST_DOMAINS_TRANSIENT;
	switch (state_of(definition, NULL).state) {
	case VIR_DOMAIN_RUNNING:
		return flags | VIR_CONNECT_LIST_DOMAINS_RUNNING;
	case VIR_DOMAIN_PAUSED:
		return flags | VIR_CONNECT_LIST_DOMAINS_PAUSED;
	case VIR_DOMAIN_SHUTOFF:
		return flags | VIR_CONNECT_LIST_DOMAINS_SHUTOFF;
	default:
		return flags | VIR_CONNECT_LIST_DOMAINS_OTHER;
	}
}

bool filter_wants(const struct definition *definition, uint32_t flags)
{
	static const uint32_t groups[] = {
		VIR_CONNECT_LIST_DOMAINS_ACTIVE | VIR_CONNECT_LIST_DOMAINS_INACTIVE,
		VIR_CONNECT_LIST_DOMAINS_PERSISTENT | VIR_CONNECT_LIST_DOMAINS_TRANSIENT,
		VIR_CONNECT_LIST_DOMAINS_RUNNING | VIR_CONNECT_LIST_DOMAINS_PAUSED |
			VIR_CONNECT_LIST_DOMAINS_SHUTOFF | VIR_CONNECT_LIST_DOMAINS_OTHER,
		VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE | VIR_CONNECT_LIST_DOMAINS_NO_MANAGEDSAVE,
		VIR_CONNECT_LIST_DOMAINS_AUTOSTART | VIR_CONNECT_LIST_DOMAINS_NO_AUTOSTART,
		VIR_CONNECT_LIST_DOMAINS_HAS_SNAPSHOT | VIR_CONNECT_LIST_DOMAINS_NO_SNAPSHOT,
		VIR_CONNECT_LIST_DOMAINS_HAS_CHECKPOINT | VIR_CONNECT_LIST_DOMAINS_NO_CHECKPOINT,
	};
	uint32_t fits = flags_of(definition);

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		if (flags & groups[i] && !(flags & groups[i] & fits))
			return false;
	return true;
}
