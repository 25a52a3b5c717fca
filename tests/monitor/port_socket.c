/*
 * Sockets as ports: messages there and back, back-pressure both ways, ends of directions and of connections,
 * limits.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/monitor/port_support.h"

#define MOST 100000u

struct scene {
	struct world world;
	const char *path;
};

static void open_scene(struct scene *scene, const char *ports)
{
	scene->path = test_path("web.sock");
	port_open_world(&scene->world, ports, scene->path);
}

Test(port_socket, packets_are_messages)
{
	struct scene scene;
	uint64_t counter, handle;
	struct mailbox *mail;
	int fd;

	open_scene(&scene, WEB("%s", "seqpacket", ""));
	mail = world_mailbox(&scene.world, "two");
	fd = client_open(scene.path, SOCK_SEQPACKET);
	handle = port_accept(&scene.world, "two");
	for (counter = 1; counter <= 200; counter++)
		client_write(&scene.world, fd, &counter, sizeof(counter));
	cr_assert_eq(actor_do(&scene.world, "two", to_receive(handle, 200, NO_TIMEOUT)), sizeof(counter));
	cr_expect_eq(mail->value[0], 200);
	cr_expect_eq(mail->value[2], 200);
	cr_expect_eq(mail->value[3], 0, "in order, none lost (I4)");
	actor_begin(&scene.world, "two", to_send(handle, 1, 200, 3000, NO_TIMEOUT));
	for (uint64_t i = 1; i <= 200; i++) {
		static char packet[4096];

		cr_assert_eq(client_read(&scene.world, fd, packet, sizeof(packet)), 3000);
		memcpy(&counter, packet, sizeof(counter));
		cr_assert_eq(counter, i);
	}
	cr_expect_eq(actor_finish(&scene.world, "two"), CALL_OK);
	close(fd);
	world_close(&scene.world);
}

Test(port_socket, an_empty_message_is_the_end_of_a_direction)
{
	struct scene scene;
	uint64_t handle;
	int fd;

	open_scene(&scene, WEB("%s", "stream", ""));
	fd = client_open(scene.path, SOCK_STREAM);
	handle = port_accept(&scene.world, "two");
	client_write(&scene.world, fd, "12345678", 8);
	cr_assert_eq(actor_do(&scene.world, "two", to_receive(handle, 1, NO_TIMEOUT)), 8);
	shutdown(fd, SHUT_WR);
	cr_assert_eq(actor_do(&scene.world, "two", to_receive(handle, 1, NO_TIMEOUT)), 0);
	/* The other direction goes on. */
	actor_begin(&scene.world, "two", to_send(handle, 1, 10, 50000, NO_TIMEOUT));
	client_read_exactly(&scene.world, fd, 10 * 50000);
	cr_assert_eq(actor_finish(&scene.world, "two"), CALL_OK);
	actor_begin(&scene.world, "two", to_send(handle, 1, 1, 0, NO_TIMEOUT));
	cr_expect_eq(client_read_all(&scene.world, fd), 0);
	cr_assert_eq(actor_finish(&scene.world, "two"), CALL_OK);
	cr_expect_eq(actor_do(&scene.world, "two", to_receive(handle, 1, NO_TIMEOUT)), CALL_PEER_CLOSED);
	port_until_used(&scene.world, "web", 0);
	close(fd);
	world_close(&scene.world);
}

/* What a domain sent before it closed arrives. */
Test(port_socket, a_close_is_passed_on_behind_what_was_sent)
{
	struct scene scene;
	uint64_t handle;
	int fd;

	open_scene(&scene, WEB("%s", "stream", ""));
	fd = client_open(scene.path, SOCK_STREAM);
	handle = port_accept(&scene.world, "two");
	actor_begin(&scene.world, "two", to_send(handle, 1, 40, 20000, NO_TIMEOUT));
	client_read_exactly(&scene.world, fd, 38 * 20000);
	cr_assert_eq(actor_finish(&scene.world, "two"), CALL_OK);
	cr_assert_eq(actor_do(&scene.world, "two", (struct command){ACTOR_CLOSE, {handle}, NULL}), CALL_OK);
	cr_expect_eq(client_read_all(&scene.world, fd), 2 * 20000);
	port_until_used(&scene.world, "web", 0);
	close(fd);
	world_close(&scene.world);
}

/* A server that never reads holds up its client, and the monitor keeps nothing of it (H7). */
Test(port_socket, a_full_ring_stops_the_client)
{
	struct scene scene;
	uint64_t handle, counter = 0, before;
	struct mailbox *mail;
	unsigned n_idle = 0;
	int fd;

	open_scene(&scene, WEB("%s", "seqpacket", ""));
	mail = world_mailbox(&scene.world, "two");
	fd = client_open(scene.path, SOCK_SEQPACKET);
	handle = port_accept(&scene.world, "two");
	before = resident_bytes();
	while (n_idle < 20 && counter < MOST) {
		counter++;
		if (send(fd, &counter, sizeof(counter), MSG_DONTWAIT) < 0) {
			counter--;
			n_idle++;
			world_turn(&scene.world);
		}
	}
	cr_assert_lt(counter, MOST, "the client was never stopped");
	cr_expect_lt(resident_bytes() - before, 4u << 20);
	cr_assert_eq(actor_do(&scene.world, "two", to_receive(handle, counter, NO_TIMEOUT)), sizeof(counter));
	cr_expect_eq(mail->value[0], counter);
	cr_expect_eq(mail->value[3], 0, "none is lost (I4)");
	close(fd);
	world_close(&scene.world);
}

