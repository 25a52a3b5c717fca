#include "tests/guest/world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vmm/window.h"

#define WORLD_CHANNELS 1024
#define WORLD_LINES 4096
#define TEST_BULK_BYTES (64u << 10)

struct end {
	uint32_t domain, slot;
	bool held;
};

struct link {
	struct end client, server;
	bool accepted;
	uint64_t cut_client, cut_server; /* record bits */
	bool gone_client, gone_server;   /* that end died or closed */
	bool died;
};

struct line {
	uint32_t domain;
	char text[MAX_LOG_BYTES + 1];
	bool found;
};

struct life {
	bool ended;
	int status, vector;
	uint64_t ticket;
	uint32_t next_slot;
};

struct world {
	struct machine *machine;
	const struct world_domain *domains;
	uint32_t n_domains;
	enum world_flows flows;
	int kvm_fd;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct life life[MAX_DOMAINS];
	struct link link[WORLD_CHANNELS];
	uint32_t n_links;
	uint64_t generation;
	struct line *line;
	uint32_t n_lines;
};

bool world_skipped(void)
{
	if (access("/dev/kvm", R_OK | W_OK) == 0)
		return false;
	cr_assert(getenv("CI") == NULL, "no /dev/kvm here, and CI must have it");
	cr_skip_test("no /dev/kvm here");
	return true;
}

static void wake(struct world *world, uint32_t domain)
{
	struct domain_page *page = machine_domain_page(world->machine, domain);

	__atomic_fetch_add(&page->host_events, 1, __ATOMIC_SEQ_CST);
	machine_wake(world->machine, world->domains[domain].vcpu);
}

void world_wake(struct world *world, uint32_t domain)
{
	pthread_mutex_lock(&world->lock);
	wake(world, domain);
	pthread_mutex_unlock(&world->lock);
}

/* ---- channels ---- */

static uint64_t word_of(const struct world *world, const struct link *link, bool server)
{
	bool lossless = world->flows == WORLD_LOSSLESS;
	uint64_t cut = server ? link->cut_server : link->cut_client;
	uint64_t word = RECORD_LIVE | cut | (server ? RECORD_SERVER : 0);
	bool connecting = !server && !link->accepted && lossless;

	word |= connecting ? RECORD_CONNECTING : 0;
	if (lossless || !server)
		word |= cut & RECORD_OUT_CUT ? 0 : RECORD_OUT | (connecting ? 0 : RECORD_NOTIFY);
	if (lossless || server)
		word |= cut & RECORD_IN_CUT ? 0 : RECORD_IN;
	if (lossless)
		word |= RECORD_OUT_FLOWCTL | RECORD_IN_FLOWCTL;
	if (server ? link->gone_client : link->gone_server && lossless)
		word |= link->died ? RECORD_PEER_DIED : RECORD_PEER_CLOSED;
	return word;
}

static void record_write(struct world *world, const struct link *link, bool server, bool fresh)
{
	const struct end *end = server ? &link->server : &link->client;
	const struct end *peer = server ? &link->client : &link->server;
	struct slot_record *record = machine_record(world->machine, end->slot);
	uint64_t generation;

	if (fresh) {
		world->generation++;
		record->channel = (uint64_t)(link - world->link);
		record->peer_domain = (uint16_t)peer->domain;
		record->peer_vcpu = (uint16_t)world->domains[peer->domain].vcpu;
		record->bulk_bytes = TEST_BULK_BYTES;
		snprintf(record->service, sizeof(record->service), "%s",
		         world->domains[link->server.domain].service);
		snprintf(record->peer_context, sizeof(record->peer_context), "u:r:%s:s0",
		         world->domains[peer->domain].name);
	}
	generation = fresh ? world->generation : record->word >> RECORD_GENERATION_SHIFT;
	__atomic_store_n(&record->word, generation << RECORD_GENERATION_SHIFT | word_of(world, link, server),
	                 __ATOMIC_SEQ_CST);
}

static void windows_open(struct world *world, const struct link *link)
{
	cr_assert_eq(
		window_set(world->machine, link->server.slot, world->machine, link->client.slot, WINDOW_ALL),
		0);
	if (world->flows == WORLD_LOSSLESS)
		cr_assert_eq(window_set(world->machine, link->client.slot, world->machine, link->server.slot,
		                        WINDOW_ALL),
		             0);
}

