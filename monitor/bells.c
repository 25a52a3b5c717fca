#include "monitor/bells.h"

#include <errno.h>
#include <stdlib.h>

#include "guest/abi/record.h"
#include "monitor/channel_memory.h"
#include "vmm/check.h"
#include "vmm/doorbell.h"

/* From one guest to another. */
struct bell {
	struct bell *next;      /* of the same guest that rings */
	struct bell *next_idle; /* of the registry's that wait for bells_settle */
	bool is_idle;
	struct guest *from, *to;
	uint32_t n_channels; /* between them: it stays as long */
	uint32_t n_ringers;  /* ends of `from` that may notify an end of `to` */
	uint32_t n_hearers;  /* of those, the ones whose peer is there to hear it */
	struct doorbell doorbell;
};

/* ---- one for each pair ---- */

static struct bell **find(struct guest *from, const struct guest *to)
{
	struct bell **link = &from->bells;

	while (*link && (*link)->to != to)
		link = &(*link)->next;
	return link;
}

static struct bell *take(struct guest *from, struct guest *to)
{
	struct bell **link = find(from, to), *bell = *link;

	if (!bell) {
		bell = calloc(1, sizeof(*bell));
		if (!bell)
			return NULL;
		*bell = (struct bell){.from = from, .to = to};
		doorbell_init(&bell->doorbell, from->machine, to->number, to->machine, from->index);
		*link = bell;
	}
	bell->n_channels++;
	return bell;
}

static struct registry *registry_of(const struct bell *bell)
{
	return bell->from->monitor->registry;
}

/* The loop unbinds what nobody has come to need again by then. */
static void make_idle(struct bell *bell)
{
	struct registry *registry = registry_of(bell);

	if (bell->is_idle)
		return;
	bell->is_idle = true;
	bell->next_idle = registry->idle_bells;
	registry->idle_bells = bell;
	registry_kick(registry);
}

static void leave_idle(struct bell *bell)
{
	struct bell **link = &registry_of(bell)->idle_bells;

	while (bell->is_idle && *link != bell)
		link = &(*link)->next_idle;
	if (bell->is_idle)
		*link = bell->next_idle;
	bell->is_idle = false;
}

/* Unbinds each half that no end needs; frees what no channel does. */
static void settle(struct bell *bell)
{
	leave_idle(bell);
	if (!bell->n_ringers)
		doorbell_unbind_ring(&bell->doorbell);
	if (!bell->n_hearers)
		doorbell_unbind_line(&bell->doorbell);
	if (bell->n_channels)
		return;
	CHECK(!bell->n_ringers && !bell->n_hearers);
	*find(bell->from, bell->to) = bell->next;
	free(bell);
}

static void give(struct bell *bell)
{
	if (!bell || --bell->n_channels > 0)
		return;
	if (bell->from->gone || bell->to->gone) /* which are freed with their last channel */
		settle(bell);
	else
		make_idle(bell);
}

int bells_join(struct channel *channel)
{
	struct endpoint *client = &channel->end[SIDE_CLIENT], *server = &channel->end[SIDE_SERVER];
	struct guest *from = client->domain->guest, *to = server->domain->guest;

	if (from == to)
		return 0;
	client->bell = take(from, to);
	server->bell = take(to, from);
	if (client->bell && server->bell)
		return 0;
	give(client->bell);
	give(server->bell);
	return -ENOMEM;
}

void bells_leave(struct channel *channel)
{
	for (unsigned side = 0; side < N_SIDES; side++) {
		bells_unbind(channel, (enum channel_side)side, false);
		give(channel->end[side].bell);
		channel->end[side].bell = NULL;
	}
}

/* ---- bound as long as a flow needs it ---- */

/* Whether flows need that the end can make its peer look, not only that its record says so. */
static bool needs_hearing(const struct channel *channel, enum channel_side side)
{
	const struct flow *out = &channel->flow[side], *in = &channel->flow[OTHER(side)];

	return channel->end[side].fate == END_HELD && channel->end[OTHER(side)].fate == END_HELD &&
	       (out->state == FLOW_OPEN || (in->state == FLOW_OPEN && in->flowctl));
}

