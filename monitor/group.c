#include "monitor/group.h"

#include <stdlib.h>

#include "vmm/check.h"

static struct group *add(struct registry *registry, struct domain *client, struct service *service)
{
	struct group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->client = client;
	group->service = service;
	group->next = registry->groups;
	if (group->next)
		group->next->previous = group;
	registry->groups = group;
	group->client_next = client->groups;
	client->groups = group;
	return group;
}

/* A client has at most as many as there are services, and whoever connects has looked through those by name.
 */
struct group *group_join(struct registry *registry, struct domain *client, struct service *service)
{
	struct group *group = client->groups;

	CHECK(registry->held);
	while (group && group->service != service)
		group = group->client_next;
	if (!group)
		group = add(registry, client, service);
	if (group)
		group->n_channels++;
	return group;
}

void group_leave(struct registry *registry, struct group *group)
{
	struct group **link = &group->client->groups;

	CHECK(registry->held);
	if (--group->n_channels > 0)
		return;
	while (*link != group)
		link = &(*link)->client_next;
	*link = group->client_next;
	if (group->previous)
		group->previous->next = group->next;
	else
		registry->groups = group->next;
	if (group->next)
		group->next->previous = group->previous;
	free(group);
}