/* Slots are handed out once each, round and round: a test does not use more at a time than there are. */
static uint32_t slot_take(struct world *world, uint32_t domain)
{
	struct life *life = &world->life[domain];
	uint32_t n = machine_n_slots(world->machine, domain);
	uint32_t slot = machine_first_slot(world->machine, domain) + life->next_slot++ % n;

	cr_assert_eq(machine_record(world->machine, slot)->word & RECORD_LIVE, 0, "slot %u is in use", slot);
	cr_assert_eq(window_sever(world->machine, slot, 1), 0);
	cr_assert_eq(window_outbox_reset(world->machine, slot), 0);
	return slot;
}

static int64_t do_connect(struct world *world, const struct guest_request *request)
{
	struct life *life = &world->life[request->domain];
	struct domain_page *page = machine_domain_page(world->machine, request->domain);
	struct link *link = &world->link[world->n_links];
	uint32_t server = 0;

	while (server < world->n_domains && (world->domains[server].service == NULL ||
	                                     strcmp(world->domains[server].service, request->text) != 0))
		server++;
	life->ticket++;
	page->connect_result = server == world->n_domains ? CALL_NO_SERVICE : CALL_OK;
	if (server < world->n_domains) {
		cr_assert_lt(world->n_links, WORLD_CHANNELS);
		world->n_links++;
		link->client = (struct end){request->domain, slot_take(world, request->domain), true};
		link->server.domain = server;
		page->connect_slot = link->client.slot;
		record_write(world, link, false, true);
		machine_domain_page(world->machine, server)->accepts_waiting++;
		wake(world, server);
	}
	__atomic_store_n(&page->connect_ticket, life->ticket, __ATOMIC_SEQ_CST);
	return (int64_t)life->ticket;
}

static int64_t do_accept(struct world *world, uint32_t domain)
{
	for (uint32_t i = 0; i < world->n_links; i++) {
		struct link *link = &world->link[i];

		if (link->accepted || link->server.domain != domain || link->gone_client)
			continue;
		link->accepted = true;
		link->server.slot = slot_take(world, domain);
		link->server.held = true;
		machine_domain_page(world->machine, domain)->accepts_waiting--;
		windows_open(world, link);
		record_write(world, link, true, true);
		record_write(world, link, false, false);
		wake(world, link->client.domain);
		return link->server.slot;
	}
	return CALL_AGAIN;
}

static void end_leave(struct world *world, struct link *link, bool server, bool died)
{
	struct end *end = server ? &link->server : &link->client;
	const struct end *peer = server ? &link->client : &link->server;

	end->held = false;
	*(server ? &link->gone_server : &link->gone_client) = true;
	link->died = died;
	__atomic_store_n(&machine_record(world->machine, end->slot)->word, RECORD_FREE, __ATOMIC_SEQ_CST);
	if (!peer->held)
		return;
	record_write(world, link, !server, false);
	wake(world, peer->domain);
}

static int64_t do_close(struct world *world, const struct guest_request *request)
{
	for (uint32_t i = 0; i < world->n_links; i++) {
		struct link *link = &world->link[i];

		for (int server = 0; server < 2; server++) {
			struct end *end = server ? &link->server : &link->client;

			if (end->held && end->domain == request->domain &&
			    end->slot == request->argument[0]) {
				end_leave(world, link, server, false);
				return CALL_OK;
			}
		}
	}
	return CALL_NOT_OPEN;
}

static void domain_ended(struct world *world, uint32_t domain, int status, int vector)
{
	struct life *life = &world->life[domain];

	life->ended = true;
	life->status = status;
	life->vector = vector;
	for (uint32_t i = 0; i < world->n_links; i++) {
		struct link *link = &world->link[i];

		if (link->client.held && link->client.domain == domain)
			end_leave(world, link, false, vector >= 0);
		if (link->server.held && link->server.domain == domain)
			end_leave(world, link, true, vector >= 0);
	}
}

