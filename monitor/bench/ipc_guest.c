#include "monitor/bench/ipc_guest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/memory.h"
#include "guest/programs/pingpong.h"
#include "monitor/bench/scene.h"
#include "vmm/window.h"

struct ipc_guest {
	struct scene *scene;
	struct ipc_plan plan;
	size_t next[N_PAIRS]; /* batch */
	uint32_t n_pairs;     /* that have batches */
};

static const char policy[] = "(type bench_client_t)\n"
			     "(type bench_server_t)\n"
			     "(type bench_closed_t)\n"
			     "(type bench_relay_t)\n"
			     "(call a_domain (bench_client_t))\n"
			     "(call a_domain (bench_server_t))\n"
			     "(call a_domain (bench_closed_t))\n"
			     "(call a_domain (bench_relay_t))\n"
			     "(call can_connect (bench_client_t bench_server_t))\n"
			     "(call can_connect (bench_client_t bench_relay_t))\n"
			     "(call can_flow (bench_relay_t bench_server_t))\n"
			     "(call can_flow (bench_server_t bench_relay_t))\n"
			     "(call can_relay (bench_relay_t bench_client_t))\n";

/* ---- text ---- */

/* Offered by the first server. */
static const char closed[] =
	", { name = \"" PINGPONG_CLOSED "\"; context = \"system_u:system_r:bench_closed_t:s0\"; }";

/* A domain with many slots keeps its library's state of each on the heap. */
static void put_slots(FILE *to, const struct ipc_plan *plan)
{
	if (plan->n_slots)
		fprintf(to, " slots = %u; heap_kib = %u;", plan->n_slots, 1024 + 4 * plan->n_slots);
}

static void put_server(FILE *to, const struct ipc_plan *plan, enum ipc_pair pair, uint32_t vcpu, bool first)
{
	fprintf(to,
	        "\n  { name = \"server%d\"; program = \"pingpong\"; args = (\"serve\");\n"
	        "    context = \"system_u:system_r:bench_server_t:s0\"; vcpu = %u;\n"
	        "    offers = (\"echo%d\"%s);",
	        pair, vcpu, pair, first ? closed : "");
	put_slots(to, plan);
	fputs(" }", to);
}

static void put_relay(FILE *to, enum ipc_pair pair, uint32_t vcpu)
{
	fprintf(to,
	        "\n  { name = \"principal\"; program = \"pingpong\"; vcpu = 2; args = (\"principal\", "
	        "\"own\");\n"
	        "    context = \"system_u:system_r:bench_client_t:s0\"; },"
	        "\n  { name = \"client%d\"; program = \"pingpong\"; vcpu = %u; offers = (\"own\");\n"
	        "    context = \"system_u:system_r:bench_relay_t:s0\"; args = (\"relay\", \"own\", "
	        "\"echo%d\"",
	        pair, vcpu, pair);
}

static void put_client(FILE *to, const struct ipc_plan *plan, enum ipc_pair pair, uint32_t vcpu)
{
	static const char kinds[] = {
		[IPC_SPINNING] = 'm',  [IPC_UNMEDIATED] = 'u',  [IPC_SLEEPING] = 's',   [IPC_CONNECT] = 'c',
		[IPC_ACCEPTED] = 'a',  [IPC_FRESH] = 'f',       [IPC_IDENTIFIED] = 'i', [IPC_DENIED] = 'd',
		[IPC_HYPERCALL] = 'h', [IPC_SYSTEM_CALL] = 'y',
	};

	if (pair == PAIR_ON_BEHALF)
		put_relay(to, pair, vcpu);
	else
		fprintf(to,
		        "\n  { name = \"client%d\"; program = \"pingpong\"; vcpu = %u;\n"
		        "    context = \"system_u:system_r:bench_client_t:s0\"; args = (\"client\", "
		        "\"echo%d\"",
		        pair, vcpu, pair);
	for (size_t i = 0; i < plan->n_batches[pair]; i++) {
		const struct ipc_batch *batch = &plan->batch[pair][i];

		fprintf(to, ", \"%c:%u:%u:%u\"", kinds[batch->kind], batch->bytes, batch->n_round_trips,
		        batch->n_messages);
	}
	fputs(");", to);
	put_slots(to, plan);
	fputs(" }", to);
}

static void put_guest(FILE *to, const char *name, unsigned n_vcpus, bool first)
{
	fprintf(to, "%s{ name = \"%s\"; vcpus = %u; bulk_bytes = %u;\n  domains = (",
	        first ? "" : "); },\n  ", name, n_vcpus, IPC_BULK_BYTES);
}

/* The pairs of the first guest; the last has a guest for each end, whose vCPUs are on different cores too. */
static void put_guests(FILE *to, struct ipc_guest *guest)
{
	static const uint32_t vcpus[PAIR_TWO_GUESTS][2] = {{0, 1}, {2, 2}, {0, 1}};
	const struct ipc_plan *plan = &guest->plan;

	put_guest(to, "bench", 3, true);
	for (unsigned pair = 0; pair < PAIR_TWO_GUESTS; pair++) {
		if (!plan->n_batches[pair])
			continue;
		fputs(guest->n_pairs++ ? "," : "", to);
		put_server(to, plan, (enum ipc_pair)pair, vcpus[pair][1], guest->n_pairs == 1);
		fputc(',', to);
		put_client(to, plan, (enum ipc_pair)pair, vcpus[pair][0]);
	}
	if (!plan->n_batches[PAIR_TWO_GUESTS])
		return;
	guest->n_pairs++;
	put_guest(to, "near", 1, false);
	put_client(to, plan, PAIR_TWO_GUESTS, 0);
	put_guest(to, "far", 1, false);
	put_server(to, plan, PAIR_TWO_GUESTS, 0, false);
}

