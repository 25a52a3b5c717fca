#include "policy/avc.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define N_WAYS 4u /* entries of a bucket */

/* Two to a cache line. An entry counts only while its number is the one in force. */
struct entry {
	uint64_t policy_number;
	policy_sid source;
	policy_sid target;
	uint16_t tclass;
	bool permissive;
	uint32_t allowed;
	uint32_t auditallow;
	uint32_t auditdeny;
};
static_assert(sizeof(struct entry) <= 40, "avc entry stays small");

struct bucket {
	struct entry ways[N_WAYS];
	uint32_t oldest; /* filled in turn, so the next to fill is the oldest */
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
	avc->buckets = calloc(n_buckets, sizeof(*avc->buckets)); /* number 0 is never in force */
	if (!avc->buckets) {
		free(avc);
		return NULL;
	}
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

static struct bucket *find_bucket(struct avc *avc, struct avc_key key)
{
	uint32_t words[3] = {key.source, key.target, (uint32_t)key.tclass};

	return &avc->buckets[XXH3_64bits(words, sizeof(words)) & avc->bucket_mask];
}

static struct entry *find_entry(const struct avc *avc, struct bucket *bucket, struct avc_key key)
{
	for (unsigned i = 0; i < N_WAYS; i++) {
		struct entry *entry = &bucket->ways[i];

		if (entry->policy_number == avc->policy_number && entry->source == key.source &&
		    entry->target == key.target && entry->tclass == key.tclass)
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
	*out = (struct decision){
		.allowed = entry->allowed,
		.auditallow = entry->auditallow,
		.auditdeny = entry->auditdeny,
		.permissive = entry->permissive,
		.policy_number = entry->policy_number,
	};
	return true;
}

/* The entry of that key if there is one, else the bucket's oldest. */
static struct entry *choose_entry(struct avc *avc, struct avc_key key)
{
	struct bucket *bucket = find_bucket(avc, key);
	struct entry *entry = find_entry(avc, bucket, key);

	if (entry)
		return entry;
	entry = &bucket->ways[bucket->oldest];
	bucket->oldest = (bucket->oldest + 1) % N_WAYS;
	if (entry->policy_number == avc->policy_number)
		avc->counters.evictions++;
	return entry;
}

int avc_insert(struct avc *avc, struct avc_key key, const struct decision *decision)
{
	if (decision->policy_number != avc->policy_number) {
		avc->counters.stale++;
		return -ESTALE;
	}
	*choose_entry(avc, key) = (struct entry){
		.policy_number = decision->policy_number,
		.source = key.source,
		.target = key.target,
		.tclass = (uint16_t)key.tclass,
		.permissive = decision->permissive,
		.allowed = decision->allowed,
		.auditallow = decision->auditallow,
		.auditdeny = decision->auditdeny,
	};
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
