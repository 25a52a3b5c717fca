#include "monitor/decisions.h"

#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#include "vmm/check.h"

struct entry {
	struct avc_key key;
	struct decision decision;
	bool answered;
};

struct decisions {
	struct entry *entries;
	size_t n_entries, room;
	uint32_t *index; /* open addressing; entry + 1, 0: empty */
	size_t n_index;  /* a power of two, at least twice n_entries */

	/* Of the batch that is under way. */
	size_t first_asked, n_asked;
	uint64_t policy_number;
	decisions_asked_fn *done;
	void *opaque;
};

struct decisions *decisions_create(void)
{
	return calloc(1, sizeof(struct decisions));
}

void decisions_destroy(struct decisions *decisions)
{
	if (!decisions)
		return;
	free(decisions->entries);
	free(decisions->index);
	free(decisions);
}

static bool same(struct avc_key a, struct avc_key b)
{
	return a.source == b.source && a.target == b.target && a.tclass == b.tclass;
}

static uint32_t *place(const struct decisions *decisions, struct avc_key key)
{
	uint32_t words[3] = {key.source, key.target, (uint32_t)key.tclass};
	size_t i = XXH3_64bits(words, sizeof(words)) & (decisions->n_index - 1);

	while (decisions->index[i] && !same(decisions->entries[decisions->index[i] - 1].key, key))
		i = (i + 1) & (decisions->n_index - 1);
	return &decisions->index[i];
}

static int grow(struct decisions *decisions)
{
	size_t room = decisions->room ? 2 * decisions->room : 32;
	struct entry *entries = realloc(decisions->entries, room * sizeof(*entries));
	uint32_t *index;

	if (!entries)
		return -ENOMEM;
	decisions->entries = entries;
	index = calloc(2 * room, sizeof(*index));
	if (!index)
		return -ENOMEM;
	free(decisions->index);
	decisions->index = index;
	decisions->n_index = 2 * room;
	decisions->room = room;
	for (size_t i = 0; i < decisions->n_entries; i++)
		*place(decisions, entries[i].key) = (uint32_t)i + 1;
	return 0;
}

int decisions_add(struct decisions *decisions, struct avc_key key)
{
	uint32_t *at;

	if (decisions->n_entries == decisions->room && grow(decisions) < 0)
		return -ENOMEM;
	at = place(decisions, key);
	if (*at)
		return 0;
	decisions->entries[decisions->n_entries] = (struct entry){.key = key};
	*at = (uint32_t)++decisions->n_entries;
	return 0;
}

int decisions_add_channel(struct decisions *decisions, const struct subjects *subjects)
{
	struct need needs[MAX_NEEDS];
	size_t n = needs_list(subjects, needs);

	for (size_t i = 0; i < n; i++)
		if (decisions_add(decisions,
		                  (struct avc_key){needs[i].source, needs[i].target, CLASS_CHANNEL}) < 0)
			return -ENOMEM;
	return 0;
}

size_t decisions_count(const struct decisions *decisions)
{
	return decisions->n_entries;
}

/* Answers come in the order of entries, so what is unanswered is the tail. */
size_t decisions_unanswered(const struct decisions *decisions)
{
	return decisions->n_entries - decisions->first_asked;
}

static void answered(void *opaque, int status, const struct server_decision *answers, size_t n_answers)
{
	struct decisions *decisions = opaque;

	if (status == 0) {
		CHECK(n_answers == decisions->n_asked);
		for (size_t i = 0; i < n_answers; i++) {
			struct entry *entry = &decisions->entries[decisions->first_asked + i];

			entry->decision = (struct decision){
				.allowed = answers[i].known ? answers[i].allowed : 0,
				.auditallow = answers[i].auditallow,
				.auditdeny = answers[i].known ? answers[i].auditdeny : UINT32_MAX,
				.permissive = answers[i].known && answers[i].permissive,
				.policy_number = decisions->policy_number,
			};
			entry->answered = true;
		}
		decisions->first_asked += n_answers;
	}
	decisions->n_asked = 0;
	decisions->done(decisions->opaque, status, decisions);
}

/* SIDs number the contexts of the wire: SID s is context s - 1. */
int decisions_ask(struct decisions *decisions, struct server *server, const struct sid_table *sids,
                  uint64_t policy_number, uint64_t deadline_ns, decisions_asked_fn *done, void *opaque)
{
	size_t n = decisions_unanswered(decisions), n_contexts = sid_count(sids);
	struct server_question *questions;
	const char **contexts;
	int error = -ENOMEM;

	CHECK(decisions->n_asked == 0);
	if (!server)
		return -ECONNRESET;
	questions = calloc(n ? n : 1, sizeof(*questions));
	contexts = calloc(n_contexts ? n_contexts : 1, sizeof(*contexts));
	if (!questions || !contexts)
		goto out;
	for (size_t i = 0; i < n_contexts; i++)
		contexts[i] = sid_context(sids, (policy_sid)i + 1);
	for (size_t i = 0; i < n; i++) {
		struct avc_key key = decisions->entries[decisions->first_asked + i].key;

		CHECK(key.source != SID_NONE && key.target != SID_NONE);
		questions[i] = (struct server_question){key.source - 1, key.target - 1, key.tclass};
	}
	decisions->n_asked = n;
	decisions->policy_number = policy_number;
	decisions->done = done;
	decisions->opaque = opaque;
	error = server_decide(server, contexts, n_contexts, questions, n, deadline_ns, answered, decisions);
	if (error < 0)
		decisions->n_asked = 0;
out:
	free(questions);
	free(contexts);
	return error;
}

bool decisions_find(void *opaque, struct avc_key key, struct decision *out)
{
	const struct decisions *decisions = opaque;
	uint32_t at = decisions->n_index ? *place(decisions, key) : 0;

	if (!at || !decisions->entries[at - 1].answered)
		return false;
	*out = decisions->entries[at - 1].decision;
	return true;
}

void decisions_mask(struct decisions *decisions, const struct overlay *overlay, const struct sid_table *sids)
{
	for (size_t i = 0; i < decisions->n_entries && overlay->n_rules; i++) {
		struct avc_key key = decisions->entries[i].key;

		decisions->entries[i].decision.allowed &= ~overlay_mask(
			overlay, sid_context(sids, key.source), sid_context(sids, key.target), key.tclass);
	}
}

void decisions_cache(const struct decisions *decisions, struct avc *avc)
{
	for (size_t i = 0; i < decisions->n_entries; i++)
		if (decisions->entries[i].answered)
			avc_insert(avc, decisions->entries[i].key, &decisions->entries[i].decision);
}
