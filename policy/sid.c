#include "policy/sid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "guest/abi/limits.h"

#define FIRST_SLOTS 64u /* a power of two */

struct entry {
	char *context; /* its own allocation: never moves */
	uint64_t hash;
	bool known;
};

struct sid_table {
	struct entry *entries; /* entry i is SID i + 1 */
	uint32_t n_entries;
	uint32_t entries_room;
	policy_sid *slots; /* open addressing, linear; SID_NONE is free */
	uint32_t n_slots;  /* a power of two, at least twice n_entries */
};

struct sid_table *sid_table_create(void)
{
	struct sid_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->slots = calloc(FIRST_SLOTS, sizeof(*table->slots));
	if (!table->slots) {
		free(table);
		return NULL;
	}
	table->n_slots = FIRST_SLOTS;
	return table;
}

void sid_table_destroy(struct sid_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->n_entries; i++)
		free(table->entries[i].context);
	free(table->entries);
	free(table->slots);
	free(table);
}

/* The length, or 0 for a text that can be no context. */
static size_t context_length(const char *context)
{
	size_t length = strnlen(context, MAX_CONTEXT_BYTES);

	if (length == MAX_CONTEXT_BYTES)
		return 0;
	for (size_t i = 0; i < length; i++)
		if (context[i] <= ' ' || context[i] > '~' || context[i] == '"' || context[i] == '\'')
			return 0;
	return length;
}

/* The slot that holds the context, or the free one where it belongs. */
static uint32_t find_slot(const struct sid_table *table, const char *context, uint64_t hash)
{
	uint32_t mask = table->n_slots - 1;
	uint32_t slot = (uint32_t)hash & mask;

	for (; table->slots[slot] != SID_NONE; slot = (slot + 1) & mask) {
		const struct entry *entry = &table->entries[table->slots[slot] - 1];

		if (entry->hash == hash && strcmp(entry->context, context) == 0)
			break;
	}
	return slot;
}

static int grow_slots(struct sid_table *table)
{
	uint32_t n_slots = table->n_slots * 2;
	policy_sid *slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < table->n_entries; i++) {
		uint32_t slot = (uint32_t)table->entries[i].hash & (n_slots - 1);

		while (slots[slot] != SID_NONE)
			slot = (slot + 1) & (n_slots - 1);
		slots[slot] = i + 1;
	}
	free(table->slots);
	table->slots = slots;
	table->n_slots = n_slots;
	return 0;
}

static int grow_entries(struct sid_table *table)
{
	uint32_t room = table->entries_room ? table->entries_room * 2 : FIRST_SLOTS / 2;
	struct entry *entries = reallocarray(table->entries, room, sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	table->entries = entries;
	table->entries_room = room;
	return 0;
}

static int reserve(struct sid_table *table)
{
	if (table->n_entries == UINT32_MAX / 4)
		return -ENOMEM;
	if (table->n_entries == table->entries_room && grow_entries(table))
		return -ENOMEM;
	if ((table->n_entries + 1) * 2 > table->n_slots && grow_slots(table))
		return -ENOMEM;
	return 0;
}

int sid_intern(struct sid_table *table, const char *context, policy_sid *sid)
{
	size_t length = context_length(context);
	uint64_t hash;
	uint32_t slot;
	char *copy;

	if (!length)
		return -EINVAL;
	hash = XXH3_64bits(context, length);
	slot = find_slot(table, context, hash);
	if (table->slots[slot] != SID_NONE) {
		*sid = table->slots[slot];
		return 0;
	}
	if (reserve(table))
		return -ENOMEM;
	copy = strdup(context);
	if (!copy)
		return -ENOMEM;
	slot = find_slot(table, context, hash); /* the slots may have moved */
	table->entries[table->n_entries++] = (struct entry){.context = copy, .hash = hash};
	table->slots[slot] = table->n_entries;
	*sid = table->n_entries;
	return 0;
}

static struct entry *find_entry(const struct sid_table *table, policy_sid sid)
{
	return sid != SID_NONE && sid <= table->n_entries ? &table->entries[sid - 1] : NULL;
}

const char *sid_context(const struct sid_table *table, policy_sid sid)
{
	const struct entry *entry = find_entry(table, sid);

	return entry ? entry->context : NULL;
}

bool sid_known(const struct sid_table *table, policy_sid sid)
{
	const struct entry *entry = find_entry(table, sid);

	return entry && entry->known;
}

void sid_set_known(struct sid_table *table, policy_sid sid, bool known)
{
	struct entry *entry = find_entry(table, sid);

	if (entry)
		entry->known = known;
}

uint32_t sid_count(const struct sid_table *table)
{
	return table->n_entries;
}
