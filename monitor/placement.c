#include "monitor/placement.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "monitor/registry.h"

/* At least four extents, so that a domain with few slots has more than one key in order too. */
static uint32_t extent_slots(uint32_t n_slots)
{
	uint32_t n = MAX_EXTENT_SLOTS;

	while (n > 1 && n > n_slots / 4)
		n /= 2;
	return n;
}

int placement_create(struct domain *domain)
{
	domain->extent_slots = extent_slots(domain->n_slots);
	domain->n_extents = (domain->n_slots + domain->extent_slots - 1) / domain->extent_slots;
	domain->extents = calloc(domain->n_extents ? domain->n_extents : 1, sizeof(*domain->extents));
	return domain->extents ? 0 : -ENOMEM;
}

void placement_destroy(struct domain *domain)
{
	free(domain->extents);
	domain->extents = NULL;
}

static bool is_same(const struct placement_key *a, const struct placement_key *b)
{
	return a->client == b->client && a->service == b->service && a->on_behalf_of == b->on_behalf_of;
}

/* From i to below end; end: none. */
static uint32_t first_free(const struct domain *domain, uint32_t i, uint32_t end)
{
	while (i < end && (domain->slots[i].channel || domain->slots[i].unusable))
		i++;
	return i;
}

static uint32_t extent_end(const struct domain *domain, uint32_t extent)
{
	uint32_t end = (extent + 1) * domain->extent_slots;

	return end < domain->n_slots ? end : domain->n_slots;
}

/* What one look at all extents finds for a key; n_extents: nothing. */
struct finding {
	uint32_t own;                /* the key's, with room */
	uint32_t behind;             /* free, behind one of the key's */
	uint32_t longest, n_longest; /* the longest range of free ones */
};

static void end_range(struct finding *finding, uint32_t begin, uint32_t end)
{
	if (end - begin <= finding->n_longest)
		return;
	finding->longest = begin;
	finding->n_longest = end - begin;
}

static struct finding look(const struct domain *domain, const struct placement_key *key)
{
	const uint32_t n = domain->n_extents;
	struct finding finding = {.own = n, .behind = n};
	uint32_t range = 0; /* begin of the free ones that end here */
	bool after_own = false;

	for (uint32_t x = 0; x < n && finding.own == n; x++) {
		const struct extent *extent = &domain->extents[x];

		if (extent->n_used == 0) {
			if (after_own && finding.behind == n)
				finding.behind = x;
			after_own = false;
			continue;
		}
		end_range(&finding, range, x);
		range = x + 1;
		after_own = is_same(&extent->owner, key);
		if (after_own && extent->n_used < extent_end(domain, x) - x * domain->extent_slots)
			finding.own = x;
	}
	end_range(&finding, range, n);
	return finding;
}

/* From the begin of the window if that is free: else in the middle, so that what stands before it can grow.
 */
static uint32_t place_anew(const struct finding *finding)
{
	return finding->longest == 0 ? 0 : finding->longest + finding->n_longest / 2;
}

uint32_t placement_choose(const struct domain *domain, const struct placement_key *key)
{
	struct finding finding;
	uint32_t extent;

	if (domain->n_extents == 0)
		return first_free(domain, domain->lowest_free, domain->n_slots);
	finding = look(domain, key);
	if (finding.own < domain->n_extents)
		extent = finding.own;
	else if (finding.behind < domain->n_extents)
		extent = finding.behind;
	else if (finding.n_longest > 0)
		extent = place_anew(&finding);
	else
		return first_free(domain, domain->lowest_free, domain->n_slots);
	return first_free(domain, extent * domain->extent_slots, domain->n_slots);
}

void placement_taken(struct domain *domain, uint32_t i, const struct placement_key *key)
{
	struct extent *extent;

	if (domain->n_extents == 0)
		return;
	extent = &domain->extents[i / domain->extent_slots];
	if (extent->n_used++ == 0)
		extent->owner = *key;
}

void placement_given(struct domain *domain, uint32_t i)
{
	if (domain->n_extents > 0)
		domain->extents[i / domain->extent_slots].n_used--;
}
