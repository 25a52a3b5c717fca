#include "monitor/instance.h"

#include <stdio.h>
#include <string.h>

#include "vmm/check.h"

struct service_name service_name_read(const char *text)
{
	const char *slash = strchr(text, '/');
	struct service_name name = {.guest = ""};

	if (slash)
		snprintf(name.guest, sizeof(name.guest), "%.*s", (int)(slash - text), text);
	snprintf(name.service, sizeof(name.service), "%s", slash ? slash + 1 : text);
	return name;
}

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

/* ---- candidates, in their order ---- */

struct walk {
	const struct registry *registry;
	const struct guest *own;
	const struct service_name *name;
	bool over;           /* guests that have ended are visited, after all others */
	struct guest *guest; /* NULL: not begun */
	uint32_t domain, service;
};

static bool may_visit(const struct walk *walk, const struct guest *guest)
{
	return guest != walk->own && !guest->leaving && (guest->lost || guest->ended) == walk->over &&
	       (!walk->name->guest[0] || strcmp(guest->name, walk->name->guest) == 0);
}

/* The guest with the least name behind that of `after`; NULL: none. Names are unique. */
static struct guest *next_by_name(const struct walk *walk, const char *after)
{
	struct guest *next = NULL;

	for (uint32_t g = 0; g < walk->registry->n_guests; g++) {
		struct guest *guest = walk->registry->guests[g];

		if (may_visit(walk, guest) && strcmp(guest->name, after) > 0 &&
		    (!next || strcmp(guest->name, next->name) < 0))
			next = guest;
	}
	return next;
}

static bool begin_own(struct walk *walk)
{
	const struct guest *own = walk->own;

	if (walk->name->guest[0] && strcmp(own->name, walk->name->guest) != 0)
		return false;
	walk->guest = (struct guest *)own;
	return true;
}

static bool next_guest(struct walk *walk)
{
	const char *after = walk->guest && walk->guest != walk->own ? walk->guest->name : "";

	walk->domain = walk->service = 0;
	if (!walk->guest && begin_own(walk))
		return true;
	walk->guest = next_by_name(walk, after);
	if (!walk->guest && !walk->over) {
		walk->over = true;
		walk->guest = next_by_name(walk, "");
	}
	return walk->guest != NULL;
}

/* The next service of that name in the guest that is being visited. */
static struct service *next_here(struct walk *walk)
{
	for (; walk->domain < walk->guest->n_domains; walk->domain++, walk->service = 0) {
		struct domain *domain = &walk->guest->domains[walk->domain];

		while (walk->service < domain->n_services) {
			struct service *service = &domain->services[walk->service++];

			if (strcmp(service->name, walk->name->service) == 0)
				return service;
		}
	}
	return NULL;
}

static struct service *next_candidate(struct walk *walk)
{
	struct service *service = NULL;

	while (!service && (walk->guest || next_guest(walk))) {
		service = next_here(walk);
		if (!service && !next_guest(walk))
			return NULL;
	}
	return service;
}

enum instance_choice instance_choose(struct registry *registry, const struct instance_question *question,
                                     struct service **out)
{
	struct walk walk = {.registry = registry, .own = question->guest, .name = question->name};
	struct service *service;

	CHECK(registry->held);
	while ((service = next_candidate(&walk))) {
		const struct member *member = members_find(question->members, question->client, service->sid);

		*out = service;
		if (!member)
			return INSTANCE_UNDECIDED;
		if (instance_matches(question->sids, service, service->domain->sid, member))
			return INSTANCE_FOUND;
	}
	*out = NULL;
	return INSTANCE_NONE;
}

const struct service *instance_any(struct registry *registry, const struct guest *guest,
                                   const struct service_name *name)
{
	struct walk walk = {.registry = registry, .own = guest, .name = name};

	CHECK(registry->held);
	return next_candidate(&walk);
}
