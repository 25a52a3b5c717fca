#include "monitor/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "monitor/bells.h"
#include "monitor/channel.h"
#include "monitor/group.h"
#include "vmm/check.h"
#include "vmm/window.h"

struct registry *registry_create(void)
{
	struct registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return NULL;
	registry->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (registry->kick_fd < 0) {
		free(registry);
		return NULL;
	}
	pthread_mutex_init(&registry->lock, NULL);
	return registry;
}

static void free_channels(struct channel *channel)
{
	while (channel) {
		struct channel *next = channel->next;

		channel_free(channel);
		channel = next;
	}
}

static void free_groups(struct group *group)
{
	while (group) {
		struct group *next = group->next;

		free(group);
		group = next;
	}
}

void registry_destroy(struct registry *registry)
{
	if (!registry)
		return;
	free_channels(registry->first);
	free_channels(registry->graveyard);
	free_groups(registry->groups);
	close(registry->kick_fd);
	pthread_mutex_destroy(&registry->lock);
	free(registry);
}

struct registry *registry_lock(struct monitor *monitor)
{
	struct registry *registry = monitor->registry;

	pthread_mutex_lock(&registry->lock);
	registry->owner = pthread_self();
	registry->held = true;
	return registry;
}

void registry_unlock(struct registry *registry)
{
	CHECK(registry->held && pthread_equal(registry->owner, pthread_self()));
	registry->held = false;
	pthread_mutex_unlock(&registry->lock);
}

void registry_kick(struct registry *registry)
{
	uint64_t one = 1;
	ssize_t n = write(registry->kick_fd, &one, sizeof(one));

	/* EAGAIN: the counter is full, so the loop is awake already. */
	CHECK(n == sizeof(one) || errno == EAGAIN);
}

int registry_add(struct registry *registry, struct guest *guest)
{
	CHECK(registry->held);
	if (registry->n_guests == MAX_GUESTS)
		return -ENOSPC;
	guest->index = (uint32_t)__builtin_ctzll(~registry->indices);
	guest->number = ++registry->last_guest;
	guest->n_refs = 1;
	registry->indices |= 1ull << guest->index;
	registry->guests[registry->n_guests++] = guest;
	for (uint32_t d = 0; d < guest->n_domains; d++)
		for (uint32_t i = 0; i < guest->domains[d].n_slots; i++)
			guest->domains[d].slots[i].generation = registry->last_generation;
	return 0;
}

/* Whatever guest comes next, under whatever name: no generation that one of its slots gets was ever seen. */
static void retire_generations(struct registry *registry, const struct guest *guest)
{
	for (uint32_t d = 0; d < guest->n_domains; d++)
		for (uint32_t i = 0; i < guest->domains[d].n_slots; i++)
			if (guest->domains[d].slots[i].generation > registry->last_generation)
				registry->last_generation = guest->domains[d].slots[i].generation;
}

void registry_remove(struct registry *registry, struct guest *guest)
{
	uint32_t g = 0;

	CHECK(registry->held);
	bells_forget(registry, guest);
	while (g < registry->n_guests && registry->guests[g] != guest)
		g++;
	CHECK(g < registry->n_guests);
	registry->n_guests--;
	for (; g < registry->n_guests; g++)
		registry->guests[g] = registry->guests[g + 1];
	registry->indices &= ~(1ull << guest->index);
	retire_generations(registry, guest);
	guest->gone = guest->lost = true;
}

void registry_close_gate(struct registry *registry)
{
	CHECK(registry->held && !registry->gate_closed);
	registry->gate_closed = true;
}

void registry_open_gate(struct registry *registry)
{
	CHECK(registry->held && registry->gate_closed);
	registry->gate_closed = false;
}

void registry_pin(struct registry *registry)
{
	CHECK(registry->held && !registry->pinned);
	registry->pinned = true;
}

void registry_unpin(struct registry *registry)
{
	CHECK(registry->held && registry->pinned);
	registry->pinned = false;
	for (struct channel *channel = registry->n_derived ? registry->first : NULL; channel;
	     channel = channel->next)
		channel->left_by = NULL;
	free_channels(registry->graveyard);
	registry->graveyard = NULL;
}

void domain_wake(struct registry *registry, struct domain *domain)
{
	struct domain_page *page = machine_domain_page(domain->guest->machine, domain->index);

	CHECK(registry->held);
	__atomic_fetch_add(&page->host_events, 1, __ATOMIC_SEQ_CST);
	machine_wake(domain->guest->machine, domain->vcpu);
}

int domain_take_slot(struct domain *domain, struct channel *channel, uint8_t side,
                     const struct placement_key *key)
{
	uint32_t i = placement_choose(domain, key);

	if (i == domain->n_slots)
		return -1;
	placement_taken(domain, i, key);
	domain->slots[i].channel = channel;
	domain->slots[i].side = side;
	domain->slots[i].generation++;
	while (domain->lowest_free < domain->n_slots &&
	       (domain->slots[domain->lowest_free].channel || domain->slots[domain->lowest_free].unusable))
		domain->lowest_free++;
	domain->n_used++;
	return (int)(domain->first_slot + i);
}

void domain_give_slot(struct domain *domain, uint32_t slot)
{
	uint32_t i = slot - domain->first_slot;

	CHECK(i < domain->n_slots && domain->slots[i].channel);
	if (domain->guest->gone) /* and its memory goes with its last channel */
		return;
	domain->slots[i].channel = NULL;
	/* A slot whose old bytes cannot be taken away is never used again (I8). */
	domain->slots[i].unusable = window_outbox_reset(domain->guest->machine, slot) < 0;
	if (domain->slots[i].unusable)
		return;
	placement_given(domain, i);
	domain->n_used--;
	if (i < domain->lowest_free)
		domain->lowest_free = i;
}

const char *domain_path(const struct domain *domain, char text[static PATH_NAME_BYTES])
{
	snprintf(text, PATH_NAME_BYTES, "%s/%s", domain->guest->name, domain->name);
	return text;
}
