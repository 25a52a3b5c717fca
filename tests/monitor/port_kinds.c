/*
 * Ports that domains connect to: a socket of the host, files, and what happens when there is nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "monitor/mediation.h"
#include "monitor/port.h"
#include "tests/monitor/port_support.h"
#include "vmm/window.h"

#define DB(more)                                                                                             \
	"{ name = \"db\"; kind = \"connect\"; context = \"" SUBJECT("two_t") "\"; socket = \"%s\"; " more " }"

static int listen_at(const char *path, int type)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fd, 8), 0);
	return fd;
}

static bool has_client(struct world *world, void *opaque)
{
	int *fd = opaque, client = accept4(fd[0], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	(void)world;
	if (client >= 0)
		fd[1] = client;
	return client >= 0;
}

static int accept_client(struct world *world, int fd)
{
	int fds[] = {fd, -1};

	world_until(world, has_client, fds, "the monitor connects");
	return fds[1];
}

static uint64_t connect_to(struct world *world, const char *service)
{
	cr_assert_eq(actor_do(world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, service}), CALL_OK);
	return world_mailbox(world, "one")->value[0];
}

Test(port_kinds, a_domain_reaches_a_socket_of_the_host)
{
	const char *path = test_path("db.sock");
	int fd = listen_at(path, SOCK_STREAM), client;
	struct world world;
	uint64_t handle;
	char bytes[16];

	port_open_world(&world, DB("offers = \"base\";"), path);
	handle = connect_to(&world, "base");
	client = accept_client(&world, fd);
	cr_assert_eq(actor_do(&world, "one", to_send(handle, 1, 1, 8, NO_TIMEOUT)), CALL_OK);
	cr_expect_eq(client_read(&world, client, bytes, sizeof(bytes)), 8);
	client_write(&world, client, bytes, 8);
	cr_assert_eq(actor_do(&world, "one", to_receive(handle, 1, NO_TIMEOUT)), 8);
	close(client);
	cr_assert_eq(actor_do(&world, "one", to_receive(handle, 1, NO_TIMEOUT)), 0, "the end");
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {handle}, NULL}), CALL_OK);
	port_until_used(&world, "db", 0);
	/* Whoever serves there may start anew: the path is what counts. */
	close(fd);
	unlink(path);
	fd = listen_at(path, SOCK_STREAM);
	connect_to(&world, "host/base");
	close(accept_client(&world, fd));
	close(fd);
	world_close(&world);
}

Test(port_kinds, nobody_at_the_socket)
{
	const char *path = test_path("db.sock");
	struct world world;
	int64_t result;

	port_open_world(&world, DB(""), path);
	result = actor_do(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "db"});
	if (result == CALL_OK) /* accepted, and ended at once */
		result = actor_do(&world, "one",
		                  to_receive(world_mailbox(&world, "one")->value[0], 1, NO_TIMEOUT));
	cr_expect_eq(result, CALL_PEER_DIED);
	free(audit_await(&world, "No such file"));
	world_close(&world);
}

/* So many for one client, whatever the port has left. */
Test(port_kinds, a_service_limits_its_clients)
{
	const char *path = test_path("db.sock");
	int fd = listen_at(path, SOCK_SEQPACKET);
	struct world world;

	port_open_world(&world, DB("type = \"seqpacket\"; offers = { name = \"db\"; per_client = 2; };"),
	                path);
	connect_to(&world, "db");
	connect_to(&world, "db");
	cr_expect_eq(actor_do(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "db"}),
	             CALL_NO_SLOT);
	close(fd);
	world_close(&world);
}

