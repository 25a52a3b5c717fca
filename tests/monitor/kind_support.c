#include "tests/monitor/kind_support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest/abi/call.h"

/* ---- policies ---- */

const char *file_of(const char *text)
{
	int fd = memfd_create("text", MFD_CLOEXEC);
	char *path = NULL;

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	cr_assert_gt(asprintf(&path, "/proc/self/fd/%d", fd), 0);
	return path;
}

/* For as long as the process lives; the list is for the leak checker. */
struct made_policy {
	const char *files[4];
	struct made_policy *next;
};

policy_files policy_of(const char *rules)
{
	static struct made_policy *all;
	struct made_policy *policy = calloc(1, sizeof(*policy));

	cr_assert_not_null(policy);
	policy->files[0] = "policy/base.cil";
	policy->files[1] = "tests/cil/types.cil";
	policy->files[2] = file_of(rules);
	policy->next = all;
	all = policy;
	return policy->files;
}

/* ---- requests ---- */

struct change_request to_boolean(const char *name, bool value)
{
	return (struct change_request){.kind = CHANGE_BOOLEAN, .boolean = name, .value = value};
}

struct change_request to_enforcing(bool value)
{
	return (struct change_request){.kind = CHANGE_ENFORCING, .value = value};
}

static struct change_request to_overlay(enum overlay_operation operation, const char *source,
                                        const char *target, const char *permission)
{
	struct change_request request = {.kind = CHANGE_OVERLAY, .operation = operation};
	char why[WHY_BYTES];

	cr_assert_eq(overlay_parse(source, target, "channel", permission, &request.rule, why), 0, "%s", why);
	return request;
}

struct change_request to_revoke(const char *source, const char *target, const char *permission)
{
	return to_overlay(OVERLAY_REVOKE, source, target, permission);
}

struct change_request to_grant(const char *source, const char *target, const char *permission)
{
	return to_overlay(OVERLAY_GRANT, source, target, permission);
}

struct change_request to_reset(void)
{
	return (struct change_request){.kind = CHANGE_OVERLAY, .operation = OVERLAY_RESET};
}

struct change_request to_relabel(const char *domain, const char *context)
{
	return (struct change_request){.kind = CHANGE_RELABEL, .domain = domain, .context = context};
}

struct change_request to_quarantine(const char *domain)
{
	return (struct change_request){.kind = CHANGE_QUARANTINE, .domain = domain};
}

struct change_request to_release(const char *domain)
{
	return (struct change_request){.kind = CHANGE_RELEASE, .domain = domain};
}

struct change_request to_cut(uint64_t channel)
{
	return (struct change_request){.kind = CHANGE_CUT, .channel = channel};
}

struct change_request push_request(policy_files files, struct policy_source *sources)
{
	struct change_request request = {.kind = CHANGE_POLICY, .sources = sources};
	char why[WHY_BYTES];

	for (; files[request.n_sources]; request.n_sources++) {
		struct policy_source *source = &sources[request.n_sources];

		source->name = files[request.n_sources];
		source->fd = file_seal(source->name, MAX_POLICY_BYTES, &source->bytes, why);
		cr_assert_geq(source->fd, 0, "%s", why);
	}
	return request;
}

/* ---- changes ---- */

int change_try(struct world *world, struct change_request request, json_t **report, char **why)
{
	int status;

	*report = stage_change(world->stage, &request, &status, why);
	return status;
}

json_t *change_do(struct world *world, struct change_request request)
{
	json_t *report;
	char *why;
	int status = change_try(world, request, &report, &why);

	cr_assert_eq(status, 0, "%s: %s: %s", change_kind_name(request.kind), strerror(-status),
	             why ? why : "?");
	cr_assert_not_null(report);
	free(why);
	return report;
}

