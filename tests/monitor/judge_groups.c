/*
 * Channels are judged in groups: whatever the registry, the policy and the change, each gets what it gets
 * when it is judged by itself, and the plan is the same. Against random registries and a real security
 * server; no guest.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/bench/text_file.h"
#include "monitor/channel.h"
#include "monitor/group.h"
#include "monitor/loop.h"
#include "monitor/plan.h"
#include "monitor/posture.h"
#include "policy/launcher.h"

#define N_GUESTS 2u
#define N_DOMAINS 5u
#define N_SERVICES 2u
#define N_TYPES 6u
#define N_SLOTS 64u
#define N_CHANNELS 120u
#define N_WORLDS 12u
#define N_CHANGES 30u
#define PATIENCE_NS 20000000000ull

struct scene {
	struct monitor monitor;
	struct posture posture;
	struct guest guest[N_GUESTS];
	struct domain domain[N_GUESTS][N_DOMAINS];
	struct slot slots[N_GUESTS][N_DOMAINS][N_SLOTS];
	struct registry *registry;
	struct server *server;
};

static uint32_t below(uint32_t n)
{
	return (uint32_t)random() % n;
}

/* ---- a policy ---- */

static void put_rules(FILE *to)
{
	static const char *const permissions[] = {"connect", "accept", "send", "recv", "flowctl"};

	for (unsigned type = 0; type < N_TYPES; type++)
		fprintf(to, "(type t%u)(call a_domain (t%u))\n", type, type);
	for (unsigned from = 0; from < N_TYPES; from++)
		for (unsigned target = 0; target < N_TYPES; target++) {
			fprintf(to, "(allow t%u t%u (channel (specify_client)))\n", from, target);
			for (unsigned i = 0; i < 5; i++)
				if (below(12) != 0)
					fprintf(to, "(allow t%u t%u (channel (%s)))\n", from, target,
					        permissions[i]);
			if (below(8) == 0)
				fprintf(to, "(typemember t%u t%u channel t%u)\n", from, target,
				        below(N_TYPES));
		}
	fprintf(to, "(typepermissive t%u)\n", below(N_TYPES));
}

static void on_loaded(void *opaque, int status, const struct server_policy *policy, const char *why)
{
	cr_assert_eq(status, 0, "%s", why);
	close(policy->image_fd);
	*(bool *)opaque = true;
}

static struct server *serve(struct launcher *launcher)
{
	struct policy_source sources[N_TEXT_SOURCES];
	bool loaded = false;
	char *text = NULL, why[WHY_BYTES];
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);
	struct server *server;
	int socket_fd, pidfd;

	put_rules(to);
	fclose(to);
	cr_assert_eq(text_sources_open(text, sources), 0);
	cr_assert_eq(launcher_spawn(launcher, &socket_fd, &pidfd, why), 0, "%s", why);
	server = server_open(socket_fd, pidfd);
	cr_assert_eq(server_load(server, sources, N_TEXT_SOURCES, NULL, 0, loop_now() + PATIENCE_NS,
	                         on_loaded, &loaded),
	             0);
	server_wait(server);
	cr_assert(loaded);
	text_sources_close(sources);
	free(text);
	return server;
}

static void on_decided(void *opaque, int status, struct decisions *decisions)
{
	(void)decisions;
	*(int *)opaque = status;
}

static void decide(struct scene *scene, struct decisions *decisions)
{
	int status = -ETIMEDOUT;

	if (decisions_unanswered(decisions) == 0)
		return;
	cr_assert_eq(decisions_ask(decisions, scene->server, scene->posture.sids, 2, loop_now() + PATIENCE_NS,
	                           on_decided, &status),
	             0);
	server_wait(scene->server);
	cr_assert_eq(status, 0);
}

/* ---- a registry ---- */

static policy_sid any_sid(struct scene *scene)
{
	return 1 + below(sid_count(scene->posture.sids));
}