/* As many connections as the manifest says, whoever has them, each in a slot that the port knows (H7, I6). */
Test(port_kinds, two_domains_share_two_connections)
{
	static const char *const names[] = {"one", "three"};
	const char *path = test_path("db.sock");
	int fd = listen_at(path, SOCK_SEQPACKET), client[2];
	struct world world;
	uint64_t handle[2], word = 7;

	port_open_world(&world, DB("type = \"seqpacket\"; connections = 2;"), path);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(actor_do(&world, names[i], (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "db"}),
		             CALL_OK);
		handle[i] = world_mailbox(&world, names[i])->value[0];
		client[i] = accept_client(&world, fd);
	}
	for (struct channel *channel = world.monitor->registry->first; channel; channel = channel->next)
		cr_assert_lt(channel->end[SIDE_SERVER].slot - channel->end[SIDE_SERVER].domain->first_slot,
		             2);
	cr_expect_eq(actor_do(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "db"}),
	             CALL_NO_SLOT);
	for (unsigned i = 0; i < 2; i++) {
		client_write(&world, client[i], &word, sizeof(word));
		cr_assert_eq(actor_do(&world, names[i], to_receive(handle[i], 1, NO_TIMEOUT)), sizeof(word));
		cr_assert_eq(actor_do(&world, names[i], (struct command){ACTOR_CLOSE, {handle[i]}, NULL}),
		             CALL_OK);
		close(client[i]);
	}
	port_until_used(&world, "db", 0);
	close(fd);
	world_close(&world);
}

#define FILE_PORT(access, more)                                                                              \
	"{ name = \"log\"; kind = \"file\"; context = \"" SUBJECT(                                           \
		"two_t") "\"; file = \"%s\"; access = \"" access "\"; " more " }"

static size_t file_bytes(const char *path)
{
	FILE *file = fopen(path, "re");
	long n;

	cr_assert_not_null(file);
	fseek(file, 0, SEEK_END);
	n = ftell(file);
	fclose(file);
	return (size_t)n;
}

/* What it appends is there when its connection has gone. */
Test(port_kinds, a_domain_appends_to_a_file)
{
	const char *path = test_file("log", "begin\n");
	struct world world;
	uint64_t handle;

	port_open_world(&world, FILE_PORT("append", ""), path);
	handle = connect_to(&world, "log");
	cr_assert_eq(actor_do(&world, "one", to_send(handle, 1, 100, 30000, NO_TIMEOUT)), CALL_OK);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {handle}, NULL}), CALL_OK);
	port_until_used(&world, "log", 0);
	cr_expect_eq(file_bytes(path), 6 + 100 * 30000);
	world_close(&world);
	cr_expect_eq(file_bytes(path), 6 + 100 * 30000);
}

/* Each connection reads it from its begin, then its end. */
/* A connect of the domain that the loop has no turn for. Its slot. */
static uint32_t connect_behind_the_loop(struct world *world)
{
	struct guest *guest = world_guest(world);
	struct guest_request request = {
		.call = HYPERCALL_CONNECT, .argument = {strlen("log"), UINT64_MAX}, .text = "log"};

	cr_assert_gt(mediation_request(guest, &request), 0);
	cr_assert_eq(machine_domain_page(guest->machine, 0)->connect_result, CALL_OK);
	return machine_domain_page(guest->machine, 0)->connect_slot;
}

static bool is_at_rest(struct world *world, void *opaque)
{
	(void)opaque;
	return !ports_are_busy(world->monitor);
}

/* What it had sent before the port came to accept is written, and a monitor whose guests are over waits for
 * it. */
Test(port_kinds, a_domain_writes_to_a_file_and_leaves_before_the_accept)
{
	const char *path = test_path("log");
	struct guest_request close_it = {.call = HYPERCALL_CLOSE};
	struct outbox_header *header;
	struct ring_cell *cell;
	struct world world;
	char bytes[16] = "";
	FILE *file;

	port_open_world(&world, FILE_PORT("append", ""), path);
	cr_assert_eq(
		actor_do(&world, "one", (struct command){ACTOR_CLOSE, {connect_to(&world, "log")}, NULL}),
		CALL_OK);
	world_until(&world, is_at_rest, NULL, "nothing is under way");
	close_it.argument[0] = connect_behind_the_loop(&world);
	header = window_outbox(world_guest(&world)->machine, (uint32_t)close_it.argument[0]);
	cell = &ring_cells(header)[1];
	memcpy(cell->bytes, "farewell", 8);
	header->written = 1;
	header->written_bytes = 8;
	cell->commit = 1ull << RING_LENGTH_BITS | 8;
	cr_assert_eq(mediation_request(world_guest(&world), &close_it), CALL_OK);
	cr_expect(ports_are_busy(world.monitor), "it would have been lost in silence");
	world_until(&world, is_at_rest, NULL, "it is written");
	file = fopen(path, "r");
	cr_assert_not_null(file);
	cr_assert_eq(fread(bytes, 1, sizeof(bytes), file), 8);
	cr_expect_str_eq(bytes, "farewell");
	fclose(file);
	world_close(&world);
}

