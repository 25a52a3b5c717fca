/*
 * Ports in a world: the usual guest with ports beside it, and clients of its sockets in the test itself,
 * which never block: they run the monitor's loop instead.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_PORT_SUPPORT_H
#define PORTCULLIS_TESTS_MONITOR_PORT_SUPPORT_H

#include <sys/socket.h>

#include "monitor/port_internal.h"
#include "tests/monitor/cli_child.h"
#include "tests/monitor/kind_support.h"
#include "tests/monitor/world.h"

/* What a listening port "web" of the type one_t needs; `more` is further keys. */
#define WEB(path, type, more)                                                                                \
	"{ name = \"web\"; kind = \"listen\"; context = \"" SUBJECT("one_t") "\"; socket = \"%s\"; "         \
									     "type = \"" type                \
									     "\"; to = \"svc\"; " more " }"

/* The usual guest, and these ports: entries of the manifest's list, in which %s is the path. */
void port_open_world(struct world *world, const char *ports, const char *path);

/* A client's end; it does not block. */
int client_open(const char *path, int type);

/* recv, running the loop as long as there is nothing: bytes, 0, -errno. */
ssize_t client_read(struct world *world, int fd, void *buffer, size_t bytes);
/* All of it, or fails the test. */
void client_write(struct world *world, int fd, const void *bytes, size_t n);
/* So many bytes, whatever they are. */
void client_read_exactly(struct world *world, int fd, size_t n);
/* Reads to the end: how many bytes there were; -errno. */
ssize_t client_read_all(struct world *world, int fd);
/* Without running the loop: whether the other side has closed, after n bytes that may still be read. */
bool client_is_closed(int fd, size_t *n);

/* Handle of the next channel at the actor. */
uint64_t port_accept(struct world *world, const char *actor);
struct command to_send(uint64_t handle, uint64_t counter, uint64_t n, uint64_t bytes, uint64_t timeout);
struct command to_receive(uint64_t handle, uint64_t most, uint64_t timeout);

/* Connections of the port that are in use. */
uint32_t port_used(struct world *world, const char *name);
/* Runs the loop until nothing happens any more: a loop that goes round for nothing fails. */
void port_until_idle(struct world *world);
/* Runs the loop until there are so many. */
void port_until_used(struct world *world, const char *name, uint32_t n);

#endif
