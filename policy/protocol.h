/*
 * The wire between the monitor and a security server.
 *
 * One packet of a SOCK_SEQPACKET socket is one question or one answer. The
 * monitor sends one question packet, the server answers with exactly one
 * packet of the same kind and id; then the next. So neither side can block the
 * other by filling the socket, and neither needs to queue. What does not fit
 * into a packet is asked in parts (policy/question.h).
 *
 * A packet is a header and fields: 32-bit numbers of the host's byte order,
 * and texts (a number that counts their bytes with the NUL, then the bytes).
 * Both ends are the same executable. Both check all that they receive: a
 * reader that runs over the end, or meets a text without its NUL, turns bad and
 * stays bad, and everything read from it then is 0 or "".
 * No state of its own; any thread.
 *
 *	kind		question			answer
 *	source		name; descriptor		-
 *	set booleans	n, n * (value, name)		-
 *	load		-				status, text, n_types, n_rules, n_booleans,
 *							mls, bytes, operator's context; descriptor
 *	decide		n_contexts, n, n_contexts *	n, n * (allowed, auditallow, auditdeny,
 *			context, n * (source,		flags)
 *			target, class)
 *	validate	n, n * context			n, n * flags
 *	member		source, target, class		flags, context
 *	explain		source, target, class, bit	text
 *	booleans	first				total, n, n * (value, name)
 */
#ifndef PORTCULLIS_POLICY_PROTOCOL_H
#define PORTCULLIS_POLICY_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTOCOL_PACKET_BYTES (64u << 10)
#define PROTOCOL_TEXT_BYTES (48u << 10)     /* the longest text, with its NUL */
#define PROTOCOL_BOOLEAN_BYTES 256u         /* a boolean's name, with its NUL */
#define PROTOCOL_SOURCE_NAME_BYTES 4096u    /* a source's name, with its NUL */
#define PROTOCOL_MAX_BOOLEANS (64u << 10)   /* of one policy */
#define PROTOCOL_BOOLEANS_PER_PACKET 200u   /* so many of the longest fit */
#define PROTOCOL_CONTEXTS_PER_PACKET 300u   /* likewise */
#define PROTOCOL_QUESTIONS_PER_PACKET 1000u /* with so many contexts */

enum protocol_kind {
	PROTOCOL_SOURCE = 1,
	PROTOCOL_SET_BOOLEANS,
	PROTOCOL_LOAD,
	PROTOCOL_DECIDE,
	PROTOCOL_VALIDATE,
	PROTOCOL_MEMBER,
	PROTOCOL_EXPLAIN,
	PROTOCOL_BOOLEANS,
	PROTOCOL_KINDS
};

enum protocol_flags {
	PROTOCOL_KNOWN = 1u << 0,
	PROTOCOL_PERMISSIVE = 1u << 1,
	PROTOCOL_HAS_RULE = 1u << 2,
};

struct packet {
	uint32_t kind;
	uint64_t id;
	int fd;        /* one that travels with it; -1 */
	bool bad;      /* something did not fit, or was not as it must be */
	size_t used;   /* written, or received */
	size_t cursor; /* read so far */
	uint8_t bytes[PROTOCOL_PACKET_BYTES];
};

/* Begins a packet to write. */
void packet_begin(struct packet *packet, enum protocol_kind kind, uint64_t id);
void packet_put(struct packet *packet, uint32_t number);
void packet_put_text(struct packet *packet, const char *text);

/* Overwrites a number that stands at that offset (of packet->used before it was put). */
void packet_patch(struct packet *packet, size_t offset, uint32_t number);

uint32_t packet_get(struct packet *packet);

/* A text of at most max_bytes with its NUL, inside the packet: valid as long as that is. Never NULL. */
const char *packet_get_text(struct packet *packet, size_t max_bytes);

/* True if all was read, nothing was bad and nothing is left. */
bool packet_done(const struct packet *packet);

/* Sends it, with its descriptor, which stays the caller's. 0 or -errno (-EMSGSIZE: it is bad). */
int packet_send(int socket_fd, const struct packet *packet, int flags);

/*
 * Receives one packet and at most one descriptor, which is then the caller's.
 * 1, 0 at the end of the stream, -errno (-EAGAIN), or -EPROTO for what is no
 * packet; descriptors of such are closed.
 */
int packet_receive(int socket_fd, struct packet *packet, int flags);

/*
 * A number with up to 2 descriptors, for the launcher. As packet_send and
 * packet_receive; sending does not block.
 */
int protocol_send_fds(int socket_fd, uint64_t number, const int *fds, size_t n_fds);
int protocol_receive_fds(int socket_fd, uint64_t *number, int *fds, size_t *n_fds, int flags);

#endif
