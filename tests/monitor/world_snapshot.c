/* The host's state as text: what a denial or a failed change must leave alone (I3, I7). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "tests/monitor/world.h"
#include "vmm/window.h"

static void put_posture(FILE *out, struct world *world)
{
	const struct posture *posture = world->monitor->posture;

	fprintf(out, "policy %" PRIu64 " avc %" PRIu64 " enforcing %d image %016" PRIx64 "%016" PRIx64 "\n",
	        posture->policy_number, avc_policy_number(posture->avc), posture->enforcing,
	        posture->policy.fingerprint_high, posture->policy.fingerprint_low);
	fprintf(out, "operator %u\n", posture->operator_sid);
	for (policy_sid sid = 1; sid <= sid_count(posture->sids); sid++)
		fprintf(out, "sid %u %s known %d\n", sid, sid_context(posture->sids, sid),
		        sid_known(posture->sids, sid));
}

static void put_channel(FILE *out, const struct channel *channel)
{
	fprintf(out, "channel %" PRIu64 " service %s client %u opened %" PRIu64 " accepted %d dead %d\n",
	        channel->number, channel->service->name, channel->client_sid, channel->opened_at_policy,
	        channel->accepted, channel->dead);
	for (unsigned side = 0; side < N_SIDES; side++) {
		const struct endpoint *end = &channel->end[side];

		fprintf(out,
		        "  %s slot %u generation %" PRIu64
		        " fate %d owns %d part %d; flow out: state %d flowctl %d\n",
		        end->domain->name, end->slot, end->generation, end->fate, end->owns_slot, end->part,
		        channel->flow[side].state, channel->flow[side].flowctl);
	}
}

static void put_domain(FILE *out, const struct domain *domain)
{
	fprintf(out, "domain %s sid %u life %d status %d used %u lowest free %u pending %d\n", domain->name,
	        domain->sid, domain->life, domain->exit_status, domain->n_used, domain->lowest_free,
	        domain->pending.active);
	for (uint32_t s = 0; s < domain->n_slots; s++)
		fprintf(out, "  slot %u channel %" PRIu64 " side %u generation %" PRIu64 "\n", s,
		        domain->slots[s].channel ? domain->slots[s].channel->number : 0,
		        domain->slots[s].side, domain->slots[s].generation);
	for (uint32_t s = 0; s < domain->n_services; s++)
		fprintf(out, "  service %s sid %u backlog %u\n", domain->services[s].name,
		        domain->services[s].sid, domain->services[s].n_backlog);
}

static void put_records(FILE *out, struct domain *domain, enum snapshot_depth depth)
{
	struct machine *machine = domain->guest->machine;
	const struct domain_page *page = machine_domain_page(machine, domain->index);

	fprintf(out, "page of %s: accepts %u policy %" PRIu64 "\n", domain->name, page->accepts_waiting,
	        page->policy_number);
	if (depth == SNAPSHOT_QUIET)
		fprintf(out, "  events %" PRIu64 " ticket %" PRIu64 "\n", page->host_events,
		        page->connect_ticket);
	for (uint32_t s = 0; s < domain->n_slots; s++) {
		const struct slot_record *record = machine_record(machine, domain->first_slot + s);

		fprintf(out, "  record %u word %" PRIx64 " bytes %016" PRIx64 "\n", s, record->word,
		        (uint64_t)XXH3_64bits(record, sizeof(*record)));
	}
}

static void put_inbox(FILE *out, struct domain *domain, size_t stride)
{
	for (uint32_t s = 0; s < domain->n_slots; s++)
		fprintf(out, "inbox %s %u: %016" PRIx64 "\n", domain->name, s,
		        (uint64_t)XXH3_64bits(window_inbox(domain->guest->machine, domain->first_slot + s),
		                              stride));
}

/* The lines of /proc/self/maps that lie in the inbox window: what is mapped where, and from which file. */
static void put_mappings(FILE *out, uintptr_t start, uintptr_t end)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];

	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long long first, behind;

		if (sscanf(line, "%llx-%llx", &first, &behind) != 2 || behind <= start || first >= end)
			continue;
		/* Neighbours outside the window may have merged with its edges. */
		fprintf(out, "map %llx-%llx%s", first < start ? (unsigned long long)start : first,
		        behind > end ? (unsigned long long)end : behind, strchr(line, ' '));
	}
	fclose(maps);
}

static void put_guest(FILE *out, struct guest *guest, enum snapshot_depth depth)
{
	const uint8_t *inbox = window_inbox(guest->machine, 0);
	size_t stride = (size_t)((const uint8_t *)window_inbox(guest->machine, 1) - inbox);

	fprintf(out, "guest %s lost %d ended %d\n", guest->name, guest->lost, guest->ended);
	for (uint32_t d = 0; d < guest->n_domains; d++) {
		put_domain(out, &guest->domains[d]);
		put_records(out, &guest->domains[d], depth);
		if (depth == SNAPSHOT_QUIET)
			put_inbox(out, &guest->domains[d], stride);
	}
	put_mappings(out, (uintptr_t)inbox, (uintptr_t)inbox + machine_total_slots(guest->machine) * stride);
}

char *world_snapshot(struct world *world, enum snapshot_depth depth)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	struct registry *registry = registry_lock(world->monitor);

	put_posture(out, world);
	fprintf(out, "channels %u last %" PRIu64 " gate %d pinned %d connects %" PRIu64 " cuts %" PRIu64 "\n",
	        registry->n_channels, registry->last_channel, registry->gate_closed, registry->pinned,
	        registry->counters.connects, registry->counters.cuts);
	for (const struct channel *channel = registry->first; channel; channel = channel->next)
		put_channel(out, channel);
	for (uint32_t g = 0; g < registry->n_guests; g++)
		put_guest(out, registry->guests[g], depth);
	registry_unlock(registry);
	fclose(out);
	return text;
}

void snapshot_assert_equal(char *before, char *after, const char *what)
{
	char *a = before, *b = after;

	if (strcmp(before, after) == 0) {
		free(before);
		free(after);
		return;
	}
	while (a && b) {
		char *line_a = strsep(&a, "\n"), *line_b = strsep(&b, "\n");

		cr_assert_str_eq(line_a, line_b, "%s changed the host's state:\n- %s\n+ %s", what, line_a,
		                 line_b);
	}
	cr_assert_fail("%s changed the host's state", what);
}
