/*
 * How a test's domain program and the test on the host talk past all channels.
 *
 * The last slot of a domain is never used by a channel in these tests: its
 * bulk area is a mailbox, which the domain reaches in its outbox window and the
 * host through window_outbox. Each word has one writer. The host rouses a
 * domain that waits by raising its event count (domain_wake).
 */
#ifndef PORTCULLIS_TESTS_MAILBOX_H
#define PORTCULLIS_TESTS_MAILBOX_H

#include <stdint.h>

#define MAILBOX_READY 0x6d61696c626f7821ull
#define MAILBOX_TEXT_BYTES 64u
#define MAILBOX_LANES 4u
#define MAILBOX_VALUES 8u

/* What t_actor does; arguments are in brackets, values behind the arrow. */
enum actor_operation {
	ACTOR_CONNECT = 1, /* text; [timeout]: connects, and waits until it is accepted -> handle */
	ACTOR_ACCEPT,      /* [timeout] -> handle, number of the channel's service in text: none */
	ACTOR_CLOSE,       /* [handle] */
	ACTOR_SEND,        /* [handle, first counter, n, bytes, timeout] -> n sent */
	ACTOR_RECEIVE, /* [handle, most, timeout] -> n taken, first counter, last counter, n out of order */
	ACTOR_CALL,    /* [handle, counter, timeout] -> whether the request went */
	ACTOR_POLL,    /* [handle, want, timeout] -> ready */
	ACTOR_INFO, /* [handle] -> send_state, receive_state, sent, received, lossless bits, opened_at_policy,
	             * number of the channel, lost */
	ACTOR_EXIT, /* [status] */
	ACTOR_FAULT,       /* writes to address 0 */
	ACTOR_SYSTEM_CALL, /* [number, a0, a1] */
	ACTOR_COUNT,    /* [handle]: counts in the bulk area of its outbox until told to end -> last count */
	ACTOR_WATCH,    /* [handle]: reads that word in its inbox until told to end -> loops, largest, loop of
	                   the    last that was not zero */
	ACTOR_SCRIBBLE, /* [seed]: random words over its outboxes until told to end -> rounds */
	ACTOR_LOOK,     /* [slot of the domain] -> words of the inbox slot that are not zero */
	ACTOR_STORM,    /* text; [n, timeout]: connects, closing what it gets -> granted, denied, revoked,
	                   others, last other */
	ACTOR_SERVE,    /* accepts and closes until told to end -> accepted */
	ACTOR_PING,     /* [handle, n]: sends a number and waits for it to come back -> n done */
	ACTOR_PONG,     /* [handle, n]: waits for a number and sends it back -> n done */
	ACTOR_LOG,      /* text; [n] */
	ACTOR_WRITE,    /* [address, value]: one store wherever that is */
	ACTOR_CONNECT_FOR, /* text; [handle of the parent, timeout] -> handle */
	ACTOR_PEER,        /* [handle] -> the peer's context, as text over all values */
	ACTOR_NOTIFY,      /* [slot of the domain, n]: until told to end -> n done, n refused */
	ACTOR_EVENTS,      /* -> what the kernel has counted of this domain's events */
	ACTOR_OPEN,        /* text; [timeout, for a parent?, its handle]: connects, and does not wait for the
	                      accept -> handle */
	ACTOR_AWAIT,       /* [handle, timeout]: until it is accepted */
};

/* One kind of traffic of t_traffic: what a client sends to one service. */
struct mailbox_lane {
	/* The client's. */
	uint64_t attempt; /* counter of the message that it sends or is about to send */
	uint64_t opened;  /* channels so far */
	uint64_t is_open;
	uint64_t refused; /* connects that failed */
	int64_t result;   /* of the last send or connect that failed */

	/* The server's. */
	uint64_t taken; /* counter of the last message that it was handed */
	uint64_t n_taken;
	uint64_t wrong;    /* messages that were lost, repeated or out of order */
	uint64_t accepted; /* channels so far */
	uint64_t revoked;  /* channels that ended so */
	uint64_t ended;    /* channels that ended otherwise */
	int64_t ending;    /* how */
	uint8_t pad[32];
};

struct mailbox {
	/* The host's. */
	uint64_t command; /* number; a new one is to be carried out */
	uint64_t operation;
	uint64_t argument[6];
	uint64_t end;  /* command whose loop is to end */
	uint64_t want; /* lanes that a client keeps open, bit by bit */
	char text[MAILBOX_TEXT_BYTES];

	/* The domain's. */
	uint64_t ready; /* MAILBOX_READY */
	uint64_t begun; /* command */
	uint64_t done;  /* command */
	int64_t result;
	uint64_t value[MAILBOX_VALUES];
	struct mailbox_lane lane[MAILBOX_LANES];
};

_Static_assert(sizeof(struct mailbox) <= 4096, "fits the smallest bulk area");

#define MAILBOX_LOAD(word) __atomic_load_n(&(word), __ATOMIC_SEQ_CST)
#define MAILBOX_STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_SEQ_CST)

#endif
