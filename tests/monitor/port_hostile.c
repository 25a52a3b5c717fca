/*
 * Clients that want no good, wake-ups across stops, storms (P12, H4, H7).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/monitor/port_support.h"
#include "vmm/stop.h"

#define STRIDE 131072u /* of slots with the default bulk area */
#define SCENE(more) WEB("%s", "seqpacket", more)

static const char *open_scene(struct world *world, const char *ports)
{
	const char *path = test_path("web.sock");

	port_open_world(world, ports, path);
	return path;
}

/* Thousands of connects, most of which are refused: the loop serves others, memory stays flat. */
Test(port_hostile, a_flood_of_connects)
{
	struct world world;
	const char *path = open_scene(&world, SCENE("connections = 8; per_client = 8;"));
	uint64_t before, counter = 7, handle;
	int kept = client_open(path, SOCK_SEQPACKET);
	unsigned n_connected = 0;

	handle = port_accept(&world, "two");
	before = resident_bytes();
	for (int i = 0; i < 3000; i++) {
		struct sockaddr_un address = {.sun_family = AF_UNIX};
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
		n_connected += connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
		if (i % 8 == 0)
			world_turn(&world);
		close(fd);
	}
	cr_expect_gt(n_connected, 100);
	cr_expect_lt(resident_bytes() - before, 4u << 20);
	client_write(&world, kept, &counter, sizeof(counter));
	cr_assert_eq(actor_do(&world, "two", to_receive(handle, 1, NO_TIMEOUT)), sizeof(counter));
	cr_expect_eq(world_mailbox(&world, "two")->value[1], counter);
	close(kept);
	world_close(&world);
}

/*
 * Clients that would take every descriptor of the process: some are kept for a push, which needs a dozen
 * (H7). The monitor is a process of its own here, with few.
 */
#define CROWD 120

static int enter_crowd(const char *path)
{
	const struct timeval patience = {.tv_sec = 30};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	cr_assert_eq(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0, "%m");
	return fd;
}

Test(port_hostile, a_crowd_that_takes_descriptors)
{
	const char *path = test_path("echo.sock"), *control = test_path("control");
	char manifest[1024], line[1024], program[512];
	int fd[CROWD];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	struct child server, child;

	need_kvm();
	cr_assert_gt(n, 0);
	program[n] = '\0';
	*strrchr(program, '/') = '\0';
	snprintf(
		manifest, sizeof(manifest),
		"name = \"g\";\ndomains = ( { name = \"a\"; program = \"echo\"; slots = 200; "
		"heap_kib = 16384; offers = ( \"shop\" ); context = \"system_u:system_r:server_t:s0\"; } );\n"
		"ports = ( { name = \"p\"; kind = \"listen\"; to = \"shop\"; connections = 200; socket = "
		"\"%s\"; context = \"system_u:system_r:client_t:s0\"; } );",
		path);
	snprintf(line, sizeof(line),
	         "ulimit -n 100; exec %s/../portcullis run %s --programs build/domains --policy "
	         "policy/base.cil "
	         "--policy examples/demo/demo.cil --socket %s",
	         program, test_file("m.conf", manifest), control);
	server = child_start_program("sh", (const char *const[]){"-c", line, NULL});
	child = RUN("status", "--until", "running", "--deadline", "30", "--socket", control);
	EXPECT(child, 0, "");
	for (int i = 0; i < CROWD; i++)
		fd[i] = enter_crowd(path);
	child_await(&server, "clients were refused");
	child = RUN("policy", "push", "policy/base.cil", "examples/demo/strict.cil", "--socket", control);
	EXPECT(child, 0, "");
	for (int i = 0; i < CROWD; i++)
		close(fd[i]);
	child_signal(&server, SIGTERM);
	child_finish(&server);
	EXPECT(server, 0, "");
}

