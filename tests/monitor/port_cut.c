/*
 * Changes that cut channels of ports: the host's side is closed when the change has returned, nothing is
 * written after it (I1), what the host had been handed is reported, and a port is a domain to every kind of
 * change.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "monitor/view.h"
#include "tests/monitor/port_support.h"

struct scene {
	struct world world;
	uint64_t handle; /* the actor's */
	int fd;
};

/* The port has opened its end and has looked at its ring: it writes nothing more by itself. */
static bool is_at_rest(struct world *world, void *opaque)
{
	const struct ports *ports = world->monitor->ports;

	(void)opaque;
	return ports->ports[0].connections[0].state == CONNECTION_OPEN && !ports->first;
}

static void open_scene(struct scene *scene)
{
	const char *path = test_path("web.sock");

	port_open_world(&scene->world, WEB("%s", "stream", ""), path);
	scene->fd = client_open(path, SOCK_STREAM);
	scene->handle = port_accept(&scene->world, "two");
	world_until(&scene->world, is_at_rest, NULL, "the port has opened the channel");
}

static void close_scene(struct scene *scene)
{
	close(scene->fd);
	world_close(&scene->world);
}

/* The cut of the flow to the port. */
static const json_t *cut_to_host(const json_t *report)
{
	size_t i;
	json_t *cut;

	json_array_foreach (json_object_get(report, "cuts"), i, cut)
		if (strcmp(json_string_value(json_object_get(cut, "to")), "host/web") == 0)
			return cut;
	return NULL;
}

static struct change_request of_host(struct change_request request)
{
	request.guest = "host";
	return request;
}

static void expect_closed(const struct scene *scene)
{
	size_t n;

	/* Without another turn of the loop. */
	cr_expect(client_is_closed(scene->fd, &n), "the client's connection is still open");
	cr_expect_eq(scene->world.monitor->ports->ports[0].n_used, 0);
}

Test(port_cut, closes_the_socket_before_the_push_returns)
{
	struct scene scene;
	json_t *report;

	open_scene(&scene);
	cr_assert_eq(actor_do(&scene.world, "two", to_send(scene.handle, 1, 3, 1000, NO_TIMEOUT)), CALL_OK);
	report = world_push(&scene.world, POLICY_NO_CONNECT, STOP_ALL);
	cr_expect_eq(report_number(report, "flows.cut"), 2);
	json_decref(report);
	expect_closed(&scene);
	cr_expect_eq(actor_do(&scene.world, "two", to_send(scene.handle, 4, 1, 1000, 0)), CALL_REVOKED);
	close_scene(&scene);
}

/* A domain fills socket, monitor and ring; the client reads after the cut. */
Test(port_cut, nothing_is_written_after_it)
{
	struct scene scene;
	const json_t *cut;
	uint64_t n_sent;
	int64_t unread;
	json_t *report;
	size_t n;

	open_scene(&scene);
	actor_begin(&scene.world, "two", to_send(scene.handle, 1, 100000, 16000, NO_TIMEOUT));
	actor_until_blocked(&scene.world, "two");
	world_drift(&scene.world, 30000000);
	report = world_push(&scene.world, POLICY_NO_CONNECT, STOP_ALL);
	n_sent = world_mailbox(&scene.world, "two")->value[0] * 16000;
	cut = cut_to_host(report);
	cr_assert_not_null(cut);
	unread = json_integer_value(json_object_get(cut, "handed_over_unread"));
	cr_expect(client_is_closed(scene.fd, &n));
	cr_expect_gt(unread, 0);
	cr_expect_geq(unread, (int64_t)n, "what the client could still read had been handed over");
	/* All that was sent is accounted for: read by the client, or reported as discarded. */
	cr_expect_eq(n + (uint64_t)json_integer_value(json_object_get(cut, "discarded_bytes")), n_sent);
	free(audit_await(&scene.world, "handed_over_unread="));
	json_decref(report);
	cr_expect_eq(actor_finish(&scene.world, "two"), CALL_REVOKED);
	close_scene(&scene);
}

/* One direction: the other loses nothing (I4). */
Test(port_cut, of_one_direction_leaves_the_other)
{
	struct scene scene;
	char bytes[64];

	open_scene(&scene);
	world_push_quietly(&scene.world, POLICY_NO_SEND, STOP_ALL); /* the port may not send to two */
	cr_assert_eq(actor_do(&scene.world, "two", to_receive(scene.handle, 1, NO_TIMEOUT)), CALL_REVOKED);
	cr_assert_eq(actor_do(&scene.world, "two", to_send(scene.handle, 1, 1, 10, NO_TIMEOUT)), CALL_OK);
	cr_expect_eq(client_read(&scene.world, scene.fd, bytes, sizeof(bytes)), 10);
	cr_expect_eq(send(scene.fd, bytes, 1, MSG_NOSIGNAL), -1, "it can write no more");
	cr_expect_eq(errno, EPIPE);
	close_scene(&scene);
}

/* Nothing comes from the client any more, so that no read finds out: it has left all the same, and its place
 * is free. */
Test(port_cut, of_one_direction_and_a_client_that_leaves)
{
	struct scene scene;

	open_scene(&scene);
	world_push_quietly(&scene.world, POLICY_NO_SEND, STOP_ALL);
	port_until_idle(&scene.world);
	cr_expect_eq(port_used(&scene.world, "web"), 1);
	close(scene.fd);
	port_until_used(&scene.world, "web", 0);
	cr_expect_eq(actor_do(&scene.world, "two", to_send(scene.handle, 1, 1, 10, NO_TIMEOUT)),
	             CALL_PEER_CLOSED);
	scene.fd = -1;
	close_scene(&scene);
}