static char *manifest_text(struct ipc_guest *guest)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	fputs("guests = ( ", to);
	put_guests(to, guest);
	fputs("); }\n);\n", to);
	return fclose(to) == 0 ? text : NULL;
}

/* The client of the pair. */
static struct domain *client_of(struct ipc_guest *guest, enum ipc_pair pair)
{
	char name[MAX_NAME_BYTES];

	snprintf(name, sizeof(name), "client%d", pair);
	return scene_domain(guest->scene, name);
}

/* ---- waiting for what domains say ---- */

static uint32_t n_said(struct scene *scene, const char *text)
{
	struct scene_line line;
	uint32_t n = 0;

	for (size_t i = 0; scene_line(scene, i, &line); i++)
		n += strcmp(line.text, text) == 0;
	return n;
}

static bool all_ready(struct scene *scene, void *opaque)
{
	const struct ipc_guest *guest = opaque;

	return n_said(scene, PINGPONG_READY) == guest->n_pairs && scene_all_blocked(scene);
}

static bool is_done(struct scene *scene, void *opaque)
{
	(void)opaque;
	return n_said(scene, PINGPONG_DONE) > 0 && scene_all_blocked(scene);
}

/* ---- a batch ---- */

static int fetch(struct ipc_guest *guest, enum ipc_pair pair, const struct ipc_batch *batch,
                 struct ipc_times *times, char why[static WHY_BYTES])
{
	const struct domain *client = client_of(guest, pair);
	const char *memory = window_outbox(client->guest->machine, client->first_slot + client->n_slots - 1);
	const uint32_t *ticks = (const uint32_t *)(memory + SLOT_BULK_OFFSET);
	struct pingpong_result result;

	memcpy(&result, memory, sizeof(result));
	if (result.bytes != batch->bytes || result.tsc_khz == 0) {
		snprintf(why, WHY_BYTES, "a batch of %u bytes left no times behind", batch->bytes);
		return -EPROTO;
	}
	times->stream_us = (double)result.stream_ticks * 1000.0 / (double)result.tsc_khz;
	for (uint32_t i = 0; times->round_trip_us && i < batch->n_round_trips && i < IPC_MAX_TIMES; i++)
		times->round_trip_us[i] = (double)ticks[i] * 1000.0 / (double)result.tsc_khz;
	return 0;
}

int ipc_guest_run(struct ipc_guest *guest, enum ipc_pair pair, struct ipc_times *times,
                  char why[static WHY_BYTES])
{
	const struct ipc_batch *batch = &guest->plan.batch[pair][guest->next[pair]];
	int error;

	guest->next[pair] = (guest->next[pair] + 1) % guest->plan.n_batches[pair];
	scene_clear_lines(guest->scene);
	scene_wake(guest->scene, client_of(guest, pair));
	error = scene_until(guest->scene, is_done, NULL, "a batch of messages is through", why);
	return error < 0 ? error : fetch(guest, pair, batch, times, why);
}

void ipc_guest_watch(struct ipc_guest *guest, const struct call_watch *watch)
{
	machine_watch_calls(scene_guest(guest->scene)->machine, watch);
}

uint64_t ipc_guest_exits(struct ipc_guest *guest)
{
	return machine_counters(scene_guest(guest->scene)->machine).exits;
}

/* ---- begin and end ---- */

int ipc_guest_open(struct launcher *launcher, const char *program_dir, const struct ipc_plan *plan,
                   struct ipc_guest **out, char why[static WHY_BYTES])
{
	struct ipc_guest *guest = calloc(1, sizeof(*guest));
	struct scene_options options = {.launcher = launcher, .policy = policy, .program_dir = program_dir};
	char *text = NULL;
	int error = -ENOMEM;

	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (guest) {
		guest->plan = *plan;
		text = manifest_text(guest);
	}
	options.manifest = text;
	if (text)
		error = scene_open(&options, &guest->scene, why);
	free(text);
	if (error == 0)
		error = scene_until(guest->scene, all_ready, guest, "the domains are connected", why);
	if (error < 0) {
		ipc_guest_close(guest);
		return error;
	}
	*out = guest;
	return 0;
}

void ipc_guest_close(struct ipc_guest *guest)
{
	if (!guest)
		return;
	scene_close(guest->scene);
	free(guest);
}

int ipc_count_exits(struct launcher *launcher, const char *program_dir, uint32_t n_messages, uint64_t *exits,
                    char why[static WHY_BYTES])
{
	struct ipc_plan plan = {.n_batches = {1, 0},
	                        .batch = {{{.bytes = 8, .n_round_trips = n_messages / 2}}}};
	struct ipc_times times = {0};
	struct ipc_guest *guest;
	int error = ipc_guest_open(launcher, program_dir, &plan, &guest, why);

	if (error < 0)
		return error;
	*exits = ipc_guest_exits(guest);
	error = ipc_guest_run(guest, PAIR_TWO_VCPUS, &times, why);
	*exits = ipc_guest_exits(guest) - *exits;
	ipc_guest_close(guest);
	return error;
}