static bool same(const json_t *a, const json_t *b, const char *key)
{
	return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* What was found in flight can only be known at the cut. */
static void forget_losses(json_t *report)
{
	size_t i;
	json_t *cut;

	json_array_foreach (json_object_get(report, "cuts"), i, cut) {
		json_object_del(cut, "discarded_messages");
		json_object_del(cut, "discarded_bytes");
		json_object_del(cut, "cancelled_calls");
		json_object_del(cut, "handed_over_unread");
	}
}

static void compare(json_t *plan, json_t *report)
{
	static const char *const keys[] = {"change",   "previous", "flows",  "cuts",
	                                   "stop",     "allowed",  "killed", "kept_with_flowctl",
	                                   "enforcing"};
	json_t *copy = json_deep_copy(report);

	forget_losses(plan);
	forget_losses(copy);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		cr_assert(same(plan, copy, keys[i]), "the plan foretells other %s:\n%s\n%s", keys[i],
		          json_dumps(plan, JSON_INDENT(1)), json_dumps(copy, JSON_INDENT(1)));
	cr_assert(json_is_true(json_object_get(plan, "planned")));
	cr_assert_null(json_object_get(report, "planned"));
	cr_assert_eq(report_number(plan, "policy_number"), report_number(report, "previous"));
	cr_assert_eq(report_number(report, "policy_number"), report_number(report, "previous") + 1);
	json_decref(copy);
	json_decref(plan);
}

static void assert_in_force(struct world *world, const json_t *report, json_int_t n_cut)
{
	uint64_t number = (uint64_t)report_number(report, "policy_number");

	cr_assert_eq(report_number(report, "flows.cut"), n_cut, "%s", json_dumps(report, JSON_INDENT(1)));
	cr_assert_eq(report_number(report, "flows.cut") + report_number(report, "flows.kept"),
	             report_number(report, "flows.examined"));
	cr_assert_eq(world->monitor->posture->policy_number, number);
	cr_assert_eq(avc_policy_number(world->monitor->posture->avc), number);
	for (uint32_t d = 0; d < world_guest(world)->n_domains; d++)
		cr_assert_eq(machine_domain_page(world_guest(world)->machine, d)->policy_number, number);
}

json_t *change_planned(struct world *world, struct change_request request, json_int_t n_cut)
{
	char *before = world_snapshot(world, SNAPSHOT_QUIET);
	json_t *plan, *report;

	request.plan_only = true;
	plan = change_do(world, request);
	snapshot_assert_equal(before, world_snapshot(world, SNAPSHOT_QUIET), "a plan");
	request.plan_only = false;
	report = change_do(world, request);
	compare(plan, report);
	assert_in_force(world, report, n_cut);
	return report;
}

void change_quietly(struct world *world, struct change_request request, json_int_t n_cut)
{
	json_decref(change_planned(world, request, n_cut));
}

json_t *push_planned(struct world *world, policy_files policy, enum stop_mode stop, json_int_t n_cut)
{
	char *before = world_snapshot(world, SNAPSHOT_QUIET);
	json_t *plan = world_plan(world, policy), *report;

	snapshot_assert_equal(before, world_snapshot(world, SNAPSHOT_QUIET), "the plan of a push");
	report = world_push(world, policy, stop);
	json_object_set_new(plan, "stop", json_string(stop_mode_name(stop)));
	compare(plan, report);
	assert_in_force(world, report, n_cut);
	return report;
}

void change_refused(struct world *world, struct change_request request, int status, const char *text)
{
	char *before = world_snapshot(world, SNAPSHOT_QUIET), *why;
	json_t *report;
	int got = change_try(world, request, &report, &why);

	cr_assert_eq(got, status, "%s: %s, not %s: %s", change_kind_name(request.kind), strerror(-got),
	             strerror(-status), why ? why : "?");
	cr_assert_null(report);
	cr_assert(why && strstr(why, text), "\"%s\" lacks \"%s\"", why ? why : "", text);
	free(why);
	snapshot_assert_equal(before, world_snapshot(world, SNAPSHOT_QUIET), "a refused change");
}

/* ---- channels ---- */

int64_t connect_result(struct world *world, const char *client, const char *service)
{
	return actor_do(world, client, (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, service});
}

const char *flows_of(const struct pair *pair)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s %s", flow_state_name(pair->channel->flow[SIDE_CLIENT].state),
	         flow_state_name(pair->channel->flow[SIDE_SERVER].state));
	return text;
}

void assert_flows(const struct pair *pair, const char *states)
{
	cr_assert_str_eq(flows_of(pair), states, "%s to %s", pair->client, pair->server);
}

void assert_revoked(struct world *world, const struct pair *pair)
{
	cr_assert_eq(pair_send(world, pair, true, 1, 1), CALL_REVOKED);
	cr_assert_eq(pair_send(world, pair, false, 1, 1), CALL_REVOKED);
	cr_assert_eq(pair_receive(world, pair, true, 1), CALL_REVOKED);
	cr_assert_eq(pair_receive(world, pair, false, 1), CALL_REVOKED);
	cr_assert(inbox_is_empty(pair->channel, SIDE_CLIENT) && inbox_is_empty(pair->channel, SIDE_SERVER));
}

void assert_flowing(struct world *world, const struct pair *pair)
{
	static uint64_t counter = 1000;

	for (int from_client = 0; from_client < 2; from_client++) {
		counter++;
		cr_assert_eq(pair_send(world, pair, from_client, counter, 1), CALL_OK);
		cr_assert_eq(pair_receive(world, pair, !from_client, 1), 8);
		cr_assert_eq(world_mailbox(world, from_client ? pair->server : pair->client)->value[2],
		             counter);
	}
}
