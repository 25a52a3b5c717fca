/* The oracle's changes: every kind, every way to stop, planned or not, compared with the model's effect. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "tests/monitor/kind_support.h"
#include "tests/monitor/oracle_run.h"

/* A change as both are told it. */
struct drawn {
	struct change_request request;
	int status;      /* that it has to give */
	int policy;      /* of a push, or -1 */
	int cut_channel; /* index, or -1 */
	struct oracle_posture next;
	char text[2][64]; /* what the request points at */
};

static const char *const permission_names[N_ORACLE_PERMISSIONS] = {"connect", "accept",  "send",
                                                                   "recv",    "flowctl", "specify_client"};

/* ---- drawing one ---- */

static void draw_push(struct drawn *drawn)
{
	drawn->policy = (int)pick(N_ORACLE_POLICIES);
	drawn->next.policy = &oracle.policies[drawn->policy];
	if (!drawn->next.policy->has_boolean)
		drawn->next.is_set = false;
	doing("push policy %d", drawn->policy);
}

static void draw_boolean(struct drawn *drawn)
{
	drawn->request = to_boolean("b", chance(50));
	drawn->status = drawn->next.policy->has_boolean ? 0 : -ENOENT;
	drawn->next.is_set = true;
	drawn->next.value = drawn->request.value;
	doing("boolean b %d", drawn->request.value);
}

/* Permissive mode is left soon. */
static void draw_enforcing(struct drawn *drawn)
{
	drawn->request = to_enforcing(!drawn->next.enforcing || chance(30));
	drawn->next.enforcing = drawn->request.value;
	doing("enforcing %d", drawn->request.value);
}

static void put_side(char *text, int side)
{
	if (side == ORACLE_ANY)
		strcpy(text, "*");
	else if (side % 2)
		snprintf(text, 64, "t%d_t", side);
	else
		snprintf(text, 64, SUBJECT("t%d_t"), side);
}

static struct oracle_rule *find_rule(struct oracle_posture *posture, int source, int target)
{
	for (size_t i = 0; i < posture->n_rules; i++)
		if (posture->rules[i].source == source && posture->rules[i].target == target)
			return &posture->rules[i];
	return NULL;
}

static void model_revoke(struct drawn *drawn, int source, int target, uint8_t bits)
{
	struct oracle_rule *rule = find_rule(&drawn->next, source, target);

	if (!rule) {
		rule = &drawn->next.rules[drawn->next.n_rules++];
		*rule = (struct oracle_rule){source, target, 0};
	}
	rule->permissions |= bits;
}

static void model_grant(struct drawn *drawn, int source, int target, uint8_t bits)
{
	struct oracle_rule *rule = find_rule(&drawn->next, source, target);

	if (!rule || !(rule->permissions & bits)) {
		drawn->status = -ENOENT;
		return;
	}
	rule->permissions &= (uint8_t)~bits;
	if (!rule->permissions)
		*rule = drawn->next.rules[--drawn->next.n_rules];
}

static void draw_overlay(struct drawn *drawn)
{
	int source = (int)pick(N_ORACLE_TYPES + 1), target = (int)pick(N_ORACLE_TYPES + 1);
	unsigned permission = pick(N_ORACLE_PERMISSIONS + 1);
	bool all = permission == N_ORACLE_PERMISSIONS;
	const char *name = all ? "*" : permission_names[permission];
	uint8_t bits = all ? MAY_ALL : (uint8_t)(1u << permission);
	struct oracle_posture *next = &drawn->next;

	if (next->n_rules == MOST_ORACLE_RULES || (next->n_rules > 0 && chance(25))) {
		drawn->request = to_reset();
		next->n_rules = 0;
		doing("overlay reset");
		return;
	}
	if (next->n_rules > 0 && chance(45)) {
		const struct oracle_rule *rule = &next->rules[pick((unsigned)next->n_rules)];

		source = rule->source;
		target = rule->target;
	}
	put_side(drawn->text[0], source);
	put_side(drawn->text[1], target);
	if (chance(55)) {
		drawn->request = to_revoke(drawn->text[0], drawn->text[1], name);
		model_revoke(drawn, source, target, bits);
	} else {
		drawn->request = to_grant(drawn->text[0], drawn->text[1], name);
		model_grant(drawn, source, target, bits);
	}
	doing("overlay %s %s %s %s", drawn->request.operation == OVERLAY_REVOKE ? "revoke" : "grant",
	      drawn->text[0], drawn->text[1], name);
}

static void draw_relabel(struct drawn *drawn)
{
	int domain = (int)pick(N_ORACLE_DOMAINS);
	int type = chance(50) ? domain : (int)pick(N_ORACLE_TYPES);

	snprintf(drawn->text[0], sizeof(drawn->text[0]), SUBJECT("t%d_t"), type);
	drawn->request = to_relabel(name_of(domain), drawn->text[0]);
	drawn->status = drawn->next.policy->known[type] ? 0 : -EINVAL;
	drawn->next.type[domain] = type;
	doing("relabel %s t%d_t", name_of(domain), type);
}