/* A client that never reads holds up its domain, and nobody else. */
Test(port_socket, a_full_socket_stops_the_domain_alone)
{
	struct scene scene;
	uint64_t slow, quick, n_sent;
	char packet[64];
	int fd, other;

	open_scene(&scene, WEB("%s", "seqpacket", ""));
	fd = client_open(scene.path, SOCK_SEQPACKET);
	slow = port_accept(&scene.world, "two");
	other = client_open(scene.path, SOCK_SEQPACKET);
	quick = port_accept(&scene.world, "two");
	actor_begin(&scene.world, "two", to_send(slow, 1, MOST, 16000, NO_TIMEOUT));
	actor_until_blocked(&scene.world, "two");
	world_drift(&scene.world, 50000000);
	n_sent = world_mailbox(&scene.world, "two")->value[0];
	cr_expect_lt(n_sent, MOST);
	/* The loop goes on: so does a change, and it wakes the domain. */
	json_decref(change_do(&scene.world, to_cut(scene.world.monitor->registry->first->number)));
	cr_expect_eq(actor_finish(&scene.world, "two"), CALL_REVOKED);
	cr_assert_eq(actor_do(&scene.world, "two", to_send(quick, 1, 1, 10, NO_TIMEOUT)), CALL_OK);
	cr_expect_eq(client_read(&scene.world, other, packet, sizeof(packet)), 10);
	close(fd);
	close(other);
	world_close(&scene.world);
}

Test(port_socket, a_client_that_goes_is_told_of)
{
	struct scene scene;
	uint64_t handle;
	int64_t result;
	int fd;

	open_scene(&scene, WEB("%s", "stream", ""));
	fd = client_open(scene.path, SOCK_STREAM);
	handle = port_accept(&scene.world, "two");
	cr_assert_eq(actor_do(&scene.world, "two", to_send(handle, 1, 1, 1000, NO_TIMEOUT)), CALL_OK);
	world_turn(&scene.world);
	close(fd); /* with unread bytes: a reset */
	do
		result = actor_do(&scene.world, "two", to_send(handle, 1, 1, 1000, NO_TIMEOUT));
	while (result == CALL_OK);
	cr_expect_eq(result, CALL_PEER_DIED);
	port_until_used(&scene.world, "web", 0);
	world_close(&scene.world);
}

/* Its half-close was read, nothing else is: that it has left is seen, without a turn of the loop in between;
 * what it had sent is read first. */
Test(port_socket, a_client_that_goes_after_its_half_close)
{
	struct scene scene;
	uint64_t handle;
	int fd;

	open_scene(&scene, WEB("%s", "stream", ""));
	fd = client_open(scene.path, SOCK_STREAM);
	handle = port_accept(&scene.world, "two");
	client_write(&scene.world, fd, "12345678", 8);
	shutdown(fd, SHUT_WR);
	port_until_idle(&scene.world);
	cr_expect_eq(port_used(&scene.world, "web"), 1);
	close(fd);
	port_until_used(&scene.world, "web", 0);
	cr_expect_eq(actor_do(&scene.world, "two", to_receive(handle, 1, NO_TIMEOUT)), 8);
	cr_expect_eq(actor_do(&scene.world, "two", to_receive(handle, 1, NO_TIMEOUT)), 0);
	cr_expect_eq(actor_do(&scene.world, "two", to_receive(handle, 1, NO_TIMEOUT)), CALL_PEER_CLOSED);
	world_close(&scene.world);
}

/* So that one client cannot take every slot (H7). */
Test(port_socket, limits_hold)
{
	struct scene scene;
	int fd[3];
	char byte;

	open_scene(&scene, WEB("%s", "stream", "connections = 4; per_client = 2;"));
	for (int i = 0; i < 3; i++)
		fd[i] = client_open(scene.path, SOCK_STREAM);
	cr_expect_eq(client_read(&scene.world, fd[2], &byte, 1), 0, "the third is closed at once");
	port_accept(&scene.world, "two");
	port_accept(&scene.world, "two");
	cr_expect_eq(port_used(&scene.world, "web"), 2);
	close(fd[0]);
	close(fd[2]);
	cr_assert_eq(actor_do(&scene.world, "two", (struct command){ACTOR_CLOSE, {0}, NULL}), CALL_OK);
	port_until_used(&scene.world, "web", 1);
	fd[0] = client_open(scene.path, SOCK_STREAM);
	port_accept(&scene.world, "two");
	free(audit_await(&scene.world, "PORTCULLIS_PORT"));
	close(fd[0]);
	close(fd[1]);
	world_close(&scene.world);
}

Test(port_socket, its_file_is_safe_and_goes)
{
	struct scene scene;
	struct stat status;
	const char *path = test_path("web.sock");

	port_open_world(&scene.world, WEB("%s", "stream", "mode = \"0620\";"), path);
	cr_assert_eq(lstat(path, &status), 0);
	cr_expect(S_ISSOCK(status.st_mode));
	cr_expect_eq(status.st_mode & 0777, 0620);
	world_close(&scene.world);
	cr_expect_eq(lstat(path, &status), -1, "it is removed at the end");
}

/* Policy says no: the client is closed, and the denial is the port's (I9). */
Test(port_socket, a_denied_client_is_closed)
{
	struct scene scene;
	char byte;
	int fd;

	open_scene(&scene, WEB("%s", "stream", ""));
	world_push_quietly(&scene.world, POLICY_NOTHING, STOP_ALL);
	fd = client_open(scene.path, SOCK_STREAM);
	cr_expect_eq(client_read(&scene.world, fd, &byte, 1), 0);
	free(audit_await(&scene.world, "guest=\"host\" domain=\"web\""));
	close(fd);
	world_close(&scene.world);
}