/* Messages that come while the guest is stopped are there when it goes on (P12, I10). */
Test(port_hostile, no_wake_is_lost_across_a_stop)
{
	struct world world;
	const char *path = open_scene(&world, SCENE(""));
	struct machine *machine;
	struct stop_report report;
	int fd = client_open(path, SOCK_SEQPACKET);
	uint64_t handle = port_accept(&world, "two");
	char packet[64], why[WHY_BYTES];

	machine = world_guest(&world)->machine;
	for (uint64_t i = 1; i <= 30; i++) {
		actor_begin(&world, "two", to_receive(handle, 1, NO_TIMEOUT));
		if (i % 2)
			actor_until_blocked(&world, "two");
		cr_assert_eq(stop_machines(&machine, 1, loop_now() + 10000000000u, &report, NULL, why), 0,
		             "%s", why);
		client_write(&world, fd, &i, sizeof(i));
		world_drift(&world, 1000000);
		cr_assert_eq(resume_machines(&machine, 1, loop_now() + 10000000000u, why), 0, "%s", why);
		cr_assert_eq(actor_finish(&world, "two"), sizeof(i));
		cr_assert_eq(world_mailbox(&world, "two")->value[1], i);
		cr_assert_eq(actor_do(&world, "two", to_send(handle, i, 1, 16, NO_TIMEOUT)), CALL_OK);
		cr_assert_eq(client_read(&world, fd, packet, sizeof(packet)), 16);
	}
	close(fd);
	world_close(&world);
}

/* Clients come and go, the server accepts and closes, policies are pushed: every slot is given back (H4, I8).
 */
