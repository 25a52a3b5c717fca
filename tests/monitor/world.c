#include "tests/monitor/world.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "monitor/audit.h"
#include "monitor/loop.h"
#include "vmm/window.h"

#define LOOK_NS 500000u

#define BASE "policy/base.cil", "tests/cil/types.cil"
#define TRAFFIC "policy/base.cil", "tests/cil/lanes.cil"

const char *const POLICY_OPEN[] = {BASE, "tests/cil/open.cil", NULL};
const char *const POLICY_NO_SEND[] = {BASE, "tests/cil/no_send.cil", NULL};
const char *const POLICY_NO_CONNECT[] = {BASE, "tests/cil/no_connect.cil", NULL};
const char *const POLICY_NO_FLOWCTL[] = {BASE, "tests/cil/no_flowctl.cil", NULL};
const char *const POLICY_SWAP[] = {BASE, "tests/cil/swap.cil", NULL};
const char *const POLICY_NOTHING[] = {BASE, NULL};
const char *const POLICY_FORGET[] = {"policy/base.cil", "tests/cil/forget.cil", NULL};
const char *const POLICY_LANE_A[] = {TRAFFIC, "tests/cil/lane_a.cil", NULL};
const char *const POLICY_LANE_B[] = {TRAFFIC, "tests/cil/lane_b.cil", NULL};

#define CONTEXT(type) "context = \"system_u:system_r:" type ":s0\";"
#define ACTOR(name, vcpu, more)                                                                              \
	"{ name = \"" name "\"; program = \"" TEST_DOMAINS "t_actor.elf\"; vcpu = " vcpu                     \
	";" CONTEXT(name "_t") more " }"
#define LANE(lane) "{ name = \"" lane "\"; " CONTEXT("lane_" lane "_t") " }"

const char MANIFEST_USUAL[] =
	"name = \"test\"; vcpus = 2;\n"
	"domains = (\n" ACTOR("one", "0", "") ",\n" ACTOR("two", "1", "offers = ( \"svc\" );") ",\n" ACTOR(
		"three", "0", "") ",\n" ACTOR("four", "1", "offers = ( \"aux\" );") " );\n";

const char MANIFEST_TRAFFIC[] =
	"name = \"test\"; vcpus = 2;\n"
	"domains = (\n"
	"{ name = \"source\"; program = \"" TEST_DOMAINS
	"t_traffic.elf\"; args = ( \"client\" ); vcpu = 0; " CONTEXT(
		"source_t") " },\n"
			    "{ name = \"sink\"; program = \"" TEST_DOMAINS
			    "t_traffic.elf\"; args = ( \"server\" ); vcpu = "
			    "1; " CONTEXT("sink_t") " offers = ( " LANE("a") ", " LANE("b") ", " LANE(
				    "c") ", " LANE("d") " ); } );\n";

/* ---- the loop ---- */

/* As stage_until, which looks less often: tests wait thousands of times. */
void world_until(struct world *world, world_condition *condition, void *opaque, const char *what)
{
	uint64_t end = loop_now() + (uint64_t)(WAIT_SECONDS * 1e9);

	while (!condition(world, opaque)) {
		uint64_t now = loop_now();

		cr_assert_lt(now, end, "waited in vain: %s", what);
		loop_step(world->monitor->loop, now + LOOK_NS);
	}
}

void world_turn(struct world *world)
{
	loop_step(world->monitor->loop, 0);
}

void world_drift(struct world *world, uint64_t ns)
{
	uint64_t end = loop_now() + ns;

	while (loop_now() < end)
		loop_step(world->monitor->loop, end);
}

/* ---- open and close ---- */

static void skip_without_kvm(void)
{
	if (access("/dev/kvm", R_OK | W_OK) == 0)
		return;
	cr_assert(!getenv("CI"), "/dev/kvm is needed");
	cr_skip_test("no /dev/kvm");
}

static size_t n_files(policy_files files)
{
	size_t n = 0;

	while (files[n])
		n++;
	return n;
}

