/*
 * Many clients of one port with long messages, a slow reader among them, while pushes cut a random half:
 * nothing is written to a client after its cut, nothing is lost on kept ones, memory stays flat (I1, I4, H7).
 *
 * Clients get their labels by their uids, which takes root; else each label has a port of its own. 64
 * connections; PORTCULLIS_LOAD=1000 makes it as many.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/monitor/port_support.h"

#define N_LABELS 8u
#define FIRST_UID 61000u
#define MESSAGE_BYTES 65536u
#define UNDER_WAY 3u
#define ROUNDS 10u
#define SEED 4711u

struct client {
	int fd; /* -1: cut */
	unsigned label;
	uint64_t sent, got, goal;
};

struct load {
	struct world world;
	struct client *clients;
	size_t n;
};

static char message[MESSAGE_BYTES];

static bool one_port(void)
{
	return getuid() == 0;
}

/* Both ways between the server and these labels. For as long as the process lives. */
static policy_files policy_for(unsigned allowed)
{
	static policy_files kept[ROUNDS + 1];
	static unsigned n_kept;
	char rules[4096] = "(type all_t) (call a_domain (all_t))\n";
	size_t n = strlen(rules);

	for (unsigned p = 0; p < N_LABELS; p++) {
		n += (size_t)snprintf(rules + n, sizeof(rules) - n,
		                      "(type p%u_t) (call a_domain (p%u_t)) (call can_relay (all_t p%u_t))\n",
		                      p, p, p);
		if (allowed & 1u << p)
			n += (size_t)snprintf(rules + n, sizeof(rules) - n,
			                      "(call can_connect (p%u_t two_t))\n", p);
	}
	cr_assert_lt(n_kept, ROUNDS + 1);
	return kept[n_kept++] = policy_of(rules);
}

static size_t list_one_port(char *text, size_t bytes, size_t n_clients)
{
	size_t n = (size_t)snprintf(
		text, bytes,
		"{ name = \"all\"; kind = \"listen\"; context = \"system_u:system_r:all_t:s0\"; type = "
		"\"seqpacket\"; socket = \"%s\"; mode = \"0666\"; to = \"svc\"; connections = %zu; clients = "
		"(",
		test_path("all"), n_clients + 8);

	for (unsigned p = 0; p < N_LABELS; p++)
		n += (size_t)snprintf(text + n, bytes - n,
		                      "%s{ uid = %u; context = \"system_u:system_r:p%u_t:s0\"; }",
		                      p ? ", " : " ", FIRST_UID + p, p);
	return n + (size_t)snprintf(text + n, bytes - n, " ); }");
}

static size_t list_ports(char *text, size_t bytes, size_t n_clients)
{
	size_t n = 0;

	for (unsigned p = 0; p < N_LABELS; p++)
		n += (size_t)snprintf(
			text + n, bytes - n,
			"%s{ name = \"p%u\"; kind = \"listen\"; context = \"system_u:system_r:p%u_t:s0\"; "
			"type = \"seqpacket\"; socket = \"%s\"; to = \"svc\"; connections = %zu; }",
			p ? ",\n" : "", p, p, test_path("%u", p), n_clients / N_LABELS + 1);
	return n;
}

static const char *manifest_for(size_t n_clients)
{
	static char text[8192];
	size_t n = (size_t)snprintf(
		text, sizeof(text),
		"name = \"test\"; vcpus = 1; domains = ( { name = \"server\"; program = "
		"\"build/domains/echo.elf\"; heap_kib = %zu; slots = %zu; context = \"" SUBJECT(
			"two_t") "\"; offers = ( \"svc\" ); } );\nports = (\n",
		n_clients * 80 + 1024, n_clients + 16);

	n += (one_port() ? list_one_port : list_ports)(text + n, sizeof(text) - n, n_clients);
	snprintf(text + n, sizeof(text) - n, " );\n");
	return text;
}

static bool is_slow(const struct load *load, const struct client *client)
{
	return client == &load->clients[0];
}

static const char *path_of(unsigned label)
{
	static char path[256];

	if (one_port())
		snprintf(path, sizeof(path), "%s/all", test_folder());
	else
		snprintf(path, sizeof(path), "%s/%u", test_folder(), label);
	return path;
}

