/*
 * Groups: the channels that one domain has opened for itself at one service.
 *
 * Whatever changes, decisions say the same of all of them, since they ask about
 * the same three contexts: the client's, the service's, its domain's. So a change
 * asks about and judges groups, of which there are few, and then only looks at
 * the channels (proposal.h). A channel that was opened on behalf of another
 * is in no group: it follows its parent. Registry lock.
 */
#ifndef PORTCULLIS_MONITOR_GROUP_H
#define PORTCULLIS_MONITOR_GROUP_H

#include <stdint.h>

#include "monitor/judgement.h"
#include "monitor/registry.h"

struct group {
	struct domain *client;
	struct service *service;
	uint32_t n_channels;
	struct group *previous, *next; /* registry's list */
	struct group *client_next;     /* its client's list */

	/* Scratch: what the judging with that number has found; 0: nothing. */
	uint64_t judging;
	struct judgement judgement;
};

/* The group, for one channel more; it is made for the first. NULL: no memory. */
struct group *group_join(struct registry *registry, struct domain *client, struct service *service);

/* One channel less; with the last it goes. */
void group_leave(struct registry *registry, struct group *group);

#endif
