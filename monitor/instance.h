/*
 * Instances: several domains may offer one service name, and the member
 * decision picks the one that a client gets (F6, polyinstantiation).
 *
 * With a member rule, the instance whose domain has the type and low level that it
 * names; without one, the only instance of its guest, or one with the service's own type
 * and low level; else it is no instance for this client. All instances of a name in one guest share
 * the service's context (guest_create sees to that); each guest has its own.
 *
 * Candidates in this order, and the first that fits is the one: the domains of the client's own guest as its
 * manifest lists them, then those of the other guests, which are taken by their names; a guest that has ended
 * comes after all that run. "guest/service" leaves that guest's alone. So which guests there are never makes
 * an instance of a domain that was none: a guest that starts or ends changes what new connects get, and cuts
 * nothing. Registry lock.
 */
#ifndef PORTCULLIS_MONITOR_INSTANCE_H
#define PORTCULLIS_MONITOR_INSTANCE_H

#include <stdbool.h>

#include "monitor/members.h"
#include "monitor/registry.h"

/* From "service" or "guest/service", whose form has been checked (vmm/hypercall.h). */
struct service_name service_name_read(const char *text);

/* Whether a domain with that context, offering the service, is the instance that the member decision means.
 */
bool instance_matches(const struct sid_table *sids, const struct service *service, policy_sid server,
                      const struct member *member);

/* Who asks for what, and what is known about it. */
struct instance_question {
	const struct guest *guest; /* the client's */
	const struct service_name *name;
	policy_sid client;
	const struct members *members;
	const struct sid_table *sids;
};

enum instance_choice {
	INSTANCE_FOUND,
	INSTANCE_NONE,
	INSTANCE_UNDECIDED, /* the member decision for (client, service->sid) has to be asked for */
};

enum instance_choice instance_choose(struct registry *registry, const struct instance_question *question,
                                     struct service **service);

/* The first candidate, whatever the member decisions are; NULL: nobody offers it. */
const struct service *instance_any(struct registry *registry, const struct guest *guest,
                                   const struct service_name *name);

#endif