static void make_domains(struct scene *scene, uint32_t g)
{
	struct guest *guest = &scene->guest[g];

	*guest = (struct guest){
		.monitor = &scene->monitor, .domains = scene->domain[g], .n_domains = N_DOMAINS};
	cr_assert_eq(registry_add(scene->registry, guest), 0);
	for (uint32_t d = 0; d < N_DOMAINS; d++) {
		struct domain *domain = &scene->domain[g][d];

		domain->guest = guest;
		domain->first_slot = d * N_SLOTS;
		domain->n_slots = N_SLOTS;
		domain->n_services = N_SERVICES;
		domain->slots = scene->slots[g][d];
		domain->sid = any_sid(scene);
		domain->quarantined = below(10) == 0;
		for (uint32_t s = 0; s < N_SERVICES; s++) {
			bool follows = below(2) == 0;

			domain->services[s] = (struct service){
				.domain = domain,
				.sid = follows ? domain->sid : any_sid(scene),
				.follows_domain = follows,
				.n_instances = 1 + below(2),
			};
		}
	}
}

static struct domain *any_domain(struct scene *scene)
{
	return &scene->domain[below(N_GUESTS)][below(N_DOMAINS)];
}

/* One that the domain has accepted, so that it can speak for its client; NULL: none. */
static struct channel *any_accepted(struct scene *scene, const struct domain *domain)
{
	for (struct channel *channel = scene->registry->last; channel; channel = channel->previous)
		if (channel->end[SIDE_SERVER].domain == domain && below(3) == 0)
			return channel;
	return NULL;
}

static void take_end(struct channel *channel, enum channel_side side, struct domain *domain)
{
	uint32_t slot = domain->n_used++;

	domain->slots[slot].channel = channel;
	domain->slots[slot].side = (uint8_t)side;
	channel->end[side] =
		(struct endpoint){.domain = domain, .slot = domain->first_slot + slot, .owns_slot = true};
}

static void put_channel(struct scene *scene)
{
	static const enum flow_state states[] = {FLOW_OPEN, FLOW_OPEN,   FLOW_OPEN,  FLOW_PENDING,
	                                         FLOW_CUT,  FLOW_DENIED, FLOW_CLOSED};
	struct registry *registry = scene->registry;
	struct domain *client = any_domain(scene), *server = any_domain(scene);
	struct channel *channel, *parent = below(3) == 0 ? any_accepted(scene, client) : NULL;

	if (client->n_used + 1 >= N_SLOTS || server->n_used + 1 >= N_SLOTS)
		return;
	channel = calloc(1, sizeof(*channel));
	channel->number = ++registry->last_channel;
	channel->service = &server->services[below(N_SERVICES)];
	channel->on_behalf = parent != NULL;
	channel->client_sid = parent ? parent->client_sid : client->sid;
	channel->parent = parent && below(4) != 0 ? parent : NULL; /* or it has ended in order */
	if (channel->parent)
		parent->n_children++;
	channel->group = parent ? NULL : group_join(registry, client, channel->service);
	take_end(channel, SIDE_CLIENT, client);
	take_end(channel, SIDE_SERVER, server);
	for (unsigned side = 0; side < N_SIDES; side++) {
		channel->flow[side].state = states[below(7)];
		channel->flow[side].flowctl = below(3) != 0;
	}
	channel->previous = registry->last;
	*(registry->last ? &registry->last->next : &registry->first) = channel;
	registry->last = channel;
	registry->n_channels++;
	registry->n_derived += !channel->group;
	for (unsigned side = 0; side < N_SIDES; side++)
		channel->end[side].domain->guest->n_refs++;
}

