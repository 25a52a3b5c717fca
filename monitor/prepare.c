#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/change_internal.h"
#include "monitor/loop.h"
#include "monitor/registry.h"
#include "vmm/check.h"

/* The server that is asked about the proposal. NULL: the one in force has just died. */
static struct server *server_of(struct change *change)
{
	return change->has_candidate ? change->load.policy.server : change->monitor->posture->policy.server;
}

/* The timers of whoever was asked follow. */
static void rearm(struct change *change)
{
	if (change->has_candidate)
		watch_rearm(&change->watch);
	else
		posture_rearm(change->monitor);
}

static void answer(struct change *change, int status)
{
	change->answered = true;
	change->status = status;
}

/* ---- booleans ---- */

static void name_booleans(struct change *change, const struct policy_boolean *booleans, size_t n)
{
	char text[WHY_BYTES];
	size_t used;

	used = (size_t)snprintf(text, sizeof(text), "the policy has no boolean \"%.64s\"%s", change->boolean,
	                        n ? "; it has" : "");
	for (size_t i = 0; i < n && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, " %s", booleans[i].name);
	change->why = strdup(text);
}

static void listed(void *opaque, int status, const struct policy_boolean *booleans, size_t n)
{
	struct change *change = opaque;
	bool found = !change->boolean;

	answer(change, status);
	if (status < 0)
		return;
	settings_keep(&change->settings, booleans, n);
	for (size_t i = 0; i < n && !found; i++)
		found = strcmp(booleans[i].name, change->boolean) == 0;
	if (found)
		return;
	name_booleans(change, booleans, n);
	change->status = -ENOENT;
}

static int begin_booleans(struct change *change)
{
	change->stage = STAGE_BOOLEANS;
	if (change->settings.n_booleans == 0) {
		answer(change, 0);
		return 0;
	}
	return server_booleans(server_of(change), change->deadline_ns, listed, change);
}

/* ---- contexts ---- */

static void validated(void *opaque, int status, const bool *valid, size_t n_valid)
{
	struct change *change = opaque;

	answer(change, status);
	if (status < 0)
		return;
	CHECK(n_valid == change->n_known);
	memcpy(change->known, valid, n_valid * sizeof(*valid));
	if (change->proposal.kind == CHANGE_RELABEL && !change->known[change->proposal.sid - 1]) {
		change->status = -EINVAL;
		change->why = strdup("the policy does not know that context");
	}
}

/* The operator's context may be a new one; then it gets its SID now, which widens nothing. */
static int begin_validate(struct change *change)
{
	struct sid_table *sids = change->monitor->posture->sids;
	const char **contexts;
	int error = 0;

	if (change->has_candidate) {
		struct registry *registry = registry_lock(change->monitor);

		error = sid_intern(sids, change->load.policy.operator_context, &change->operator_sid);
		registry_unlock(registry);
	}
	if (error < 0)
		return error;
	change->n_known = sid_count(sids);
	change->known = calloc(change->n_known, sizeof(*change->known));
	contexts = calloc(change->n_known, sizeof(*contexts));
	if (!change->known || !contexts) {
		free(contexts);
		return -ENOMEM;
	}
	for (size_t i = 0; i < change->n_known; i++)
		contexts[i] = sid_context(sids, (policy_sid)i + 1);
	change->stage = STAGE_VALIDATE;
	error = server_validate(server_of(change), contexts, change->n_known, change->deadline_ns, validated,
	                        change);
	free(contexts);
	return error;
}

/* ---- decisions and the plan ---- */

static void decided(void *opaque, int status, struct decisions *decisions)
{
	struct change *change = opaque;

	answer(change, status);
	if (status == 0)
		decisions_mask(decisions, &change->proposal.overlay, change->monitor->posture->sids);
}

static struct avc_key author_key(const struct change *change)
{
	return (struct avc_key){change->author, change->operator_sid, CLASS_MONITOR};
}

