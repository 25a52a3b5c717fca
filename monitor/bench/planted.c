#include "monitor/bench/planted.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "guest/abi/record.h"
#include "monitor/bench/dead_end.h"
#include "monitor/channel.h"
#include "monitor/loop.h"
#include "monitor/posture.h"
#include "vmm/check.h"
#include "vmm/stop.h"

#define STOP_PATIENCE_NS 10000000000ull
#define MOST_CLIENTS 32u

static const char *const names[N_LAYOUTS] = {"adjacent", "mapping-per-slot", "scattered", "interleaved"};

const char *layout_name(enum planted_layout layout)
{
	return names[layout];
}

int layout_find(const char *name)
{
	for (int i = 0; i < N_LAYOUTS; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

/* Every second channel is at another service, and stays. */
static bool keeps(const struct planted *planted)
{
	return planted->layout == LAYOUT_SCATTERED || planted->layout == LAYOUT_INTERLEAVED;
}

static uint32_t n_kept(const struct planted *planted)
{
	return keeps(planted) ? planted->n : 0;
}

static uint32_t n_all(const struct planted *planted)
{
	return planted->n + n_kept(planted);
}

/* ---- who there is: clients come first, then servers ---- */

static uint32_t client_of(const struct planted *planted, uint32_t channel)
{
	return channel % planted->n_pairs % planted->n_clients;
}

static uint32_t server_of(const struct planted *planted, uint32_t channel)
{
	return planted->n_clients + channel % planted->n_pairs / planted->n_clients;
}

static uint32_t n_slots(const struct planted *planted, uint32_t domain)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_all(planted); i++)
		n += client_of(planted, i) == domain || server_of(planted, i) == domain;
	return n ? n : 1;
}

static void put_domains(FILE *to, const struct planted *planted)
{
	for (uint32_t d = 0; d < planted->n_clients + planted->n_servers; d++) {
		fprintf(to,
		        "%s\n  { name = \"d%u\"; program = \"hold\"; args = (\"touch\"); vcpu = %u;\n"
		        "    context = \"system_u:system_r:bench%u_t:s0\"; slots = %u;",
		        d ? "," : "", d, d % planted->n_vcpus, d, n_slots(planted, d));
		if (d >= planted->n_clients)
			fprintf(to,
			        " offers = ({ name = \"cut%u\"; context = \"system_u:system_r:cut%u_t:s0\"; "
			        "}, "
			        "{ name = \"kept%u\"; context = \"system_u:system_r:kept_t:s0\"; });",
			        d, d, d);
		fputs(" }", to);
	}
	for (uint32_t v = 0; planted->load && v < planted->n_vcpus; v++)
		fprintf(to,
		        ",\n  { name = \"" SCENE_LOAD
		        "%u\"; program = \"hold\"; args = (\"%s\"); vcpu = %u;\n"
		        "    context = \"system_u:system_r:load_t:s0\"; }",
		        v, planted->load, v);
}

static char *manifest_text(const struct planted *planted)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	if (planted->bystander)
		fputs("guests = ({\n", to);
	fprintf(to, "name = \"bench\";\nvcpus = %u;\ndomains = (", planted->n_vcpus);
	put_domains(to, planted);
	fputs("\n);\n", to);
	if (planted->bystander)
		fputs("}, {\nname = \"bystander\";\ndomains = (\n"
		      "  { name = \"" SCENE_LOAD "\"; program = \"gaps\";\n"
		      "    context = \"system_u:system_r:load_t:s0\"; }\n);\n});\n",
		      to);
	return fclose(to) == 0 ? text : NULL;
}

static void put_pair(FILE *to, uint32_t client, uint32_t server, int allow)
{
	fprintf(to, "(call can_connect (bench%u_t bench%u_t))\n", client, server);
	fprintf(to, "(allow bench%u_t kept_t (channel (connect)))\n", client);
	if (allow)
		fprintf(to, "(allow bench%u_t cut%u_t (channel (connect)))\n", client, server);
}

