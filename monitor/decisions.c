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

#define N_REMEMBERED 2048u
#define N_TRIES 8u /* places of one; then the last is taken from who has it */

struct decisions {
	struct entry *entries;
	size_t n_entries, room;
	uint32_t *index; /* open addressing; entry + 1, 0: empty */
	size_t n_index;  /* a power of two, at least twice n_entries */

	struct members *members;

	struct remembered *remembered; /* N_REMEMBERED of them, by hash; NULL: none yet */

	/* Of the batch that is under way. */
	unsigned n_parts; /* without an answer: the decisions, the members */
	int status;
	size_t first_asked, n_asked;
	uint64_t policy_number;
	decisions_asked_fn *done;
	void *opaque;
};

struct decisions *decisions_create(void)
{
	struct decisions *decisions = calloc(1, sizeof(*decisions));

	if (!decisions)
		return NULL;
	decisions->members = members_create();
	if (decisions->members)
		return decisions;
	free(decisions);
	return NULL;
}

void decisions_destroy(struct decisions *decisions)
{
	if (!decisions)
		return;
	free(decisions->entries);
	free(decisions->index);
	free(decisions->remembered);
	members_destroy(decisions->members);
	free(decisions);
}

static void forget(struct decisions *decisions)
{
	free(decisions->remembered);
	decisions->remembered = NULL;
}

struct remembered *decisions_remember(struct decisions *decisions, const struct subjects *s,
                                      const void *service, bool enforcing)
{
	uint32_t mix =
		s->client * 0x9e3779b1u + s->server * 0x85ebca77u + s->service * 0xc2b2ae3du + s->relay;
	uint32_t first = mix * 0x27d4eb2fu >> 16;
	struct remembered *at = NULL;

	if (!decisions->remembered)
		decisions->remembered = calloc(N_REMEMBERED, sizeof(*decisions->remembered));
	if (!decisions->remembered)
		return NULL;
	for (uint32_t i = 0; i < N_TRIES; i++) {
		at = &decisions->remembered[(first + i) % N_REMEMBERED];
		if (!at->valid)
			break;
		if (at->subjects.client == s->client && at->subjects.server == s->server &&
		    at->subjects.service == s->service && at->subjects.relay == s->relay &&
		    at->service == service && at->enforcing == enforcing)
			return at;
	}
	*at = (struct remembered){.subjects = *s, .service = service, .enforcing = enforcing};
	return at;
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
	forget(decisions);
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
	return decisions_add_member(decisions, subjects->client, subjects->service);
}

int decisions_add_member(struct decisions *decisions, policy_sid client, policy_sid service)
{
	size_t n = members_count(decisions->members);
	int error = members_add(decisions->members, client, service);

	if (members_count(decisions->members) != n)
		forget(decisions);
	return error;
}

size_t decisions_count(const struct decisions *decisions)
{
	return decisions->n_entries + members_count(decisions->members);
}

/* Answers come in the order of entries, so what is unanswered is the tail. */
size_t decisions_unanswered(const struct decisions *decisions)
{
	return decisions->n_entries - decisions->first_asked + members_unanswered(decisions->members);
}

/* The batch is over when both its parts have answered; a bad status of either is its status. */
static void part_answered(struct decisions *decisions, int status)
{
	forget(decisions);
	if (status < 0 && decisions->status == 0)
		decisions->status = status;
	if (--decisions->n_parts == 0)
		decisions->done(decisions->opaque, decisions->status, decisions);
}

static void members_answered(void *opaque, int status)
{
	part_answered(opaque, status);
}

static struct decision from_answer(const struct server_decision *answer, uint64_t policy_number)
{
	return (struct decision){
		.allowed = answer->known ? answer->allowed : 0,
		.auditallow = answer->auditallow,
		.auditdeny = answer->known ? answer->auditdeny : UINT32_MAX,
		.permissive = answer->known && answer->permissive,
		.policy_number = policy_number,
	};
}

static void answered(void *opaque, int status, const struct server_decision *answers, size_t n_answers)
{
	struct decisions *decisions = opaque;

	if (status == 0) {
		CHECK(n_answers == decisions->n_asked);
		for (size_t i = 0; i < n_answers; i++) {
			struct entry *entry = &decisions->entries[decisions->first_asked + i];

			entry->decision = from_answer(&answers[i], decisions->policy_number);
			entry->answered = true;
		}
		decisions->first_asked += n_answers;
	}
	decisions->n_asked = 0;
	part_answered(decisions, status);
}

/* SIDs number the contexts of the wire: SID s is context s - 1. */
static int ask_batch(struct decisions *decisions, struct server *server, const struct sid_table *sids,
                     uint64_t deadline_ns)
{
	size_t n = decisions->n_entries - decisions->first_asked, n_contexts = sid_count(sids);
	struct server_question *questions = calloc(n, sizeof(*questions));
	const char **contexts = calloc(n_contexts ? n_contexts : 1, sizeof(*contexts));
	int error = -ENOMEM;

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
	error = server_decide(server, contexts, n_contexts, questions, n, deadline_ns, answered, decisions);
	if (error < 0)
		decisions->n_asked = 0;
out:
	free(questions);
	free(contexts);
	return error;
}

int decisions_ask(struct decisions *decisions, struct server *server, const struct sid_table *sids,
                  uint64_t policy_number, uint64_t deadline_ns, decisions_asked_fn *done, void *opaque)
{
	int error = 0;

	CHECK(decisions->n_parts == 0);
	if (!server)
		return -ECONNRESET;
	decisions->policy_number = policy_number;
	decisions->status = 0;
	decisions->done = done;
	decisions->opaque = opaque;
	if (decisions->n_entries > decisions->first_asked)
		error = ask_batch(decisions, server, sids, deadline_ns);
	if (error < 0)
		return error;
	decisions->n_parts = decisions->n_asked > 0;
	if (members_unanswered(decisions->members) == 0)
		return 0;
	error = members_ask(decisions->members, server, sids, deadline_ns, members_answered, decisions);
	if (error < 0 && decisions->n_parts > 0) {
		decisions->status = error; /* told when the first part has answered */
		return 0;
	}
	decisions->n_parts += error == 0;
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

const struct member *decisions_member(const struct decisions *decisions, policy_sid client,
                                      policy_sid service)
{
	return members_find(decisions->members, client, service);
}

void decisions_mask(struct decisions *decisions, const struct overlay *overlay, const struct sid_table *sids)
{
	forget(decisions);
	for (size_t i = 0; i < decisions->n_entries && overlay->n_rules; i++) {
		struct avc_key key = decisions->entries[i].key;

		decisions->entries[i].decision.allowed &= ~overlay_mask(
			overlay, sid_context(sids, key.source), sid_context(sids, key.target), key.tclass);
	}
}

void decisions_cache(const struct decisions *decisions, struct avc *avc, struct members *members)
{
	for (size_t i = 0; i < decisions->n_entries; i++)
		if (decisions->entries[i].answered)
			avc_insert(avc, decisions->entries[i].key, &decisions->entries[i].decision);
	members_merge(members, decisions->members);
}
