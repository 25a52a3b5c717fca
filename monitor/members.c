#include "monitor/members.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "vmm/check.h"

struct entry {
	struct members *owner;
	policy_sid client, service;
	bool answered;
	struct member member;
};

struct members {
	struct entry **entries; /* one allocation each: an answer that is under way points at it */
	size_t n_entries, room;
	uint32_t *index; /* open addressing; entry + 1, 0: empty */
	size_t n_index;

	/* Of the questions that are under way. */
	size_t first_asked, asked_to, n_pending;
	int status;
	members_asked_fn *done;
	void *opaque;
};

struct members *members_create(void)
{
	return calloc(1, sizeof(struct members));
}

void members_clear(struct members *members)
{
	CHECK(members->n_pending == 0);
	for (size_t i = 0; i < members->n_entries; i++)
		free(members->entries[i]);
	free(members->entries);
	free(members->index);
	*members = (struct members){0};
}

void members_destroy(struct members *members)
{
	if (!members)
		return;
	members_clear(members);
	free(members);
}

static uint32_t *place(const struct members *members, policy_sid client, policy_sid service)
{
	policy_sid key[2] = {client, service};
	size_t i = XXH3_64bits(key, sizeof(key)) & (members->n_index - 1);

	for (; members->index[i]; i = (i + 1) & (members->n_index - 1)) {
		const struct entry *entry = members->entries[members->index[i] - 1];

		if (entry->client == client && entry->service == service)
			break;
	}
	return &members->index[i];
}

static int grow(struct members *members)
{
	size_t room = members->room ? 2 * members->room : 16;
	struct entry **entries = reallocarray(members->entries, room, sizeof(struct entry *));
	uint32_t *index;

	if (!entries)
		return -ENOMEM;
	members->entries = entries;
	index = calloc(2 * room, sizeof(*index));
	if (!index)
		return -ENOMEM;
	free(members->index);
	members->index = index;
	members->n_index = 2 * room;
	members->room = room;
	for (size_t i = 0; i < members->n_entries; i++)
		*place(members, entries[i]->client, entries[i]->service) = (uint32_t)i + 1;
	return 0;
}

int members_add(struct members *members, policy_sid client, policy_sid service)
{
	struct entry *entry;
	uint32_t *at;

	if (members->n_entries == members->room && grow(members) < 0)
		return -ENOMEM;
	at = place(members, client, service);
	if (*at)
		return 0;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	*entry = (struct entry){.owner = members, .client = client, .service = service};
	members->entries[members->n_entries] = entry;
	*at = (uint32_t)++members->n_entries;
	return 0;
}

size_t members_count(const struct members *members)
{
	return members->n_entries;
}

size_t members_unanswered(const struct members *members)
{
	return members->n_entries - members->first_asked;
}

void context_type_and_level(const char *context, char text[static MAX_CONTEXT_BYTES])
{
	const char *type = strchr(context, ':'), *level, *range;
	size_t n_type, n_level;

	text[0] = '\0';
	type = type ? strchr(type + 1, ':') : NULL;
	if (!type)
		return;
	type++;
	level = strchr(type, ':');
	n_type = level ? (size_t)(level - type) : strlen(type);
	range = level ? strchr(level, '-') : NULL;
	n_level = !level ? 0 : range ? (size_t)(range - level) : strlen(level);
	snprintf(text, MAX_CONTEXT_BYTES, "%.*s%.*s", (int)n_type, type, (int)n_level, level ? level : "");
}

static void answered(void *opaque, int status, const struct server_member *from)
{
	struct entry *entry = opaque;
	struct members *members = entry->owner;

	if (status == 0) {
		entry->answered = true;
		entry->member.known = from->known;
		entry->member.has_rule = from->has_rule;
		if (from->known && from->context)
			context_type_and_level(from->context, entry->member.type_and_level);
	} else if (members->status == 0) {
		members->status = status;
	}
	if (--members->n_pending > 0)
		return;
	if (members->status == 0)
		members->first_asked = members->asked_to;
	members->done(members->opaque, members->status);
}

int members_ask(struct members *members, struct server *server, const struct sid_table *sids,
                uint64_t deadline_ns, members_asked_fn *done, void *opaque)
{
	size_t n = members->n_entries;

	CHECK(members->n_pending == 0 && members_unanswered(members) > 0);
	members->status = 0;
	members->asked_to = n;
	members->done = done;
	members->opaque = opaque;
	for (size_t i = members->first_asked; i < n; i++) {
		struct entry *entry = members->entries[i];
		int error = server_member(server, sid_context(sids, entry->client),
		                          sid_context(sids, entry->service), CLASS_CHANNEL, deadline_ns,
		                          answered, entry);

		/* What was put already is still answered, and done runs then. */
		if (error < 0 && members->n_pending == 0)
			return error;
		if (error < 0) {
			members->status = error;
			return 0;
		}
		members->n_pending++;
	}
	return 0;
}

const struct member *members_find(const struct members *members, policy_sid client, policy_sid service)
{
	uint32_t at = members->n_index ? *place(members, client, service) : 0;

	return at && members->entries[at - 1]->answered ? &members->entries[at - 1]->member : NULL;
}

void members_merge(struct members *members, const struct members *from)
{
	for (size_t i = 0; i < from->n_entries; i++) {
		const struct entry *entry = from->entries[i];

		if (!entry->answered || members_add(members, entry->client, entry->service) < 0)
			continue;
		struct entry *to = members->entries[*place(members, entry->client, entry->service) - 1];

		to->member = entry->member;
		to->answered = true;
	}
}