static bool all_ready(struct world *world, void *opaque)
{
	const struct registry *registry = world->monitor->registry;

	(void)opaque;
	for (uint32_t g = 0; g < registry->n_guests; g++)
		for (uint32_t d = 0; !registry->guests[g]->is_host && d < registry->guests[g]->n_domains; d++)
			if (MAILBOX_LOAD(world_mailbox(world, registry->guests[g]->domains[d].name)->ready) !=
			    MAILBOX_READY)
				return false;
	return true;
}

/* All threads but the loop's. Security servers are not slowed down, being children of the launcher. */
static void lower_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;

	cr_assert_not_null(tasks);
	while ((task = readdir(tasks))) {
		pid_t thread = atoi(task->d_name);

		if (thread > 0 && thread != getpid())
			setpriority(PRIO_PROCESS, (id_t)thread, 15);
	}
	closedir(tasks);
}

void world_open(struct world *world, const struct world_options *options)
{
	static const struct world_options none;
	const struct world_options *given = options ? options : &none;
	policy_files policy = given->policy ? given->policy : POLICY_OPEN;
	struct stage_options from = {
		.manifest = given->manifest ? given->manifest : MANIFEST_USUAL,
		.policies = policy,
		.n_policies = n_files(policy),
		.deadline_seconds = given->deadline_seconds,
		.quiet = given->quiet,
	};
	char line[WHY_BYTES];
	char *why = NULL;

	*world = (struct world){0};
	skip_without_kvm();
	cr_assert_eq(launcher_start(&world->launcher, line), 0, "%s", line);
	from.launcher = world->launcher;
	cr_assert_eq(stage_open(&from, &world->stage, &why), 0, "%s", why ? why : "?");
	world->monitor = world->stage->monitor;
	if (given->not_started)
		return;
	cr_assert_eq(stage_start(world->stage, line), 0, "%s", line);
	if (given->busy)
		lower_threads();
	if (!given->not_ready)
		world_until(world, all_ready, NULL, "every domain is up");
}

void world_close(struct world *world)
{
	stage_close(world->stage);
	launcher_stop(world->launcher);
	*world = (struct world){0};
}

struct guest *world_guest(struct world *world)
{
	return world->monitor->registry->guests[0];
}

struct domain *world_domain(struct world *world, const char *name)
{
	const struct registry *registry = world->monitor->registry;

	for (uint32_t g = 0; g < registry->n_guests; g++)
		for (uint32_t d = 0; d < registry->guests[g]->n_domains; d++)
			if (strcmp(registry->guests[g]->domains[d].name, name) == 0)
				return &registry->guests[g]->domains[d];
	cr_assert_fail("no domain \"%s\"", name);
	return NULL;
}

struct mailbox *world_mailbox(struct world *world, const char *name)
{
	struct domain *domain = world_domain(world, name);
	uint8_t *outbox = window_outbox(domain->guest->machine, domain->first_slot + domain->n_slots - 1);

	return (struct mailbox *)(outbox + SLOT_BULK_OFFSET);
}

/* ---- actors ---- */

void actor_begin(struct world *world, const char *name, struct command command)
{
	struct mailbox *mail = world_mailbox(world, name);
	struct registry *registry;

	cr_assert_eq(MAILBOX_LOAD(mail->done), mail->command, "%s is still busy", name);
	mail->operation = command.operation;
	memcpy(mail->argument, command.argument, sizeof(mail->argument));
	snprintf(mail->text, sizeof(mail->text), "%s", command.text ? command.text : "");
	MAILBOX_STORE(mail->command, mail->command + 1);
	registry = registry_lock(world->monitor);
	domain_wake(registry, world_domain(world, name));
	registry_unlock(registry);
}

static bool is_done(struct world *world, void *opaque)
{
	struct mailbox *mail = opaque;

	(void)world;
	return MAILBOX_LOAD(mail->done) == mail->command;
}

bool actor_is_done(struct world *world, const char *name)
{
	return is_done(world, world_mailbox(world, name));
}

