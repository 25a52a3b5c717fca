#include "monitor/instance.h"

#include <string.h>

#include "vmm/check.h"

bool instance_matches(const struct sid_table *sids, const struct service *service, policy_sid server,
                      const struct member *member)
{
	char own[MAX_CONTEXT_BYTES], wanted[MAX_CONTEXT_BYTES];

	/* An unknown context is denied by the decisions themselves, with a better reason. */
	if (!member->known || (!member->has_rule && service->n_instances == 1))
		return true;
	context_type_and_level(sid_context(sids, server), own);
	if (member->has_rule)
		return strcmp(own, member->type_and_level) == 0;
	context_type_and_level(sid_context(sids, service->sid), wanted);
	return strcmp(own, wanted) == 0;
}

struct service *instance_choose(struct registry *registry, const struct sid_table *sids,
                                const struct guest *guest, const char *name, const struct member *member)
{
	CHECK(registry->held);
	for (uint32_t d = 0; d < guest->n_domains; d++) {
		struct domain *domain = &guest->domains[d];

		for (uint32_t s = 0; s < domain->n_services; s++) {
			struct service *service = &domain->services[s];

			if (strcmp(service->name, name) == 0 &&
			    instance_matches(sids, service, domain->sid, member))
				return service;
		}
	}
	return NULL;
}
