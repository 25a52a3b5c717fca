#include "tests/monitor/port_support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

void port_open_world(struct world *world, const char *ports, const char *path)
{
	static char text[16 << 10];
	char filled[4096];

	snprintf(filled, sizeof(filled), ports, path);
	snprintf(text, sizeof(text), "%s\nports = ( %s );\n", MANIFEST_USUAL, filled);
	world_open(world, &(struct world_options){.manifest = text});
}

int client_open(const char *path, int type)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0, "%s: %m", path);
	return fd;
}

struct read_state {
	int fd;
	void *buffer;
	size_t bytes;
	ssize_t result;
};

static bool has_read(struct world *world, void *opaque)
{
	struct read_state *state = opaque;

	(void)world;
	state->result = recv(state->fd, state->buffer, state->bytes, MSG_DONTWAIT);
	if (state->result < 0)
		state->result = -errno;
	return state->result != -EAGAIN;
}

ssize_t client_read(struct world *world, int fd, void *buffer, size_t bytes)
{
	struct read_state state = {fd, buffer, bytes, 0};

	world_until(world, has_read, &state, "a client reads");
	return state.result;
}

static bool has_written(struct world *world, void *opaque)
{
	struct read_state *state = opaque;
	ssize_t n = send(state->fd, state->buffer, state->bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	(void)world;
	cr_assert(n >= 0 || errno == EAGAIN, "%m");
	if (n > 0) {
		state->buffer = (char *)state->buffer + n;
		state->bytes -= (size_t)n;
	}
	return state->bytes == 0;
}

void client_write(struct world *world, int fd, const void *bytes, size_t n)
{
	struct read_state state = {fd, (void *)bytes, n, 0};

	world_until(world, has_written, &state, "a client writes");
}

ssize_t client_read_all(struct world *world, int fd)
{
	static char buffer[64 << 10];
	ssize_t all = 0, n;

	while ((n = client_read(world, fd, buffer, sizeof(buffer))) > 0)
		all += n;
	return n < 0 ? n : all;
}

void client_read_exactly(struct world *world, int fd, size_t n)
{
	static char buffer[64 << 10];

	while (n > 0) {
		ssize_t got = client_read(world, fd, buffer, n < sizeof(buffer) ? n : sizeof(buffer));

		cr_assert_gt(got, 0, "%zd, with %zu bytes to come", got, n);
		n -= (size_t)got;
	}
}

bool client_is_closed(int fd, size_t *n)
{
	static char buffer[64 << 10];
	ssize_t got;

	*n = 0;
	while ((got = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0)
		*n += (size_t)got;
	return got == 0 || errno == ECONNRESET;
}

uint64_t port_accept(struct world *world, const char *actor)
{
	cr_assert_eq(actor_do(world, actor, (struct command){ACTOR_ACCEPT, {NO_TIMEOUT}, NULL}), CALL_OK);
	return world_mailbox(world, actor)->value[0];
}

struct command to_send(uint64_t handle, uint64_t counter, uint64_t n, uint64_t bytes, uint64_t timeout)
{
	return (struct command){ACTOR_SEND, {handle, counter, n, bytes, timeout}, NULL};
}

struct command to_receive(uint64_t handle, uint64_t most, uint64_t timeout)
{
	return (struct command){ACTOR_RECEIVE, {handle, most, timeout}, NULL};
}

uint32_t port_used(struct world *world, const char *name)
{
	const struct ports *ports = world->monitor->ports;

	for (uint32_t p = 0; p < ports->n_ports; p++)
		if (strcmp(ports->ports[p].from->name, name) == 0)
			return ports->ports[p].n_used;
	cr_assert_fail("no port \"%s\"", name);
	return 0;
}

struct used_state {
	const char *name;
	uint32_t n;
};

static bool is_used(struct world *world, void *opaque)
{
	const struct used_state *state = opaque;

	return port_used(world, state->name) == state->n;
}

void port_until_used(struct world *world, const char *name, uint32_t n)
{
	struct used_state state = {name, n};

	world_until(world, is_used, &state, "connections of a port come or go");
}

void port_until_idle(struct world *world)
{
	const unsigned most = 2000, enough = 3;
	unsigned n_quiet = 0;

	for (unsigned n = 0; n_quiet < enough; n++) {
		cr_assert_lt(n, most, "the loop goes round and round");
		n_quiet = loop_step(world->monitor->loop, loop_now() + 5000000) ? 0 : n_quiet + 1;
	}
}
