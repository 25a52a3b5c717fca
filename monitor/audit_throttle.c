#include "monitor/audit_throttle.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define TOKEN 1000u
#define TELL_AFTER_NS 1000000000ull

static struct audit_bucket *find_bucket(struct audit_throttle *throttle, const char *guest,
                                        const char *domain)
{
	uint64_t hash = XXH3_64bits_withSeed(domain, strlen(domain), XXH3_64bits(guest, strlen(guest)));

	return &throttle->buckets[hash % AUDIT_BUCKETS];
}

#define TOKEN_NS (1000000000u / (AUDIT_LINES_PER_SECOND * TOKEN))

/* Only whole tokens are taken out of the time, so that frequent calls do not lose any. */
static void fill(struct audit_bucket *bucket, uint64_t now_ns)
{
	uint64_t full = (uint64_t)AUDIT_BURST * TOKEN;
	uint64_t tokens = (now_ns - bucket->filled_ns) / TOKEN_NS;

	if (bucket->filled_ns == 0 || tokens >= full - bucket->tokens) {
		bucket->tokens = full;
		bucket->filled_ns = now_ns;
	} else {
		bucket->tokens += tokens;
		bucket->filled_ns += tokens * TOKEN_NS;
	}
}

static void tell(struct audit_throttle *throttle, struct audit_bucket *bucket, struct audit_bucket *told)
{
	*told = *bucket;
	if (bucket->held_back)
		throttle->n_holding--;
	bucket->held_back = 0;
}

bool audit_throttle_allows(struct audit_throttle *throttle, const char *guest, const char *domain,
                           uint64_t now_ns, struct audit_bucket *told)
{
	struct audit_bucket *bucket;

	told->held_back = 0;
	if (!guest || !domain)
		return true;
	bucket = find_bucket(throttle, guest, domain);
	fill(bucket, now_ns);
	if (bucket->tokens >= TOKEN) {
		bucket->tokens -= TOKEN;
		tell(throttle, bucket, told);
		return true;
	}
	if (bucket->held_back++ == 0) {
		throttle->n_holding++;
		bucket->held_back_ns = now_ns;
	}
	snprintf(bucket->guest, sizeof(bucket->guest), "%s", guest);
	snprintf(bucket->domain, sizeof(bucket->domain), "%s", domain);
	return false;
}

bool audit_throttle_next(struct audit_throttle *throttle, uint64_t now_ns, struct audit_bucket *told)
{
	for (uint32_t i = 0; throttle->n_holding && i < AUDIT_BUCKETS; i++) {
		struct audit_bucket *bucket = &throttle->buckets[i];

		if (bucket->held_back && now_ns - bucket->held_back_ns >= TELL_AFTER_NS) {
			tell(throttle, bucket, told);
			return true;
		}
	}
	return false;
}

bool audit_throttle_holds(const struct audit_throttle *throttle)
{
	return throttle->n_holding > 0;
}