static void cut_link(struct world *world, struct link *link, bool client_to_server, bool server_to_client)
{
	link->cut_client = (client_to_server ? RECORD_OUT_CUT : 0) | (server_to_client ? RECORD_IN_CUT : 0);
	link->cut_server = (client_to_server ? RECORD_IN_CUT : 0) | (server_to_client ? RECORD_OUT_CUT : 0);
	if (link->client.held)
		record_write(world, link, false, false);
	if (link->server.held)
		record_write(world, link, true, false);
	if (client_to_server && link->server.held)
		cr_assert_eq(window_sever(world->machine, link->server.slot, 1), 0);
	if (server_to_client && link->client.held)
		cr_assert_eq(window_sever(world->machine, link->client.slot, 1), 0);
	wake(world, link->client.domain);
	wake(world, link->server.domain);
}

void world_cut(struct world *world, uint32_t first, uint32_t n, bool client_to_server, bool server_to_client)
{
	pthread_mutex_lock(&world->lock);
	cr_assert_leq(first + n, world->n_links);
	for (uint32_t i = first; i < first + n; i++)
		cut_link(world, &world->link[i], client_to_server, server_to_client);
	pthread_mutex_unlock(&world->lock);
}

/* ---- handlers ---- */

static int64_t on_request(void *owner, const struct guest_request *request)
{
	struct world *world = owner;
	int64_t result = CALL_OK;

	pthread_mutex_lock(&world->lock);
	switch (request->call) {
	case HYPERCALL_CONNECT:
		result = do_connect(world, request);
		break;
	case HYPERCALL_ACCEPT:
		result = do_accept(world, request->domain);
		break;
	case HYPERCALL_CLOSE:
		result = do_close(world, request);
		break;
	case HYPERCALL_EXIT:
		domain_ended(world, request->domain, (int)request->argument[0], -1);
		break;
	default:
		break;
	}
	pthread_cond_broadcast(&world->changed);
	pthread_mutex_unlock(&world->lock);
	return result;
}

static void on_log(void *owner, uint32_t domain, const char *text, uint64_t n_lost)
{
	struct world *world = owner;

	(void)n_lost;
	pthread_mutex_lock(&world->lock);
	if (world->n_lines < WORLD_LINES) {
		struct line *line = &world->line[world->n_lines++];

		line->domain = domain;
		snprintf(line->text, sizeof(line->text), "%s", text);
	}
	if (getenv("WORLD_LOG") != NULL)
		fprintf(stderr, "%s: %s\n", world->domains[domain].name, text);
	pthread_cond_broadcast(&world->changed);
	pthread_mutex_unlock(&world->lock);
}

static void on_crashed(void *owner, const struct machine_crash *crash)
{
	struct world *world = owner;

	pthread_mutex_lock(&world->lock);
	if (getenv("WORLD_LOG") != NULL || crash->domain == NO_DOMAIN)
		fprintf(stderr, "crashed: %s\n", crash->text);
	if (crash->domain != NO_DOMAIN)
		domain_ended(world, crash->domain, -1, (int)crash->vector);
	pthread_cond_broadcast(&world->changed);
	pthread_mutex_unlock(&world->lock);
}

/* ---- life ---- */

struct world *world_start(const struct world_domain *domains, uint32_t n_domains, uint32_t n_vcpus,
                          enum world_flows flows)
{
	static const struct machine_handlers handlers = {
		.request = on_request, .log = on_log, .crashed = on_crashed};
	static struct domain_spec specs[MAX_DOMAINS];
	struct world *world = calloc(1, sizeof(*world));
	struct machine_spec spec = {.name = "test", .n_vcpus = n_vcpus, .n_domains = n_domains};
	char why[WHY_BYTES] = "";

	world->domains = domains;
	world->n_domains = n_domains;
	world->flows = flows;
	world->line = calloc(WORLD_LINES, sizeof(*world->line));
	pthread_mutex_init(&world->lock, NULL);
	pthread_cond_init(&world->changed, NULL);
	world->kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	for (uint32_t i = 0; i < n_domains; i++) {
		world_spec_fill(&domains[i], &specs[i]);
		world->life[i].vector = -1;
	}
	spec.domains = specs;
	spec.bulk_bytes = TEST_BULK_BYTES;
	spec.kvm_fd = world->kvm_fd;
	cr_assert_eq(machine_create(&spec, &handlers, world, &world->machine, why), 0, "%s", why);
	cr_assert_eq(machine_start(world->machine, why), 0, "%s", why);
	return world;
}