static void open_scene(struct scene *scene, struct launcher *launcher)
{
	memset(scene, 0, sizeof(*scene));
	scene->server = serve(launcher);
	scene->registry = registry_create();
	scene->posture.sids = sid_table_create();
	scene->monitor.posture = &scene->posture;
	scene->monitor.registry = scene->registry;
	for (unsigned type = 0; type < N_TYPES; type++)
		for (unsigned level = 0; level < 2; level++) {
			char context[MAX_CONTEXT_BYTES];
			policy_sid sid;

			snprintf(context, sizeof(context), "system_u:system_r:t%u:s%u", type, level);
			cr_assert_eq(sid_intern(scene->posture.sids, context, &sid), 0);
		}
	registry_lock(&scene->monitor);
	for (uint32_t g = 0; g < N_GUESTS; g++)
		make_domains(scene, g);
	for (uint32_t i = 0; i < N_CHANNELS; i++)
		put_channel(scene);
}

static void close_scene(struct scene *scene)
{
	registry_unlock(scene->registry);
	registry_destroy(scene->registry);
	sid_table_destroy(scene->posture.sids);
	server_close(scene->server);
}

/* ---- both ways ---- */

/* Takes all channels out of their groups, or puts them back. */
static void set_apart(struct registry *registry, struct group **groups, bool apart)
{
	uint32_t i = 0;

	for (struct channel *channel = registry->first; channel; channel = channel->next, i++) {
		if (apart)
			groups[i] = channel->group;
		channel->group = apart ? NULL : groups[i];
	}
}

static struct proposal any_proposal(struct scene *scene)
{
	return (struct proposal){
		.kind = (enum change_kind)below(N_CHANGE_KINDS),
		.enforcing = below(6) != 0,
		.domain = any_domain(scene),
		.sid = any_sid(scene),
		.channel = 1 + below((uint32_t)scene->registry->last_channel),
	};
}

static bool is_need(const struct need *a, const struct need *b)
{
	return a->source == b->source && a->target == b->target && a->permission == b->permission &&
	       a->flows == b->flows && a->flowctl == b->flowctl;
}

static bool is_flow(const struct plan_flow *a, const struct plan_flow *b)
{
	return a->channel == b->channel && a->side == b->side && a->cause == b->cause &&
	       (a->cause != CAUSE_DECISION || is_need(&a->missing, &b->missing));
}

static void assert_flows(const struct plan_flow *a, size_t n_a, const struct plan_flow *b, size_t n_b,
                         const char *what)
{
	cr_assert_eq(n_a, n_b, "%s: %zu in groups, %zu alone", what, n_a, n_b);
	for (size_t i = 0; i < n_a; i++)
		cr_assert(is_flow(&a[i], &b[i]), "%s %zu", what, i);
}

static void assert_plans(const struct plan *grouped, const struct plan *alone)
{
	assert_flows(grouped->cuts, grouped->n_cuts, alone->cuts, alone->n_cuts, "cut");
	assert_flows(grouped->allowed, grouped->n_allowed, alone->allowed, alone->n_allowed, "allowed");
	assert_flows(grouped->marked, grouped->n_marked, alone->marked, alone->n_marked, "marked");
	cr_assert_eq(grouped->guests, alone->guests);
	cr_assert_eq(grouped->n_examined, alone->n_examined);
	cr_assert_eq(grouped->n_kept, alone->n_kept);
	cr_assert_eq(grouped->n_wakes, alone->n_wakes);
	cr_assert_eq(grouped->n_ends, alone->n_ends);
	for (size_t i = 0; i < grouped->n_ends; i++) {
		const struct plan_end *end = &grouped->ends[i], *before = end - 1;
		const struct endpoint *at = &end->channel->end[end->side];

		cr_assert(end->channel == alone->ends[i].channel && end->side == alone->ends[i].side);
		cr_assert(i == 0 || before->channel->end[before->side].domain->guest != at->domain->guest ||
		                  before->channel->end[before->side].slot < at->slot,
		          "ends of a guest are in the order of their slots");
	}
}

