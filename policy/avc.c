#include "policy/avc.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define LINE_WAYS 2u /* entries of a cache line */

/*
 * Two to a cache line. What names an entry is two words, so that a look at one is two comparisons. It counts
 * only while its number is the one in force.
 */
struct entry {
	uint64_t pair;  /* source and target */
	uint64_t under; /* number and class: see under_number */
	uint32_t allowed;
	uint32_t auditallow;
	uint32_t auditdeny;
	bool permissive;
	uint8_t oldest; /* of the line, in its first entry: once full it is filled in turn */
};
static_assert(sizeof(struct entry) == 32, "two avc entries to a cache line");
static_assert(N_CLASSES <= 256, "a class is a byte of entry.under");

/* One line. A key has a line of its own and, when that is full, the other one of the pair. */
struct line {
	_Alignas(64) struct entry ways[LINE_WAYS];
};

struct avc {
	uint64_t policy_number;
	uint32_t line_mask;
	struct avc_counters counters;
	struct line *lines; /* an even number of them */
};

struct avc *avc_create(uint32_t entries)
{
	struct avc *avc;
	uint32_t n_lines = 2;

	if (entries > 1u << 28)
		return NULL;
	while (n_lines * LINE_WAYS < entries)
		n_lines *= 2;
	avc = calloc(1, sizeof(*avc));
	if (!avc)
		return NULL;
	/* Zero pages, most of which stay untouched for good: number 0 is never in force. */
	avc->lines = mmap(NULL, n_lines * sizeof(*avc->lines), PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (avc->lines == MAP_FAILED) {
		free(avc);
		return NULL;
	}
	avc->line_mask = n_lines - 1;
	avc->policy_number = 1;
	return avc;
}

void avc_destroy(struct avc *avc)
{
	if (!avc)
		return;
	munmap(avc->lines, (avc->line_mask + (size_t)1) * sizeof(*avc->lines));
	free(avc);
}

static uint64_t pack_pair(struct avc_key key)
{
	return (uint64_t)key.source << 32 | key.target;
}

static uint64_t under_number(uint64_t policy_number, enum policy_class tclass)
{
	return policy_number << 8 | (uint8_t)tclass;
}

/* xxHash's own end of hashing: all that 64 bits need that are all there is. */
static struct line *find_line(const struct avc *avc, uint64_t pair, enum policy_class tclass)
{
	uint64_t hash = XXH3_avalanche(pair + (uint64_t)tclass * XXH_PRIME64_1);

	return &avc->lines[hash & avc->line_mask];
}

static struct line *other_line(const struct avc *avc, const struct line *line)
{
	return &avc->lines[(size_t)(line - avc->lines) ^ 1];
}

/* Both are compared without a branch: which one it is can not be foretold. */
static inline struct entry *find_in_line(struct line *line, uint64_t pair, uint64_t under)
{
	struct entry *a = &line->ways[0], *b = &line->ways[1];
	bool is_a = ((a->pair ^ pair) | (a->under ^ under)) == 0;
	bool is_b = ((b->pair ^ pair) | (b->under ^ under)) == 0;

	return (is_a | is_b) ? &line->ways[is_b] : NULL;
}
static_assert(LINE_WAYS == 2, "find_in_line looks at two");

static inline struct entry *find_entry(const struct avc *avc, struct line *line, uint64_t pair,
                                       enum policy_class tclass)
{
	uint64_t under = under_number(avc->policy_number, tclass);
	struct entry *entry = find_in_line(line, pair, under);

	return __builtin_expect(entry != NULL, true) ? entry
	                                             : find_in_line(other_line(avc, line), pair, under);
}

bool avc_lookup_words(struct avc *avc, uint64_t pair, enum policy_class tclass, struct decision *out)
{
	const struct entry *entry = find_entry(avc, find_line(avc, pair, tclass), pair, tclass);

	if (!entry) {
		avc->counters.misses++;
		return false;
	}
	avc->counters.hits++;
	out->allowed = entry->allowed;
	out->auditallow = entry->auditallow;
	out->auditdeny = entry->auditdeny;
	out->permissive = entry->permissive;
	out->policy_number = avc->policy_number;
	return true;
}

static bool is_current(const struct avc *avc, const struct entry *entry)
{
	return entry->under >> 8 == avc->policy_number;
}

static struct entry *find_free(const struct avc *avc, struct line *line)
{
	for (unsigned i = 0; i < LINE_WAYS; i++)
		if (!is_current(avc, &line->ways[i]))
			return &line->ways[i];
	return NULL;
}

/* The entry of that key if there is one, else a free one, else its line's oldest. */
static struct entry *choose_entry(struct avc *avc, struct avc_key key)
{
	uint64_t pair = pack_pair(key);
	struct line *line = find_line(avc, pair, key.tclass);
	struct entry *entry = find_entry(avc, line, pair, key.tclass);

	if (!entry)
		entry = find_free(avc, line);
	if (!entry)
		entry = find_free(avc, other_line(avc, line));
	if (entry)
		return entry;
	entry = &line->ways[line->ways[0].oldest];
	line->ways[0].oldest = (line->ways[0].oldest + 1) % LINE_WAYS;
	avc->counters.evictions++;
	return entry;
}

int avc_insert(struct avc *avc, struct avc_key key, const struct decision *decision)
{
	struct entry *entry;

	if (decision->policy_number != avc->policy_number) {
		avc->counters.stale++;
		return -ESTALE;
	}
	entry = choose_entry(avc, key);
	entry->pair = pack_pair(key);
	entry->under = under_number(decision->policy_number, key.tclass);
	entry->permissive = decision->permissive;
	entry->allowed = decision->allowed;
	entry->auditallow = decision->auditallow;
	entry->auditdeny = decision->auditdeny;
	return 0;
}

/*
 * Raising is what forgets: an entry of another number is no entry. So there
 * is no moment between the two at which an old entry could be found, and none
 * at which an old decision could enter.
 */
void avc_raise(struct avc *avc, uint64_t policy_number)
{
	assert(policy_number > avc->policy_number);
	avc->policy_number = policy_number;
}

uint64_t avc_policy_number(const struct avc *avc)
{
	return avc->policy_number;
}

struct avc_counters avc_counters(const struct avc *avc)
{
	return avc->counters;
}