Test(port_kinds, a_domain_reads_a_file)
{
	static uint64_t counters[9000];
	const char *path = test_path("numbers");
	struct world world;
	struct mailbox *mail;
	FILE *file = fopen(path, "we");

	for (uint64_t i = 0; i < 9000; i++)
		counters[i] = i;
	cr_assert_eq(fwrite(counters, sizeof(counters), 1, file), 1);
	fclose(file);
	port_open_world(&world, FILE_PORT("read", ""), path);
	mail = world_mailbox(&world, "one");
	for (int i = 0; i < 2; i++) {
		uint64_t handle = connect_to(&world, "log");

		/* 72,000 bytes in chunks of a quarter of the bulk area, then an empty one. */
		cr_assert_eq(actor_do(&world, "one", to_receive(handle, 1, NO_TIMEOUT)), 16384);
		cr_expect_eq(mail->value[1], 0);
		cr_assert_eq(actor_do(&world, "one", to_receive(handle, 1, NO_TIMEOUT)), 16384);
		cr_expect_eq(mail->value[1], 2048);
		for (int64_t n = 1; n > 0;)
			n = actor_do(&world, "one", to_receive(handle, 1, NO_TIMEOUT));
		cr_expect_eq(actor_do(&world, "one", to_receive(handle, 1, NO_TIMEOUT)), CALL_PEER_CLOSED);
		cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CLOSE, {handle}, NULL}), CALL_OK);
	}
	port_until_used(&world, "log", 0);
	world_close(&world);
}

/* A confined process with workers: one file is read to its end, another is written, and the run ends when
 * that is done. */
Test(port_kinds, files_of_a_confined_run)
{
	char text[4096], data[1200], base[PATH_MAX];
	const char *book, *log, *rules;
	struct child child;

	need_kvm();
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = i + 1 < sizeof(data) ? (char)('a' + i % 26) : '\0';
	book = test_file("book", data);
	log = test_path("log");
	rules = test_file("rules.cil", "(type a_t) (call a_domain (a_t)) (call can_connect (a_t a_t))");
	snprintf(text, sizeof(text),
	         "name = \"g\"; policy = ( \"%s\", \"%s\" );\n"
	         "domains = (\n"
	         "{ name = \"sink\"; program = \"sink\"; args = ( \"in\" ); offers = ( \"in\" ); context = "
	         "\"" SUBJECT("a_t") "\"; },\n"
	                             "{ name = \"source\"; program = \"source\"; args = ( \"log\" ); data = "
	                             "\"%s\"; context = \"" SUBJECT(
					     "a_t") "\"; } );\n"
	                                            "ports = (\n"
	                                            "{ name = \"book\"; kind = \"file\"; file = \"%s\"; to = "
	                                            "\"in\"; context = \"" SUBJECT(
							    "a_t") "\"; },\n"
	                                                           "{ name = \"log\"; kind = \"file\"; file "
	                                                           "= \"%s\"; access = \"append\"; context = "
	                                                           "\"" SUBJECT("a_t") "\"; } );\n",
	         realpath("policy/base.cil", base), rules, book, book, log);
	child = RUN("run", test_file("m.conf", text), "--socket", test_path("s"));
	EXPECT(child, 0, "bytes 1199");
	cr_expect_eq(file_bytes(log), 1199);
}