static uint64_t *marks(const struct bell *bell)
{
	return &doorbell_page(bell->to->machine)->domains[bell->doorbell.line];
}

/* Marks the domain first: its kernel looks for marks when the interrupt has come. */
static void add_hearer(struct bell *bell, struct domain *hearer)
{
	bell->n_hearers++;
	if (hearer->heard_from[bell->doorbell.line]++ == 0)
		__atomic_fetch_or(marks(bell), 1ull << hearer->index, __ATOMIC_SEQ_CST);
}

static void remove_hearer(struct bell *bell, struct domain *hearer)
{
	CHECK(bell->n_hearers > 0 && hearer->heard_from[bell->doorbell.line] > 0);
	if (--bell->n_hearers == 0)
		make_idle(bell);
	if (--hearer->heard_from[bell->doorbell.line] == 0)
		__atomic_fetch_and(marks(bell), ~(1ull << hearer->index), __ATOMIC_SEQ_CST);
}

/*
 * From its far end to the near one. What fails is tried again with the next channel; until then a ring must
 * be an exit, since one that is bound and not heard would be lost.
 */
static void bind(struct bell *bell)
{
	if (bell->n_hearers > 0 && doorbell_bind_line(&bell->doorbell) < 0)
		doorbell_unbind_ring(&bell->doorbell);
	else
		(void)doorbell_bind_ring(&bell->doorbell);
}

void bells_bind(struct channel *channel, enum channel_side side)
{
	struct endpoint *end = &channel->end[side];

	if (!end->bell)
		return;
	if (!end->rings) {
		end->rings = true;
		end->bell->n_ringers++;
	}
	if (!end->heard && needs_hearing(channel, side)) {
		end->heard = true;
		add_hearer(end->bell, channel->end[OTHER(side)].domain);
	}
	bind(end->bell);
}

void bells_unbind(struct channel *channel, enum channel_side side, bool may_notify)
{
	struct endpoint *end = &channel->end[side];

	if (end->rings && !may_notify) {
		end->rings = false;
		if (--end->bell->n_ringers == 0)
			make_idle(end->bell);
	}
	if (end->heard && !(may_notify && needs_hearing(channel, side))) {
		end->heard = false;
		remove_hearer(end->bell, channel->end[OTHER(side)].domain);
	}
}

void bells_settle(struct monitor *monitor)
{
	struct registry *registry;
	bool more = true;

	while (more) {
		registry = registry_lock(monitor);
		if (registry->idle_bells)
			settle(registry->idle_bells);
		more = registry->idle_bells != NULL;
		registry_unlock(registry);
	}
}

void bells_forget(struct registry *registry, struct guest *guest)
{
	CHECK(registry->held);
	for (uint32_t g = 0; g < registry->n_guests; g++)
		for (struct bell *bell = registry->guests[g]->bells, *next; bell; bell = next) {
			next = bell->next;
			if (bell->from == guest || bell->to == guest)
				settle(bell);
		}
}

/* ---- where the host could not bind it ---- */

static void wake_hearers(struct registry *registry, const struct bell *bell)
{
	for (uint32_t d = 0; d < bell->to->n_domains; d++)
		if (bell->to->domains[d].heard_from[bell->doorbell.line])
			domain_wake(registry, &bell->to->domains[d]);
}

bool bells_rang(void *owner, uint32_t number)
{
	struct guest *guest = owner;
	struct registry *registry = registry_lock(guest->monitor);
	const struct bell *bell = guest->bells;

	while (bell && bell->to->number != number)
		bell = bell->next;
	if (bell && bell->n_hearers)
		wake_hearers(registry, bell);
	bool needed = bell && bell->n_ringers;
	registry_unlock(registry);
	return needed;
}
