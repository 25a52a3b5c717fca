/*
 * Instances: several domains may offer one service name, and the member
 * decision picks the one that a client gets (F6, polyinstantiation).
 *
 * With a member rule, the instance whose domain has the type and low level that it
 * names; without one, the only instance, or the one with the service's own type
 * and low level; else there is no instance for this client. All instances of a
 * name share the service's context (guest_create sees to that). Registry lock.
 */
#ifndef PORTCULLIS_MONITOR_INSTANCE_H
#define PORTCULLIS_MONITOR_INSTANCE_H

#include <stdbool.h>

#include "monitor/members.h"
#include "monitor/registry.h"

/* Whether a domain with that context, offering the service, is the instance that the member decision means.
 */
bool instance_matches(const struct sid_table *sids, const struct service *service, policy_sid server,
                      const struct member *member);

/* The instance that a client with this decision gets of the services of that name; NULL: none. */
struct service *instance_choose(struct registry *registry, const struct sid_table *sids,
                                const struct guest *guest, const char *name, const struct member *member);

#endif