Test(port_cut, by_quarantine_and_release)
{
	struct scene scene;
	const char *path;
	char byte;
	int fd;

	open_scene(&scene);
	path = scene.world.monitor->ports->ports[0].from->path;
	change_quietly(&scene.world, of_host(to_quarantine("web")), 2);
	expect_closed(&scene);
	fd = client_open(path, SOCK_STREAM);
	cr_expect_eq(client_read(&scene.world, fd, &byte, 1), 0, "nobody is let in");
	close(fd);
	change_quietly(&scene.world, of_host(to_release("web")), 0);
	close(scene.fd);
	scene.fd = client_open(path, SOCK_STREAM);
	port_accept(&scene.world, "two");
	close_scene(&scene);
}

/* four_t may do nothing with two_t. */
Test(port_cut, by_relabel)
{
	struct scene scene;

	open_scene(&scene);
	change_quietly(&scene.world, of_host(to_relabel("web", SUBJECT("three_t"))), 0);
	cr_expect_eq(port_used(&scene.world, "web"), 1, "three_t may do all that one_t may");
	change_quietly(&scene.world, of_host(to_relabel("web", SUBJECT("four_t"))), 2);
	expect_closed(&scene);
	close_scene(&scene);
}

/*
 * Clients that have a context of their own, by their uid: policy asks about that, the service sees it, and a
 * push cuts them without the port's other clients.
 */
#define SELF_MAY                                                                                             \
	"(call can_connect (one_t two_t)) (call can_connect (three_t two_t)) (call can_relay (one_t "        \
	"three_t))"
#define SELF_MAY_NOT "(call can_connect (one_t two_t)) (call can_relay (one_t three_t))"
#define NO_RELAY "(call can_connect (one_t two_t)) (call can_connect (three_t two_t))"

static void expect_self(struct scene *scene, bool may)
{
	char byte;

	close(scene->fd);
	scene->fd = client_open(scene->world.monitor->ports->ports[0].from->path, SOCK_STREAM);
	if (may)
		scene->handle = port_accept(&scene->world, "two");
	else
		cr_expect_eq(client_read(&scene->world, scene->fd, &byte, 1), 0, "nobody is let in");
}

static void expect_listed(struct scene *scene)
{
	json_t *channels = view_channels(scene->world.monitor), *first = json_array_get(channels, 0);

	cr_expect_str_eq(json_string_value(json_object_get(first, "on_behalf_of")), SUBJECT("three_t"));
	json_decref(channels);
}

Test(port_cut, of_clients_with_a_context_of_their_own)
{
	struct scene scene;
	char entry[1024];
	static policy_files may, may_not, no_relay; /* for as long as the process lives */
	json_t *report;

	may = policy_of(SELF_MAY);
	may_not = policy_of(SELF_MAY_NOT);
	no_relay = policy_of(NO_RELAY);
	snprintf(entry, sizeof(entry), WEB("%s", "stream", "clients = ( { uid = %u; context = \"%s\"; } );"),
	         test_path("web.sock"), (unsigned)geteuid(), SUBJECT("three_t"));
	port_open_world(&scene.world, entry, "");
	scene.fd = -1;
	expect_self(&scene, false); /* open.cil lets one_t relay for nobody */
	free(audit_await(&scene.world, "specify_client"));
	world_push_quietly(&scene.world, may, STOP_ALL);
	expect_self(&scene, true);
	expect_listed(&scene);
	report = world_push(&scene.world, may_not, STOP_ALL);
	cr_expect_eq(report_number(report, "flows.cut"), 2);
	json_decref(report);
	expect_closed(&scene);
	world_push_quietly(&scene.world, may, STOP_ALL);
	expect_self(&scene, true);
	world_push_quietly(&scene.world, no_relay, STOP_ALL);
	expect_closed(&scene);
	expect_self(&scene, false);
	close_scene(&scene);
}

/* A connect that the service has not accepted. */
Test(port_cut, of_a_client_that_waits)
{
	struct scene scene;
	int fd;

	open_scene(&scene);
	fd = client_open(scene.world.monitor->ports->ports[0].from->path, SOCK_STREAM);
	port_until_used(&scene.world, "web", 2);
	world_drift(&scene.world, 20000000);
	world_push_quietly(&scene.world, POLICY_NOTHING, STOP_ALL);
	expect_closed(&scene);
	close(scene.fd);
	scene.fd = fd;
	expect_closed(&scene);
	close_scene(&scene);
}

/* The same policy again, and again (I5): no stop, no loss. */
Test(port_cut, not_by_a_policy_of_the_same_meaning)
{
	struct scene scene;
	struct image image;
	struct mailbox *mail;

	open_scene(&scene);
	mail = world_mailbox(&scene.world, "two");
	image = world_image(&scene.world);
	for (uint64_t i = 1; i <= 20; i++) {
		client_write(&scene.world, scene.fd, &i, sizeof(i));
		json_decref(world_push_image(&scene.world, &image, STOP_ALL));
		cr_assert_eq(actor_do(&scene.world, "two", to_receive(scene.handle, 1, NO_TIMEOUT)),
		             sizeof(i));
		cr_assert_eq(mail->value[1], i);
	}
	close(image.fd);
	close_scene(&scene);
}