static char *policy_text(const struct planted *planted, int allow)
{
	uint32_t n_domains = planted->n_clients + planted->n_servers;
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	fputs("(type kept_t)\n(call a_domain (kept_t))\n(type load_t)\n(call a_domain (load_t))\n", to);
	for (uint32_t d = 0; d < n_domains; d++)
		fprintf(to, "(type bench%u_t)\n(call a_domain (bench%u_t))\n", d, d);
	for (uint32_t d = planted->n_clients; d < n_domains; d++)
		fprintf(to, "(type cut%u_t)\n(call a_domain (cut%u_t))\n", d, d);
	for (uint32_t pair = 0; pair < planted->n_pairs; pair++)
		put_pair(to, client_of(planted, pair), server_of(planted, pair), allow);
	return fclose(to) == 0 ? text : NULL;
}

struct guest *planted_bystander(struct planted *planted)
{
	const struct registry *registry = scene_stage(planted->scene)->monitor->registry;

	CHECK(planted->bystander && registry->n_guests == 2);
	return registry->guests[1];
}

/* ---- putting channels there ---- */

static int stand(struct planted *planted, char why[static WHY_BYTES])
{
	struct machine *machine = scene_guest(planted->scene)->machine;
	struct stop_report report;

	return stop_machines(&machine, 1, loop_now() + STOP_PATIENCE_NS, &report, NULL, why);
}

static int go_on(struct planted *planted, char why[static WHY_BYTES])
{
	struct machine *machine = scene_guest(planted->scene)->machine;

	return resume_machines(&machine, 1, loop_now() + STOP_PATIENCE_NS, why);
}

/* Where the monitor places them, or one slot after the other, in the same order at both ends or the opposite.
 */
static int plant(struct planted *planted, struct registry *registry, uint32_t i)
{
	static const struct verdict open = {.open = {true, true}, .flowctl = {true, true}};
	struct guest *guest = scene_guest(planted->scene);
	struct domain *client = &guest->domains[client_of(planted, i)],
		      *server = &guest->domains[server_of(planted, i)];
	bool kept = keeps(planted) && i % 2 == 1;
	struct channel *channel;
	int result;

	if (planted->layout == LAYOUT_SCATTERED || planted->layout == LAYOUT_MAPPING_PER_SLOT)
		client->n_extents = server->n_extents = 0;
	if (planted->layout == LAYOUT_MAPPING_PER_SLOT)
		server->lowest_free = server->n_slots - 1 - i;
	result = channel_create(registry, client, &server->services[kept], NULL, &open,
	                        guest->monitor->posture->policy_number, &channel);
	if (result == CALL_OK && channel_accept(registry, server) != channel)
		result = CALL_BUSY;
	return result == CALL_OK ? 0 : -EPROTO;
}

static bool all_blocked(struct scene *scene, void *opaque)
{
	(void)opaque;
	return scene_all_blocked(scene);
}

struct sight {
	const struct planted *planted;
	uint64_t shown; /* slots in which domains must see something, over all domains */
};

/* The latest line of each domain. */
static bool sees(struct scene *scene, void *opaque)
{
	const struct sight *sight = opaque;
	unsigned long long shown[MAX_DOMAINS] = {0}, all = 0, at;
	uint32_t n_domains = sight->planted->n_clients + sight->planted->n_servers;
	struct scene_line line;
	unsigned domain;

	for (size_t i = 0; scene_line(scene, i, &line); i++)
		if (sscanf(line.domain, "d%u", &domain) == 1 && domain < n_domains &&
		    sscanf(line.text, "shown=%llu", &at) == 1)
			shown[domain] = at;
	for (uint32_t d = 0; d < n_domains; d++)
		all += shown[d];
	if (!scene_all_blocked(scene) || scene_n_lines(scene) < n_domains)
		return false;
	if (all == sight->shown)
		return true;
	/* A domain looked before its peer had written. What is taken away is never seen again, so looking
	 * once more hides nothing. */
	scene_clear_lines(scene);
	scene_wake_all(scene);
	return false;
}