static void enter(struct client *client)
{
	unsigned label = client->label;

	if (one_port())
		cr_assert_eq(seteuid(FIRST_UID + label), 0, "%m");
	*client = (struct client){.fd = client_open(path_of(label), SOCK_SEQPACKET), .label = label};
	cr_assert_eq(seteuid(getuid()), 0, "%m");
}

/* Takes what is there: the next numbers, each once. Bytes of the last call: 0 at the end, -errno. */
static ssize_t take(struct client *client)
{
	ssize_t n;
	uint64_t number;

	while ((n = recv(client->fd, message, sizeof(message), MSG_DONTWAIT)) > 0) {
		memcpy(&number, message, sizeof(number));
		cr_assert_eq(n, MESSAGE_BYTES);
		cr_assert_eq(number, ++client->got, "lost, repeated or out of order");
	}
	return n < 0 ? -errno : 0;
}

static void talk(const struct load *load, struct client *client)
{
	uint64_t number = client->sent + 1;

	if (client->fd < 0)
		return;
	if (is_slow(load, client) || client->sent - client->got < UNDER_WAY) {
		memcpy(message, &number, sizeof(number));
		client->sent += send(client->fd, message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
	}
	if (!is_slow(load, client))
		cr_assert_eq(take(client), -EAGAIN, "a connection that policy keeps was closed");
}

static bool all_go_on(struct world *world, void *opaque)
{
	struct load *load = opaque;
	bool all = true;

	(void)world;
	for (size_t i = 0; i < load->n; i++) {
		struct client *client = &load->clients[i];

		talk(load, client);
		all = all && (client->fd < 0 || is_slow(load, client) || client->got >= client->goal);
	}
	return all;
}

/*
 * Right after the push, before the loop turns once more. What the client had written and nobody read is told
 * first, as a reset; then comes what it had been sent, then the end.
 */
static void expect_cut(struct client *client)
{
	ssize_t end = take(client);

	if (end == -ECONNRESET)
		end = take(client);
	cr_assert_eq(end, 0, "label %u: a client that was cut is still connected", client->label);
	close(client->fd);
	client->fd = -1;
}

static void round_of(struct load *load)
{
	unsigned allowed = 0;

	while (__builtin_popcount(allowed) < (int)N_LABELS / 2)
		allowed |= 1u << (unsigned)rand() % N_LABELS;
	world_push_quietly(&load->world, policy_for(allowed), STOP_ALL);
	for (size_t i = 0; i < load->n; i++)
		if (load->clients[i].fd >= 0 && !(allowed & 1u << load->clients[i].label))
			expect_cut(&load->clients[i]);
	for (size_t i = 0; i < load->n; i++) {
		struct client *client = &load->clients[i];

		if (client->fd < 0 && (allowed & 1u << client->label)) {
			enter(client);
			world_turn(&load->world);
		}
		client->goal = client->got + 2;
	}
	world_until(&load->world, all_go_on, load, "every kept connection goes on");
}

Test(port_load, pushes_that_cut_half)
{
	const char *given = getenv("PORTCULLIS_LOAD");
	struct load load = {.n = given ? strtoul(given, NULL, 10) : 64};
	struct rlimit files;
	uint64_t before = 0;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	srand(SEED);
	cr_assert_eq(chmod(test_folder(), 0711), 0); /* others come in */
	load.clients = calloc(load.n, sizeof(*load.clients));
	world_open(&load.world, &(struct world_options){.manifest = manifest_for(load.n),
	                                                .policy = policy_for((1u << N_LABELS) - 1),
	                                                .quiet = true,
	                                                .not_ready = true});
	for (size_t i = 0; i < load.n; i++) {
		load.clients[i].label = (unsigned)(i % N_LABELS);
		enter(&load.clients[i]);
		load.clients[i].goal = 2;
		if (i % 16 == 15)
			world_turn(&load.world);
	}
	world_until(&load.world, all_go_on, &load, "all connections are up");
	for (unsigned round = 0; round < ROUNDS; round++) {
		round_of(&load);
		if (round == 2)
			before = resident_bytes();
	}
	cr_expect_lt(resident_bytes(), before + (32u << 20), "memory grows");
	for (size_t i = 0; i < load.n; i++)
		if (load.clients[i].fd >= 0)
			close(load.clients[i].fd);
	world_close(&load.world);
	free(load.clients);
}
