#include "policy/avc.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define N_WAYS 4u /* entries of a bucket */

/* Two to a cache line. An entry counts only while its number is the one in force. */
struct entry {
	uint64_t policy_number;
	uint64_t pair; /* source and target */
	uint32_t allowed;
	uint32_t auditallow;
	uint32_t auditdeny;
	uint16_t tclass;
	bool permissive;
	uint8_t oldest; /* of the bucket, in its first entry: they are filled in turn */
};
static_assert(sizeof(struct entry) == 32, "two avc entries to a cache line");

struct bucket {
	_Alignas(64) struct entry ways[N_WAYS];
};

struct avc {
	uint64_t policy_number;
	uint32_t bucket_mask;
	struct avc_counters counters;
	struct bucket *buckets;
};

struct avc *avc_create(uint32_t entries)
{
	struct avc *avc;
	uint32_t n_buckets = 1;

	if (entries > 1u << 28)
		return NULL;
	while (n_buckets * N_WAYS < entries)
		n_buckets *= 2;
	avc = calloc(1, sizeof(*avc));
	if (!avc)
		return NULL;
	avc->buckets = aligned_alloc(alignof(struct bucket), n_buckets * sizeof(*avc->buckets));
	if (!avc->buckets) {
		free(avc);
		return NULL;
	}
	memset(avc->buckets, 0, n_buckets * sizeof(*avc->buckets)); /* number 0 is never in force */
	avc->bucket_mask = n_buckets - 1;
	avc->policy_number = 1;
	return avc;
}

void avc_destroy(struct avc *avc)
{
	if (!avc)
		return;
	free(avc->buckets);
	free(avc);
}

static uint64_t pack_pair(struct avc_key key)
{
	return (uint64_t)key.source << 32 | key.target;
}

static struct bucket *find_bucket(struct avc *avc, struct avc_key key)
{
	/* As wide as the hash reads them: narrower stores are not forwarded to its loads, 20 ns. */
	uint64_t words[2] = {pack_pair(key), (uint64_t)key.tclass};

	return &avc->buckets[XXH3_64bits(words, sizeof(words)) & avc->bucket_mask];
}

static inline struct entry *find_entry(const struct avc *avc, struct bucket *bucket, struct avc_key key)
{
	uint64_t pair = pack_pair(key);

	for (unsigned i = 0; i < N_WAYS; i++) {
		struct entry *entry = &bucket->ways[i];

		if (entry->pair == pair && entry->policy_number == avc->policy_number &&
		    entry->tclass == key.tclass)
			return entry;
	}
	return NULL;
}

bool avc_lookup(struct avc *avc, struct avc_key key, struct decision *out)
{
	const struct entry *entry = find_entry(avc, find_bucket(avc, key), key);

	if (!entry) {
		avc->counters.misses++;
		return false;
	}
	avc->counters.hits++;
	out->allowed = entry->allowed;
	out->auditallow = entry->auditallow;
	out->auditdeny = entry->auditdeny;
	out->permissive = entry->permissive;
	out->policy_number = entry->policy_number;
	return true;
}

/* The entry of that key if there is one, else the bucket's oldest. */
static struct entry *choose_entry(struct avc *avc, struct avc_key key)
{
	struct bucket *bucket = find_bucket(avc, key);
	struct entry *entry = find_entry(avc, bucket, key);

	if (entry)
		return entry;
	entry = &bucket->ways[bucket->ways[0].oldest];
	bucket->ways[0].oldest = (bucket->ways[0].oldest + 1) % N_WAYS;
	if (entry->policy_number == avc->policy_number)
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
	entry->policy_number = decision->policy_number;
	entry->pair = pack_pair(key);
	entry->tclass = (uint16_t)key.tclass;
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