void world_end(struct world *world)
{
	machine_destroy(world->machine);
	close(world->kvm_fd);
	free(world->line);
	free(world);
}

struct machine *world_machine(struct world *world)
{
	return world->machine;
}

/* ---- waiting ---- */

static void deadline_set(struct timespec *deadline)
{
	clock_gettime(CLOCK_REALTIME, deadline);
	deadline->tv_sec += WORLD_DEADLINE_S;
}

/* False at the deadline. The lock is held. */
static bool wait_change(struct world *world, const struct timespec *deadline)
{
	return pthread_cond_timedwait(&world->changed, &world->lock, deadline) == 0;
}

static void say_lines(const struct world *world)
{
	for (uint32_t i = 0; i < world->n_lines; i++)
		fprintf(stderr, "%s: %s\n", world->domains[world->line[i].domain].name, world->line[i].text);
	fprintf(stderr, "machine: %s\n", machine_state_name(machine_state(world->machine)));
}

static struct line *find_line(struct world *world, uint32_t domain, const char *text)
{
	for (uint32_t i = 0; i < world->n_lines; i++) {
		struct line *line = &world->line[i];

		if (line->domain == domain && !line->found && strstr(line->text, text) != NULL)
			return line;
	}
	return NULL;
}

const char *world_wait_log(struct world *world, uint32_t domain, const char *text)
{
	struct timespec deadline;
	struct line *line;

	deadline_set(&deadline);
	pthread_mutex_lock(&world->lock);
	while ((line = find_line(world, domain, text)) == NULL && wait_change(world, &deadline))
		continue;
	if (line == NULL)
		say_lines(world);
	else
		line->found = true;
	pthread_mutex_unlock(&world->lock);
	cr_assert_not_null(line, "%s did not say \"%s\"", world->domains[domain].name, text);
	return line->text;
}

int world_wait_exit(struct world *world, uint32_t domain)
{
	struct life *life = &world->life[domain];
	struct timespec deadline;
	bool ended;

	deadline_set(&deadline);
	pthread_mutex_lock(&world->lock);
	while (!life->ended && wait_change(world, &deadline))
		continue;
	ended = life->ended;
	if (!ended)
		say_lines(world);
	pthread_mutex_unlock(&world->lock);
	cr_assert(ended, "%s has not ended", world->domains[domain].name);
	return life->status;
}

bool world_ended_soon(struct world *world, uint32_t domain)
{
	struct timespec moment;
	bool ended;

	clock_gettime(CLOCK_REALTIME, &moment);
	moment.tv_nsec += 2000000;
	if (moment.tv_nsec >= 1000000000) {
		moment.tv_nsec -= 1000000000;
		moment.tv_sec++;
	}
	pthread_mutex_lock(&world->lock);
	while (!world->life[domain].ended && wait_change(world, &moment))
		continue;
	ended = world->life[domain].ended;
	pthread_mutex_unlock(&world->lock);
	return ended;
}

bool world_has_ended(struct world *world, uint32_t domain)
{
	bool ended;

	pthread_mutex_lock(&world->lock);
	ended = world->life[domain].ended;
	pthread_mutex_unlock(&world->lock);
	return ended;
}

int world_fault_vector(struct world *world, uint32_t domain)
{
	int vector;

	pthread_mutex_lock(&world->lock);
	vector = world->life[domain].vector;
	pthread_mutex_unlock(&world->lock);
	return vector;
}

void world_wait_link(struct world *world, uint32_t channel)
{
	struct timespec deadline;
	bool accepted;

	deadline_set(&deadline);
	pthread_mutex_lock(&world->lock);
	while (!world->link[channel].accepted && wait_change(world, &deadline))
		continue;
	accepted = world->link[channel].accepted;
	if (!accepted)
		say_lines(world);
	pthread_mutex_unlock(&world->lock);
	cr_assert(accepted, "channel %u was not accepted", channel);
}