static int begin_decide(struct change *change)
{
	struct registry *registry = registry_lock(change->monitor);
	int error = plan_questions(registry, &change->proposal, change->decisions);

	registry_unlock(registry);
	if (error == 0 && change->author != SID_NONE)
		error = decisions_add(change->decisions, author_key(change));
	if (error < 0)
		return error;
	change->stage = STAGE_DECIDE;
	if (decisions_unanswered(change->decisions) == 0) {
		answer(change, 0);
		return 0;
	}
	return decisions_ask(change->decisions, server_of(change), change->monitor->posture->sids,
	                     change->monitor->posture->policy_number + 1, change->deadline_ns, decided,
	                     change);
}

/* From here no new channel appears, so the second round of questions is the last. */
static void close_gate(struct change *change)
{
	struct registry *registry;

	if (change->gate_closed || change->plan_only)
		return;
	registry = registry_lock(change->monitor);
	registry_close_gate(registry);
	registry_unlock(registry);
	change->gate_closed = true;
}

/* 0: the plan stands; -EAGAIN: pairs have appeared that nobody has asked about. */
static int make_plan(struct change *change)
{
	struct registry *registry = registry_lock(change->monitor);
	int error = plan_questions(registry, &change->proposal, change->decisions);

	if (error == 0 && decisions_unanswered(change->decisions) > 0)
		error = -EAGAIN;
	if (error == 0)
		error = plan_build(registry, &change->proposal, change->decisions, &change->plan);
	if (error == 0) {
		registry_pin(registry);
		change->pinned = true;
	}
	registry_unlock(registry);
	return error;
}

static int begin_explain(struct change *change)
{
	int error;

	change->stage = STAGE_EXPLAIN;
	change->reasons = reasons_create();
	if (!change->reasons || reasons_collect(change->reasons, &change->plan) < 0)
		return -ENOMEM;
	error = reasons_ask(change->reasons, &change->proposal.overlay, server_of(change),
	                    change->monitor->posture->sids, change->deadline_ns);
	change->answered = reasons_pending(change->reasons) == 0;
	change->status = 0;
	return error;
}

/* Everything that was known is decided: plan, or ask about what has appeared since. */
static int after_decide(struct change *change)
{
	bool was_closed = change->gate_closed;
	int error;

	close_gate(change);
	error = make_plan(change);
	if (error == -EAGAIN) {
		CHECK(!was_closed || change->plan_only);
		return begin_decide(change);
	}
	return error < 0 ? error : begin_explain(change);
}

/* ---- an author that would lock itself out ---- */

static uint32_t right_used(enum change_kind kind)
{
	switch (kind) {
	case CHANGE_POLICY:
		return MONITOR_LOAD_POLICY;
	case CHANGE_BOOLEAN:
		return MONITOR_SETBOOL;
	case CHANGE_ENFORCING:
		return MONITOR_SETENFORCE;
	case CHANGE_OVERLAY:
		return MONITOR_OVERLAY;
	default:
		return 0;
	}
}

/* The rights over the monitor that the author would lose. What it has now is not known if it was dropped from
 * the cache since the verb was allowed: then it counts as having those that a way back needs. */
static uint32_t rights_lost(struct change *change)
{
	struct avc_key now_key = {change->author, change->monitor->posture->operator_sid, CLASS_MONITOR};
	uint32_t needed = right_used(change->proposal.kind);
	struct decision now = {.allowed = UINT32_MAX}, then;
	struct registry *registry;

	if (change->author == SID_NONE || !needed || !change->proposal.enforcing)
		return 0;
	registry = registry_lock(change->monitor);
	avc_lookup(change->monitor->posture->avc, now_key, &now);
	needed |= now.allowed & (MONITOR_LOAD_POLICY | MONITOR_SETENFORCE);
	registry_unlock(registry);
	if (!decisions_find(change->decisions, author_key(change), &then))
		return needed;
	return then.permissive ? 0 : needed & ~then.allowed;
}