/* Quarantine ends soon too. */
static void draw_quarantine(struct drawn *drawn)
{
	int domain = (int)pick(N_ORACLE_DOMAINS);

	for (int i = 0; i < N_ORACLE_DOMAINS; i++)
		if (drawn->next.quarantined[i] && chance(70))
			domain = i;
	if (drawn->next.quarantined[domain] || chance(20))
		drawn->request = to_release(name_of(domain));
	else
		drawn->request = to_quarantine(name_of(domain));
	drawn->next.quarantined[domain] = drawn->request.kind == CHANGE_QUARANTINE;
	doing("%s %s", change_kind_name(drawn->request.kind), name_of(domain));
}

static void draw_cut(struct drawn *drawn)
{
	if (oracle.model.n_channels == 0 || chance(3)) {
		drawn->request = to_cut(oracle.world.monitor->registry->last_channel + 1);
		drawn->status = -ENOENT;
	} else {
		drawn->cut_channel = (int)pick((unsigned)oracle.model.n_channels);
		drawn->request = to_cut(oracle.model.channels[drawn->cut_channel].number);
	}
	doing("cut channel %llu", (unsigned long long)drawn->request.channel);
}

static void draw(struct drawn *drawn)
{
	unsigned kind = pick(100);

	*drawn = (struct drawn){.policy = -1, .cut_channel = -1, .next = oracle.model.posture};
	if (kind < 12)
		draw_push(drawn);
	else if (kind < 20)
		draw_boolean(drawn);
	else if (kind < 28)
		draw_enforcing(drawn);
	else if (kind < 54)
		draw_overlay(drawn);
	else if (kind < 70)
		draw_relabel(drawn);
	else if (kind < 82)
		draw_quarantine(drawn);
	else
		draw_cut(drawn);
	drawn->request.stop = (enum stop_mode)pick(3);
}

/* ---- carrying it out ---- */

static json_t *ask(struct drawn *drawn, bool plan_only)
{
	json_t *report;
	char *why = NULL;
	int status;

	if (drawn->policy >= 0) {
		policy_files files = oracle.files[drawn->policy];

		report = stage_push(oracle.world.stage, files, 2, drawn->request.stop, plan_only, &status,
		                    &why);
	} else {
		drawn->request.plan_only = plan_only;
		status = change_try(&oracle.world, drawn->request, &report, &why);
	}
	cr_assert(status == drawn->status, "seed %llu, operation %llu, %s: %s: %s",
	          (unsigned long long)oracle.seed, (unsigned long long)oracle.n_operations, oracle.doing,
	          strerror(-status), why ? why : "?");
	free(why);
	return report;
}

static void compare_report(const json_t *report, const struct oracle_effect *effect)
{
	SAME(report_number(report, "flows.examined"), effect->n_examined, "the number of flows examined");
	SAME(report_number(report, "flows.cut"), effect->n_cut, "the number of flows cut");
	SAME(report_number(report, "flows.kept"), effect->n_examined - effect->n_cut,
	     "the number of flows kept");
	SAME(report_number(report, "flows.allowed"), effect->n_allowed, "the number of flows allowed");
	SAME(json_array_size(json_object_get(report, "kept_with_flowctl")), effect->n_marked,
	     "the number of flows kept with flow control");
	SAME(json_array_size(json_object_get(report, "cuts")), effect->n_cut, "the number of cuts listed");
	SAME(report_number(report, "previous"), oracle.model.policy_number, "the number before");
}

/* Connects that waited for accept and lost a flow return, and their end is closed. */
static void finish_cut_connects(const struct oracle_effect *effect)
{
	bool cut[MOST_ORACLE_CHANNELS][2];

	memcpy(cut, effect->cut, sizeof(cut));
	for (size_t i = oracle.model.n_channels; i-- > 0;) {
		struct oracle_channel *channel = &oracle.model.channels[i];

		if (!channel->blocked || !(cut[i][0] || cut[i][1]))
			continue;
		SAME(finish(channel->domain[0]), CALL_REVOKED, "a connect that is cut");
		channel->blocked = false;
		oracle_close(&oracle.model, (int)i, 0);
	}
}

bool do_change(void)
{
	struct oracle_effect effect;
	struct drawn drawn;
	json_t *report;

	draw(&drawn);
	effect = oracle_plan(&oracle.model, &drawn.next, drawn.cut_channel);
	if (drawn.status == 0 && chance(25)) {
		report = ask(&drawn, true);
		compare_report(report, &effect);
		SAME(report_number(report, "policy_number"), oracle.model.policy_number,
		     "the number of a plan");
		json_decref(report);
	}
	report = ask(&drawn, false);
	if (drawn.status != 0) {
		cr_assert_null(report);
		return true;
	}
	compare_report(report, &effect);
	json_decref(report);
	oracle_change(&oracle.model, &drawn.next, &effect);
	oracle.n_changes++;
	oracle.n_cut += effect.n_cut;
	finish_cut_connects(&effect);
	oracle_sweep(&oracle.model);
	return true;
}