int64_t actor_finish(struct world *world, const char *name)
{
	struct mailbox *mail = world_mailbox(world, name);
	char what[96];

	snprintf(what, sizeof(what), "%s carries out command %llu, operation %llu", name,
	         (unsigned long long)mail->command, (unsigned long long)mail->operation);
	world_until(world, is_done, mail, what);
	return mail->result;
}

int64_t actor_do(struct world *world, const char *name, struct command command)
{
	actor_begin(world, name, command);
	return actor_finish(world, name);
}

static bool is_blocked(struct world *world, void *opaque)
{
	const struct domain *domain = opaque;
	struct mailbox *mail = world_mailbox(world, domain->name);

	return MAILBOX_LOAD(mail->begun) == mail->command && MAILBOX_LOAD(mail->done) != mail->command &&
	       machine_domain_state(domain->guest->machine, domain->index) == DOMAIN_BLOCKED;
}

void actor_until_blocked(struct world *world, const char *name)
{
	char what[96];

	snprintf(what, sizeof(what), "%s blocks", name);
	world_until(world, is_blocked, world_domain(world, name), what);
}

static bool awaits_accept(struct world *world, void *opaque)
{
	const struct domain *domain = opaque;
	struct registry *registry = registry_lock(world->monitor);
	const struct channel *channel = registry->last;
	const struct outbox_header *header = NULL;

	if (channel && channel->end[SIDE_CLIENT].domain == domain && !channel->accepted)
		header = window_outbox(domain->guest->machine, channel->end[SIDE_CLIENT].slot);
	registry_unlock(registry);
	return header && (MAILBOX_LOAD(header->wants_room) | MAILBOX_LOAD(header->wants_message)) &&
	       is_blocked(world, opaque);
}

void actor_until_awaiting(struct world *world, const char *name)
{
	world_until(world, awaits_accept, world_domain(world, name), "it awaits the accept");
}

void actor_end_loop(struct world *world, const char *name)
{
	struct mailbox *mail = world_mailbox(world, name);

	MAILBOX_STORE(mail->end, mail->command);
}

struct pair pair_open(struct world *world, const char *client, const char *server, const char *service)
{
	struct pair pair = {.client = client, .server = server};
	int64_t result;

	actor_begin(world, server, (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL});
	result = actor_do(world, client, (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, service});
	cr_assert_eq(result, CALL_OK, "%s connects to %s: %lld", client, service, (long long)result);
	result = actor_finish(world, server);
	cr_assert_eq(result, CALL_OK, "%s accepts: %lld", server, (long long)result);
	pair.at_client = world_mailbox(world, client)->value[0];
	pair.at_server = world_mailbox(world, server)->value[0];
	pair.channel = world->monitor->registry->last;
	return pair;
}

int64_t pair_send(struct world *world, const struct pair *pair, bool from_client, uint64_t counter,
                  uint64_t n)
{
	return actor_do(world, from_client ? pair->client : pair->server,
	                (struct command){ACTOR_SEND,
	                                 {from_client ? pair->at_client : pair->at_server, counter, n, 8, 0},
	                                 NULL});
}

int64_t pair_receive(struct world *world, const struct pair *pair, bool at_client, uint64_t most)
{
	return actor_do(world, at_client ? pair->client : pair->server,
	                (struct command){ACTOR_RECEIVE,
	                                 {at_client ? pair->at_client : pair->at_server, most, 0},
	                                 NULL});
}

void pair_close(struct world *world, const struct pair *pair)
{
	cr_assert_eq(actor_do(world, pair->client, (struct command){ACTOR_CLOSE, {pair->at_client}, NULL}),
	             0);
	cr_assert_eq(actor_do(world, pair->server, (struct command){ACTOR_CLOSE, {pair->at_server}, NULL}),
	             0);
}

/* ---- changes ---- */

json_t *world_try_push(struct world *world, policy_files policy, enum stop_mode stop, int *status)
{
	char *why = NULL;
	json_t *report = stage_push(world->stage, policy, n_files(policy), stop, false, status, &why);

	free(why);
	return report;
}