Test(port_hostile, a_storm_on_few_slots)
{
	struct world world;
	const char *path = open_scene(&world, SCENE("connections = 4;"));
	struct image image = {.fd = -1};
	int fd[4] = {-1, -1, -1, -1};

	image = world_image(&world);
	actor_begin(&world, "two", (struct command){ACTOR_SERVE, {0}, NULL});
	for (unsigned i = 0; i < 400; i++) {
		int *client = &fd[i % 4];

		if (*client >= 0)
			close(*client);
		*client = client_open(path, SOCK_SEQPACKET);
		(void)send(*client, &i, sizeof(i), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (i % 50 == 25)
			world_push_quietly(&world, POLICY_NO_CONNECT, i % 100 == 25 ? STOP_ALL : STOP_NONE);
		if (i % 50 == 49)
			json_decref(world_push_image(&world, &image, STOP_ALL));
		world_turn(&world);
	}
	for (int i = 0; i < 4; i++)
		close(fd[i]);
	port_until_used(&world, "web", 0);
	actor_end_loop(&world, "two");
	cr_expect_eq(actor_finish(&world, "two"), CALL_OK);
	fd[0] = client_open(path, SOCK_SEQPACKET);
	port_accept(&world, "two");
	close(fd[0]);
	close(image.fd);
	world_close(&world);
}

/* The port looks when its client says something. */
static bool is_broken(struct world *world, void *opaque)
{
	const int *fd = opaque;

	(void)send(*fd, "12345678", 8, MSG_DONTWAIT | MSG_NOSIGNAL);
	return port_used(world, "web") == 0;
}

/* A domain that says it has read what nobody sent, to a port (H1, H13): its channel breaks, the monitor does
 * not. */
Test(port_hostile, a_domain_that_breaks_the_rules)
{
	struct world world;
	const char *path = open_scene(&world, SCENE(""));
	int fd = client_open(path, SOCK_SEQPACKET), other;
	uint64_t address;
	size_t n;

	port_accept(&world, "two");
	address = VA_OUTBOX + world_domain(&world, "two")->first_slot * STRIDE +
	          offsetof(struct outbox_header, read);
	cr_assert_eq(actor_do(&world, "two", (struct command){ACTOR_WRITE, {address, 1ull << 60}, NULL}),
	             CALL_OK);
	world_until(&world, is_broken, &fd, "the channel breaks");
	cr_expect(client_is_closed(fd, &n));
	free(audit_await(&world, "breaks the ring's rules"));
	/* Others go on. */
	other = client_open(path, SOCK_SEQPACKET);
	port_accept(&world, "two");
	close(other);
	close(fd);
	world_close(&world);
}

/* A guest that is killed takes its channels along: clients see the end. */
Test(port_hostile, a_guest_that_dies)
{
	struct world world;
	const char *path = open_scene(&world, SCENE(""));
	int fd = client_open(path, SOCK_SEQPACKET);
	char byte;

	port_accept(&world, "two");
	actor_begin(&world, "two", (struct command){ACTOR_FAULT, {0}, NULL});
	cr_expect_eq(client_read(&world, fd, &byte, 1), 0);
	port_until_used(&world, "web", 0);
	close(fd);
	fd = client_open(path, SOCK_SEQPACKET);
	cr_expect_eq(client_read(&world, fd, &byte, 1), 0, "nobody is there any more");
	close(fd);
	world_close(&world);
}

/* two keeps the store of s0, four that of s1; clients get theirs by their uid. */
#define KEEPER(name, level)                                                                                  \
	"{ name = \"" name "\"; program = \"" TEST_DOMAINS "t_actor.elf\"; slots = 80; context = "           \
	"\"system_u:system_r:two_t:" level                                                                   \
	"\"; offers = ({ name = \"store\"; context = \"" SUBJECT("store_t") "\"; }); }"
#define CLIENT(uid, level) "{ uid = " uid "; context = \"system_u:system_r:one_t:" level "\"; }"
#define N_CROWD (MAX_BACKLOG + 6u)

static const char TWO_STORES[] =
	"name = \"test\"; bulk_bytes = 4096; domains = (" KEEPER("two", "s0") ", " KEEPER(
		"four", "s1") ");"
			      "ports = ( { name = \"web\"; kind = \"listen\"; context = \"" SUBJECT(
				      "three_t") "\"; socket = \"%s\"; "
						 "mode = \"0666\"; to = \"store\"; connections = 80; "
						 "clients = ( " CLIENT("61000", "s0") ", " CLIENT(
							 "61001", "s1") " ); } );";

static const char TWO_STORES_RULES[] =
	"(type store_t) (call a_domain (store_t)) (typemember one_t store_t channel two_t)"
	"(call can_connect (one_t two_t)) (call can_connect (one_t store_t))"
	"(call can_relay (three_t one_t))";

static int open_as(const char *path, uid_t uid)
{
	int fd;

	cr_assert_eq(seteuid(uid), 0, "%m");
	fd = client_open(path, SOCK_STREAM);
	cr_assert_eq(seteuid(0), 0, "%m");
	return fd;
}

static bool is_served(struct world *world, void *opaque)
{
	(void)opaque;
	return world_domain(world, "four")->services[0].n_backlog > 0;
}

/* H7: an instance that accepts nobody holds up its own clients, and not those of another. */
Test(port_hostile, a_full_backlog_of_another_instance)
{
	static char text[8192];
	static policy_files policy;
	struct world world;
	int fds[N_CROWD];

	if (getuid() != 0)
		cr_skip_test("clients of several uids need root");
	policy = policy_of(TWO_STORES_RULES);
	snprintf(text, sizeof(text), TWO_STORES, test_path("web.sock"));
	world_open(&world, &(struct world_options){.manifest = text, .policy = policy});
	cr_assert_eq(chmod(test_folder(), 0711), 0); /* others come in */
	for (unsigned i = 0; i < N_CROWD; i++) {
		fds[i] = open_as(test_path("web.sock"), 61000);
		port_until_used(&world, "web", i + 1);
	}
	cr_assert_eq(world_domain(&world, "two")->services[0].n_backlog, MAX_BACKLOG);
	int other = open_as(test_path("web.sock"), 61001);
	world_until(&world, is_served, NULL, "the other instance is reached");
	for (unsigned i = 0; i < N_CROWD; i++)
		close(fds[i]);
	close(other);
	world_close(&world);
}
