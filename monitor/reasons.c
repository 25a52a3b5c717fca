#include "monitor/reasons.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct reason {
	struct reasons *owner;
	struct need need;
	enum cut_cause cause;
	char *text;
};

struct reasons {
	struct reason *reasons;
	uint32_t n_reasons;
	size_t n_pending;
	int status; /* of the answer that failed last; 0: none did */
};

struct reasons *reasons_create(void)
{
	return calloc(1, sizeof(struct reasons));
}

void reasons_destroy(struct reasons *reasons)
{
	if (!reasons)
		return;
	for (uint32_t i = 0; i < reasons->n_reasons; i++)
		free(reasons->reasons[i].text);
	free(reasons->reasons);
	free(reasons);
}

static uint32_t *place(const struct reasons *reasons, uint32_t *index, size_t n_index,
                       const struct plan_flow *cut)
{
	const struct need *need = &cut->missing;
	uint32_t words[4] = {need->source, need->target, need->permission, (uint32_t)cut->cause};
	size_t i = XXH3_64bits(words, sizeof(words)) & (n_index - 1);

	for (; index[i]; i = (i + 1) & (n_index - 1)) {
		const struct reason *reason = &reasons->reasons[index[i] - 1];
		const struct need *there = &reason->need;

		if (there->source == need->source && there->target == need->target &&
		    there->permission == need->permission && reason->cause == cut->cause)
			break;
	}
	return &index[i];
}

int reasons_collect(struct reasons *reasons, struct plan *plan)
{
	size_t n_index = 2;
	uint32_t *index;

	while (n_index < 2 * plan->n_cuts + 2)
		n_index *= 2;
	index = calloc(n_index, sizeof(*index));
	reasons->reasons = calloc(plan->n_cuts + 1, sizeof(*reasons->reasons));
	if (!index || !reasons->reasons) {
		free(index);
		return -ENOMEM;
	}
	for (size_t i = 0; i < plan->n_cuts; i++) {
		const struct plan_flow *cut = &plan->cuts[i];
		uint32_t *at = place(reasons, index, n_index, cut);

		if (!*at) {
			reasons->reasons[reasons->n_reasons] =
				(struct reason){.owner = reasons, .need = cut->missing, .cause = cut->cause};
			*at = ++reasons->n_reasons;
		}
		plan->cuts[i].reason = *at - 1;
	}
	free(index);
	return 0;
}

static void explained(void *opaque, int status, const char *text)
{
	struct reason *reason = opaque;

	reason->owner->n_pending--;
	if (status < 0)
		reason->owner->status = status;
	if (status == 0)
		reason->text = strdup(text);
}

/* What needs no policy to be explained. */
static bool explain_here(struct reason *reason, const struct overlay *overlay, const char *source,
                         const char *target)
{
	static const char *const texts[] = {
		[CAUSE_QUARANTINE] = "a domain is quarantined",
		[CAUSE_OPERATOR] = "cut by an operator",
		[CAUSE_PARENT] = "the channel on whose behalf it was opened is cut",
		[CAUSE_MEMBER] = "the member decision gives this client another instance",
	};
	const struct overlay_rule *rule;
	char text[WHY_BYTES];

	if (reason->cause != CAUSE_DECISION) {
		reason->text = strdup(texts[reason->cause]);
		return true;
	}
	rule = overlay_find(overlay, source, target, CLASS_CHANNEL, reason->need.permission);
	if (!rule)
		return false;
	overlay_format(rule, text);
	reason->text = strdup(text);
	return true;
}

int reasons_ask(struct reasons *reasons, const struct overlay *overlay, struct server *server,
                const struct sid_table *sids, uint64_t deadline_ns)
{
	for (uint32_t i = 0; i < reasons->n_reasons; i++) {
		struct reason *reason = &reasons->reasons[i];
		const char *source = sid_context(sids, reason->need.source);
		const char *target = sid_context(sids, reason->need.target);
		int error;

		if (explain_here(reason, overlay, source, target))
			continue;
		error = server_explain(server, source, target, CLASS_CHANNEL, reason->need.permission,
		                       deadline_ns, explained, reason);
		/* Without the rest of the explanations the change is as good; answers that are under way need
		 * this set. */
		if (error < 0)
			return reasons->n_pending ? 0 : error;
		reasons->n_pending++;
	}
	return 0;
}

size_t reasons_pending(const struct reasons *reasons)
{
	return reasons->n_pending;
}

int reasons_status(const struct reasons *reasons)
{
	return reasons->status;
}

const char *reasons_text(const struct reasons *reasons, uint32_t number)
{
	const char *text = reasons->reasons[number].text;

	return text ? text : "not allowed";
}