static void conclude(struct change *change)
{
	uint32_t lost = rights_lost(change);
	char rights[WHY_BYTES / 2], why[WHY_BYTES];

	if (change->plan_only || change->force || !lost) {
		execute(change);
		return;
	}
	class_format(CLASS_MONITOR, lost, rights, sizeof(rights));
	snprintf(why, sizeof(why), "it would take monitor %s from you; --force does it all the same", rights);
	change_fail(change, -EKEYREJECTED, why);
}

/* ---- one stage after the other ---- */

/* What has come meanwhile for stages that no callback of ours ends. */
static void look(struct change *change)
{
	if (change->stage == STAGE_LOAD && change->load.done) {
		answer(change, change->load.status);
		if (change->status < 0 && change->load.why)
			change->why = strdup(change->load.why);
	} else if (change->stage == STAGE_EXPLAIN && reasons_pending(change->reasons) == 0) {
		struct server *server = server_of(change);
		int status = reasons_status(change->reasons);

		answer(change, status == 0 && (!server || !server_alive(server)) ? -ECONNRESET : status);
	}
}

static void fail_stage(struct change *change, int status)
{
	if (change->why)
		change_fail(change, status, change->why);
	else if (status == -ETIMEDOUT)
		change_fail(change, status,
		            "the security server did not answer in time; nothing has changed");
	else if (status == -ECONNRESET || status == -EPROTO || status == -ECANCELED)
		change_fail(change, status, "the security server failed; nothing has changed");
	else
		change_fail(change, status, strerror(-status));
}

static int next_stage(struct change *change)
{
	switch (change->stage) {
	case STAGE_LOAD:
		return begin_booleans(change);
	case STAGE_BOOLEANS:
		return begin_validate(change);
	case STAGE_VALIDATE:
		return begin_decide(change);
	default:
		return after_decide(change);
	}
}

void prepare_step(struct change *change)
{
	for (;;) {
		int error;

		look(change);
		if (!change->answered)
			break;
		change->answered = false;
		if (change->abandoned) {
			change_release(change);
			return;
		}
		if (change->status < 0) {
			fail_stage(change, change->status);
			return;
		}
		if (change->stage == STAGE_EXPLAIN) {
			conclude(change);
			return;
		}
		error = next_stage(change);
		if (error < 0) {
			fail_stage(change, error);
			return;
		}
	}
	rearm(change);
}

static void after_answers(void *opaque)
{
	prepare_step(opaque);
}

/* A candidate from the sources, or from the policy in force with other booleans. */
static int begin_load(struct change *change, const struct change_request *request, char why[static WHY_BYTES])
{
	const struct policy_instance *now = &change->monitor->posture->policy;
	struct policy_source image = {"the policy in force", now->image_fd, now->image_bytes};
	bool from_image = request->kind == CHANGE_BOOLEAN;
	int error = 0;

	if (from_image)
		error = settings_set(&change->settings, request->boolean, request->value);
	if (error == 0)
		error = policy_begin(change->monitor, from_image ? &image : request->sources,
		                     from_image ? 1 : request->n_sources, &change->settings, &change->load,
		                     why);
	if (error < 0)
		return error;
	change->has_candidate = true;
	change->stage = STAGE_LOAD;
	return watch_begin(&change->watch, change->monitor->loop, change->load.policy.server, after_answers,
	                   change);
}

int prepare_begin(struct change *change, const struct change_request *request, char why[static WHY_BYTES])
{
	int error;

	change->soon.fn = after_answers;
	change->soon.opaque = change;
	if (request->kind == CHANGE_POLICY || request->kind == CHANGE_BOOLEAN)
		return begin_load(change, request, why);
	if (!change->monitor->posture->policy.server) {
		snprintf(why, WHY_BYTES, "the security server is being started again; try again in a moment");
		return -EAGAIN;
	}
	error = request->kind == CHANGE_RELABEL ? begin_validate(change) : begin_decide(change);
	/* An answer that is there already is taken from the loop's next round, so that done is never called
	 * from here. */
	if (error == 0 && change->answered)
		loop_arm(change->monitor->loop, &change->soon, loop_now());
	else
		rearm(change);
	return error;
}