json_t *world_push(struct world *world, policy_files policy, enum stop_mode stop)
{
	char *why = NULL;
	int status;
	json_t *report = stage_push(world->stage, policy, n_files(policy), stop, false, &status, &why);

	cr_assert_eq(status, 0, "push: %s: %s", strerror(-status), why ? why : "?");
	cr_assert_not_null(report);
	free(why);
	return report;
}

void world_push_quietly(struct world *world, policy_files policy, enum stop_mode stop)
{
	json_decref(world_push(world, policy, stop));
}

struct image world_image(struct world *world)
{
	const struct policy_instance *policy = &world->monitor->posture->policy;
	struct image image = {fcntl(policy->image_fd, F_DUPFD_CLOEXEC, 0), policy->image_bytes};

	cr_assert_geq(image.fd, 0);
	return image;
}

json_t *world_push_image(struct world *world, const struct image *image, enum stop_mode stop)
{
	const struct policy_source source = {"image", image->fd, image->bytes};
	const struct change_request request = {.kind = CHANGE_POLICY,
	                                       .stop = stop,
	                                       .author = posture_self(world->monitor),
	                                       .sources = &source,
	                                       .n_sources = 1};
	char *why = NULL;
	int status;
	json_t *report = stage_change(world->stage, &request, &status, &why);

	cr_assert_eq(status, 0, "push: %s: %s", strerror(-status), why ? why : "?");
	free(why);
	return report;
}

json_t *world_plan(struct world *world, policy_files policy)
{
	char *why = NULL;
	int status;
	json_t *report = stage_push(world->stage, policy, n_files(policy), STOP_ALL, true, &status, &why);

	cr_assert_eq(status, 0, "plan: %s: %s", strerror(-status), why ? why : "?");
	free(why);
	return report;
}

static const json_t *walk(const json_t *json, const char *path)
{
	char copy[128], *rest = copy, *part;

	snprintf(copy, sizeof(copy), "%s", path);
	while (json && (part = strsep(&rest, ".")))
		json = json_is_array(json) ? json_array_get(json, (size_t)atoi(part))
		                           : json_object_get(json, part);
	cr_assert_not_null(json, "the report has no %s", path);
	return json;
}

json_int_t report_number(const json_t *report, const char *path)
{
	const json_t *json = walk(report, path);

	cr_assert(json_is_integer(json), "%s is no integer", path);
	return json_integer_value(json);
}

const char *report_text(const json_t *report, const char *path)
{
	const json_t *json = walk(report, path);

	cr_assert(json_is_string(json), "%s is no text", path);
	return json_string_value(json);
}

/* ---- odds and ends ---- */

bool inbox_is_empty(const struct channel *channel, enum channel_side side)
{
	const struct endpoint *end = &channel->end[side];
	const struct machine *machine = end->domain->guest->machine;
	const uint64_t *words = window_inbox(machine, end->slot);
	size_t bytes = (size_t)((const uint8_t *)window_inbox(machine, 1) -
	                        (const uint8_t *)window_inbox(machine, 0));

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		if (__atomic_load_n(&words[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long long total, resident = 0;

	cr_assert(file && fscanf(file, "%llu %llu", &total, &resident) == 2);
	fclose(file);
	return resident * 4096;
}

struct search {
	const char *text;
	char *found;
};

static void look_at_line(void *opaque, const char *line)
{
	struct search *search = opaque;

	if (!strstr(line, search->text))
		return;
	free(search->found);
	search->found = strdup(line);
}

char *audit_find(struct world *world, const char *text)
{
	struct search search = {text, NULL};

	audit_recent(world->monitor->audit, 0, 4096, look_at_line, &search);
	return search.found;
}

static bool is_in_trail(struct world *world, void *opaque)
{
	char *line = audit_find(world, opaque);

	free(line);
	return line != NULL;
}

char *audit_await(struct world *world, const char *text)
{
	world_until(world, is_in_trail, (void *)text, text);
	return audit_find(world, text);
}