/* Every domain looks once more. */
static int look(struct planted *planted, uint64_t shown, const char *what, char why[static WHY_BYTES])
{
	struct sight sight = {planted, shown};
	int error = scene_until(planted->scene, all_blocked, NULL, "every domain sleeps", why);

	if (error < 0)
		return error;
	scene_clear_lines(planted->scene);
	scene_wake_all(planted->scene);
	return scene_until(planted->scene, sees, &sight, what, why);
}

int planted_fill(struct planted *planted, char why[static WHY_BYTES])
{
	int error = stand(planted, why);

	for (uint32_t i = 0; i < n_all(planted) && error == 0; i++) {
		struct registry *registry = registry_lock(scene_stage(planted->scene)->monitor);

		error = plant(planted, registry, i);
		registry_unlock(registry);
		if (error < 0)
			snprintf(why, WHY_BYTES, "channel %u of %u could not be opened", i + 1,
			         n_all(planted));
	}
	if (error == 0)
		error = go_on(planted, why);
	if (error == 0)
		error = look(planted, 2ull * n_all(planted), "every domain sees its peers", why);
	return error;
}

int planted_check(struct planted *planted, char why[static WHY_BYTES])
{
	struct registry *registry = registry_lock(scene_stage(planted->scene)->monitor);
	uint32_t n = registry->n_channels, n_cut = 0;
	const char *fault = n == n_all(planted) ? NULL : "a channel is missing";

	for (struct channel *channel = registry->first; channel && !fault; channel = channel->next) {
		if (strncmp(channel->service->name, "kept", 4) == 0) {
			fault = flow_live(&channel->flow[0]) && flow_live(&channel->flow[1])
			                ? NULL
			                : "a channel that policy allows was cut";
			continue;
		}
		n_cut++;
		for (unsigned side = 0; side < N_SIDES && !fault; side++)
			fault = dead_end_fault(channel, (enum channel_side)side);
	}
	registry_unlock(registry);
	if (!fault && n_cut != planted->n)
		fault = "a channel is missing";
	if (fault) {
		snprintf(why, WHY_BYTES, "%s", fault);
		return -EPROTO;
	}
	return look(planted, 2ull * n_kept(planted), "no domain sees what was taken away", why);
}

int planted_empty(struct planted *planted, char why[static WHY_BYTES])
{
	int error = stand(planted, why);
	struct registry *registry;

	if (error < 0)
		return error;
	registry = registry_lock(scene_stage(planted->scene)->monitor);
	while (registry->first) {
		struct channel *channel = registry->first;

		channel_end(registry, channel, SIDE_CLIENT, END_CLOSED);
		channel_end(registry, channel, SIDE_SERVER, END_CLOSED);
	}
	registry_unlock(registry);
	return go_on(planted, why);
}

/* ---- begin and end ---- */

int planted_open(struct planted *planted, struct launcher *launcher, char why[static WHY_BYTES])
{
	struct scene_options options = {.launcher = launcher, .program_dir = planted->program_dir};
	char *manifest;
	int error = -ENOMEM;

	planted->n_clients = 1;
	while (planted->n_clients < MOST_CLIENTS &&
	       planted->n_clients * planted->n_clients < planted->n_pairs)
		planted->n_clients++;
	planted->n_servers = (planted->n_pairs + planted->n_clients - 1) / planted->n_clients;
	manifest = manifest_text(planted);
	planted->allow = policy_text(planted, 1);
	planted->deny = policy_text(planted, 0);
	options.manifest = manifest;
	options.policy = planted->allow;
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (manifest && planted->allow && planted->deny)
		error = scene_open(&options, &planted->scene, why);
	free(manifest);
	return error;
}

void planted_close(struct planted *planted)
{
	scene_close(planted->scene);
	free(planted->allow);
	free(planted->deny);
	planted->scene = NULL;
	planted->allow = planted->deny = NULL;
}