static bool is_cut(const struct plan *plan, const struct channel *channel, unsigned side)
{
	for (size_t i = 0; i < plan->n_cuts; i++)
		if (plan->cuts[i].channel == channel && plan->cuts[i].side == side)
			return true;
	return false;
}

/* I1: what no rule allows, or what a parent loses, is cut, and both its ends are severed; nothing else is. */
static void assert_complete(const struct registry *registry, const struct plan *plan)
{
	size_t n_channels = 0;

	for (const struct channel *channel = registry->first; channel; channel = channel->next) {
		n_channels += is_cut(plan, channel, 0) || is_cut(plan, channel, 1);
		for (unsigned side = 0; side < N_SIDES && channel->parent; side++)
			if (is_cut(plan, channel->parent, side))
				cr_assert(!flow_live(&channel->flow[side]) || is_cut(plan, channel, side));
	}
	cr_assert_eq(plan->n_ends, 2 * n_channels);
}

static size_t compare(struct scene *scene)
{
	struct proposal proposal = any_proposal(scene);
	struct decisions *questions[2] = {decisions_create(), decisions_create()};
	struct group *groups[N_CHANNELS];
	struct plan plan[2];
	size_t n_cuts;

	for (unsigned apart = 0; apart < 2; apart++) {
		uint32_t n_derived = scene->registry->n_derived;

		if (apart) {
			set_apart(scene->registry, groups, true);
			scene->registry->n_derived = scene->registry->n_channels;
		}
		cr_assert_eq(plan_questions(scene->registry, &proposal, questions[apart]), 0);
		decide(scene, questions[apart]);
		cr_assert_eq(plan_build(scene->registry, &proposal, questions[0], &plan[apart]), 0);
		if (apart)
			set_apart(scene->registry, groups, false);
		scene->registry->n_derived = n_derived;
	}
	cr_assert_eq(decisions_count(questions[0]), decisions_count(questions[1]), "the same questions");
	assert_plans(&plan[0], &plan[1]);
	assert_complete(scene->registry, &plan[0]);
	n_cuts = plan[0].n_cuts;
	for (unsigned i = 0; i < 2; i++) {
		plan_free(&plan[i]);
		decisions_destroy(questions[i]);
	}
	return n_cuts;
}

Test(judge, groups_get_what_each_channel_gets_alone)
{
	static struct scene scene;
	struct launcher *launcher;
	char why[WHY_BYTES];
	size_t n_cuts = 0;

	cr_assert_eq(launcher_start(&launcher, why), 0, "%s", why);
	for (unsigned seed = 1; seed <= N_WORLDS; seed++) {
		srandom(seed);
		open_scene(&scene, launcher);
		for (unsigned i = 0; i < N_CHANGES; i++)
			n_cuts += compare(&scene);
		close_scene(&scene);
	}
	cr_assert_gt(n_cuts, 1000);
	launcher_stop(launcher);
}

/* A decision that is missing is never taken for one that allows. */
Test(judge, nothing_is_planned_without_all_answers)
{
	static struct scene scene;
	struct proposal proposal = {.kind = CHANGE_POLICY, .enforcing = true};
	struct decisions *decisions = decisions_create();
	struct launcher *launcher;
	struct plan plan;
	char why[WHY_BYTES];

	cr_assert_eq(launcher_start(&launcher, why), 0, "%s", why);
	open_scene(&scene, launcher);
	cr_assert_eq(plan_build(scene.registry, &proposal, decisions, &plan), -EAGAIN);
	cr_assert_null(plan.cuts);
	cr_assert_eq(plan_questions(scene.registry, &proposal, decisions), 0);
	cr_assert_eq(plan_build(scene.registry, &proposal, decisions, &plan), -EAGAIN);
	decide(&scene, decisions);
	cr_assert_eq(plan_build(scene.registry, &proposal, decisions, &plan), 0);
	plan_free(&plan);
	decisions_destroy(decisions);
	close_scene(&scene);
	launcher_stop(launcher);
}
