/*
 * What port.c, port_connection.c, port_copy.c, port_listen.c and port_open.c share. Loop thread only.
 */
#ifndef PORTCULLIS_MONITOR_PORT_INTERNAL_H
#define PORTCULLIS_MONITOR_PORT_INTERNAL_H

#include "guest/lib/ring.h"
#include "monitor/control_socket.h"
#include "monitor/loop.h"
#include "monitor/port.h"
#include "monitor/port_io.h"
#include "monitor/registry.h"

/* One turn of the loop. */
#define TURN_BYTES (1u << 20)     /* copied, all connections */
#define TURN_CONNECTIONS 64u      /* looked at */
#define CONNECTION_MESSAGES 16u   /* of one connection */
#define TURN_ACCEPTS 16u          /* of one port */
#define RETRY_NS 20000000ull      /* a full backlog, a lack of descriptors */
#define KEPT_DESCRIPTORS 256u     /* of the process, for others than connections */
#define REFUSALS_NS 1000000000ull /* between two notices of refused clients */

enum connection_state {
	CONNECTION_FREE,
	CONNECTION_WAITING, /* for its turn to connect */
	CONNECTION_ASKING,  /* mediation has not decided yet */
	CONNECTION_OPENING, /* granted; the peer has not accepted */
	CONNECTION_OPEN,
};

struct connection {
	struct port *port;
	enum connection_state state;
	struct port_io io[2];           /* of a socket the first is both */
	struct port_io *reads, *writes; /* NULL: that direction has no descriptor */
	uid_t uid;                      /* of a client */
	policy_sid identity;            /* of a client that has a context of its own; else SID_NONE */
	uint32_t slot;
	uint64_t generation;
	struct ring ring;
	uint64_t last_word; /* of its record, as last acted on */
	bool fill_over;     /* descriptor to ring: nothing more */
	bool drain_over;    /* ring to descriptor: nothing more */
	bool wants_room;    /* the ring was full */
	bool hung_up;       /* the client of a socket is gone, or has ended both directions */
	bool peer_gone;     /* closed or died; what is pending is still written */
	bool notify;        /* the peer is to be woken */
	uint8_t *pending;   /* what the descriptor has not taken of the last message */
	size_t n_pending, pending_at;
	bool queued;
	struct connection *next; /* in a queue */
};

struct port {
	struct ports *ports;
	const struct manifest_port *from;
	struct domain *domain;
	struct connection *connections; /* from->connections of them */
	struct connection **by_slot;    /* counted from the domain's first; NULL: none of ours */
	uint32_t n_used;
	struct connection *waiting_first, *waiting_last; /* to connect, who asks next first */
	struct connection *asking;                       /* a domain has one connect at a time */

	/* LISTEN: the socket. CONNECT: the directory of the socket (O_PATH). STDIO, FILE: to read and to
	 * write. */
	int fd, out_fd;
	char *base;                   /* CONNECT: the socket's name there */
	struct control_socket socket; /* LISTEN */
	bool listening;
	policy_sid *identities; /* LISTEN: of from->clients */
	struct loop_timer retry;
	uint64_t refused, refused_told; /* clients */
	const char *refused_why;        /* the last */
	uint64_t told_ns;
};

struct ports {
	struct monitor *monitor;
	struct guest *host;
	struct port *ports;
	uint32_t n_ports;
	bool started;
	int most_fd;                     /* connections get no descriptor from here on */
	struct connection *first, *last; /* to be looked at */
	struct loop_timer turn;
	size_t turn_bytes; /* still to be copied in this turn */
	uint8_t *scratch;  /* one message */
	size_t scratch_bytes;
};

/* ---- port_open.c ---- */

int port_open(struct port *port, char why[static WHY_BYTES]);
void port_close(struct port *port);
/* A socket connected to the port's; -EAGAIN: later; -errno: nobody serves it. CONNECT. */
int port_dial(struct port *port);

/* ---- port_listen.c ---- */

void port_listen(struct port *port);
void port_unlisten(struct port *port);
/* A client was not let in. They are many and may be hostile: they are counted, and told of together. */
void port_refuse(struct port *port, const char *why);
/* Tells what is not told yet, once in a while. */
void port_tell_refused(struct port *port);
/* Contexts of clients. -EINVAL: the policy does not know one; -ENOMEM. */
int port_map_clients(struct port *port, char why[static WHY_BYTES]);

/* ---- port_connection.c: from nothing to an open ring, and back ---- */

/* NULL: as many as the manifest allows are in use. */
struct connection *connection_take(struct port *port);
/* Takes the descriptors, -1: none; the same twice: a socket. On failure the connection is free again. */
int connection_attach(struct connection *connection, int reads, int writes);
/* The client's connect is to be made. */
void connection_begin(struct connection *connection);
/* Whether a domain's connect waits for the port's accept; the domain may have gone since. */
bool port_has_waiting(const struct port *port);
/* Connects and accepts whatever can be now. */
void port_advance(struct port *port);
/* The ring of a channel that both ends hold. */
void connection_open(struct connection *connection);
/* The channel ends (END_CLOSED, END_DIED), the descriptors are closed, the connection is free. */
void connection_end(struct connection *connection, enum end_fate fate);
/* One that has no channel yet. */
void connection_drop(struct connection *connection);
uint64_t connection_word(const struct connection *connection);
/* Granted, and neither accepted nor given up by the peer. */
bool connection_is_waiting(const struct connection *connection);
/* A line for people and the audit trail. */
void port_tell(struct port *port, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- port_copy.c: open rings ---- */

/* Whether there may be something to copy, or its record has changed. */
bool connection_has_work(struct connection *connection);
/* Acts on its record alone: after a cut nothing is left to write. May end it. */
void connection_look(struct connection *connection);
/* Copies what the turn allows. May end it. */
void connection_copy(struct connection *connection);

/* ---- port.c ---- */

/* It is looked at in this turn or a later one. */
void connection_queue(struct connection *connection);

#endif
