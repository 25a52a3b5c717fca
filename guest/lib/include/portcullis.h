/*
 * portcullis.h: what a domain program can do.
 *
 * A domain is one thread in an address space of its own. It reaches nothing but
 * its channels, and each channel exists because the host's policy allowed it. A
 * program includes this header alone, is linked with libdomain.a and domain.ld, and
 * defines main; docs/domains.md shows a whole one.
 *
 * Nothing here allocates behind your back except a channel's private state
 * (about 800 bytes of the heap for each slot). No function is reentrant: there is one thread.
 *
 * Time-outs are nanoseconds from the call. FOREVER waits for ever; 0 does not
 * wait, and then "not now" is CALL_AGAIN instead of CALL_TIMED_OUT.
 */
#ifndef PORTCULLIS_H
#define PORTCULLIS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOREVER UINT64_MAX
#define MILLISECONDS(n) ((uint64_t)(n)*1000000u)
#define SECONDS(n) ((uint64_t)(n)*1000000000u)

/* Results. All errors are negative and never change their number. */
#define CALL_OK 0
#define CALL_BAD_ARGUMENT (-1)
#define CALL_NO_CALL (-2)
#define CALL_DENIED (-3)      /* policy says no */
#define CALL_REVOKED (-4)     /* it was allowed and a change cut it */
#define CALL_PEER_CLOSED (-5) /* closed in order, and all that it sent has been read */
#define CALL_PEER_DIED (-6)
#define CALL_TIMED_OUT (-7)
#define CALL_NO_SERVICE (-8) /* nobody offers that name */
#define CALL_NO_SLOT (-9)    /* this end's or the peer's slots are all in use */
#define CALL_BUSY (-10)      /* the service's backlog is full, or a connect of this domain is under way */
#define CALL_AGAIN (-11)     /* nothing there now */
#define CALL_PENDING (-12)   /* connect: look at the domain page for the outcome */
#define CALL_TOO_LONG (-13)  /* the message is longer than the channel's or the caller's maximum */
#define CALL_NOT_OPEN (-14)  /* no such channel, or that direction was never allowed */
#define CALL_BROKEN (-15)    /* the peer's memory breaks the ring's rules */
#define CALL_QUARANTINED (-16)

/* "revoked" for CALL_REVOKED, and so on; "ok" for anything that is not negative. */
const char *call_error(int64_t result);

/* ---- the program ---- */

/* Yours. argv[0] is the domain's name. What it returns is the domain's exit status, 0 to 255; 0 is success.
 */
int main(int argc, char **argv);

/* Statuses that the library and the programs of Portcullis use. */
#define STATUS_OK 0
#define STATUS_FAILED 1
#define STATUS_USAGE 2
#define STATUS_ASSERTION 3

_Noreturn void domain_exit(int status);

/* Lets another domain of the same vCPU run, if one can. */
void domain_yield(void);

/* Do other domains run on this vCPU? Then waiting by spinning is in vain, and the library does not. */
bool domain_shares_vcpu(void);

/* If the condition does not hold: logs file, line and condition, ends with STATUS_ASSERTION. */
#define DOMAIN_ASSERT(condition)                                                                             \
	((condition) ? (void)0 : domain_assertion_failed(__FILE__, __LINE__, #condition))
_Noreturn void domain_assertion_failed(const char *file, int line, const char *condition);

/* ---- channels ---- */

/* One end of a channel. After channel_close every call says CALL_NOT_OPEN, until a new channel gets the slot.
 */
struct channel;

/*
 * Connects to a service. It returns with the host's answer and does not wait for the service to accept: what
 * is sent until then waits for it, 64 messages and one bulk area at most, also when this end closes
 * meanwhile. CALL_DENIED, CALL_NO_SERVICE, CALL_NO_SLOT, CALL_QUARANTINED: the host's answer. CALL_PEER_DIED:
 * the service has ended. CALL_BUSY: 64 connects wait for its accept already. CALL_TIMED_OUT: no answer in
 * time; one that is granted later is given back by this domain's next connect. CALL_BAD_ARGUMENT: no name, or
 * one of more than 31 bytes. A service of the own guest comes before those of other guests; "guest/service"
 * means that guest's alone. Over a flow that policy lets nobody answer on, it succeeds whether or not anybody
 * accepts.
 */
int channel_connect(const char *service, uint64_t timeout_ns, struct channel **channel);

/*
 * Waits until the service has accepted; CALL_OK also if it has closed since.
 * CALL_REVOKED: a flow of it was cut before it was accepted; channel_info tells which. CALL_PEER_CLOSED,
 * CALL_PEER_DIED: that happened before. CALL_TIMED_OUT,
 * CALL_AGAIN, CALL_NOT_OPEN. The channel stays open whatever it says: close it.
 */
int channel_await(struct channel *channel, uint64_t timeout_ns);

/*
 * As channel_connect, on behalf of the client of a channel that this domain accepted: policy decides with the
 * client's identity, and needs specify_client of this domain. Cut when `client` is cut; stays when `client`
 * closes.
 */
int channel_connect_for(const char *service, const struct channel *client, uint64_t timeout_ns,
                        struct channel **channel);

/* Takes the next connect to any service of this domain. CALL_TIMED_OUT, CALL_AGAIN, CALL_NO_SLOT. */
int channel_accept(uint64_t timeout_ns, struct channel **channel);

/*
 * Frees the end. The peer reads what was sent before, then gets CALL_PEER_CLOSED; but what was sent over a
 * flow that policy lets nobody answer on, and has not been read, is lost. CALL_NOT_OPEN.
 */
int channel_close(struct channel *channel);

/*
 * Sends one message, whole or not at all. Waits for room: up to 64 messages can be under way, and
 * their long ones (over 56 bytes) share the bulk area; two of half its size fit.
 * On a flow without flowctl it never waits and overwrites what the reader has not taken.
 * CALL_OK: the message is on its way; a cut can still discard it.
 * CALL_REVOKED, CALL_PEER_CLOSED, CALL_PEER_DIED, CALL_TIMED_OUT, CALL_AGAIN, CALL_NOT_OPEN, CALL_BROKEN:
 * nothing of it was sent. CALL_TOO_LONG: longer than channel_info.max_bytes.
 */
int channel_send(struct channel *channel, const void *message, size_t bytes, uint64_t timeout_ns);

/*
 * Takes one message: its length, 0 or more. All that was sent before a close or a death can be read, then
 * CALL_PEER_CLOSED or CALL_PEER_DIED.
 * CALL_REVOKED: the flow was cut. What was queued is gone, even if it had been sent long ago.
 * CALL_TOO_LONG: longer than `size`; it stays, and channel_info.next_bytes says how long it is.
 * CALL_BROKEN: the peer's memory breaks the rules. The channel stays so; close it.
 * CALL_TIMED_OUT, CALL_AGAIN, CALL_NOT_OPEN.
 */
int64_t channel_receive(struct channel *channel, void *buffer, size_t size, uint64_t timeout_ns);

/* Without waiting: CALL_AGAIN when there is no room, or no message. */
static inline int channel_try_send(struct channel *channel, const void *message, size_t bytes)
{
	return channel_send(channel, message, bytes, 0);
}

static inline int64_t channel_try_receive(struct channel *channel, void *buffer, size_t size)
{
	return channel_receive(channel, buffer, size, 0);
}

/*
 * Sends a request and waits for the next message as its reply, both within one time-out: the length of the
 * reply, or an error of channel_send or channel_receive; CALL_REVOKED also if the flow that took the request
 * is cut, and so nobody will answer. *sent (may be NULL) says whether the request went.
 */
int64_t channel_call(struct channel *channel, const void *request, size_t request_bytes, void *reply,
                     size_t reply_size, uint64_t timeout_ns, bool *sent);

/*
 * Sends bytes as messages of at most half the bulk area, so that two are under way. The time-out holds for
 * each message. *accepted (may be NULL) says how many bytes were sent, also with an error of channel_send.
 */
int channel_stream(struct channel *channel, const void *data, size_t bytes, uint64_t timeout_ns,
                   size_t *accepted);

/* The longest message that any channel of this domain takes; one to a guest with a smaller bulk area takes
 * less (channel_info.max_bytes). */
size_t channel_max_bytes(void);

/* What channel_poll waits for. */
#define POLL_MESSAGE 1u /* channel_receive would not wait: a message, or an error to be told */
#define POLL_ROOM 2u    /* channel_send of `bytes` would not wait */
#define POLL_END 8u     /* the peer is gone, or a direction that was open is cut */
#define POLL_ACCEPT 4u  /* a connect waits for channel_accept; `channel` is not looked at */

struct channel_poll {
	struct channel *channel;
	size_t bytes; /* for POLL_ROOM */
	uint32_t want;
	uint32_t ready; /* result: those of want that hold */
};

/* Waits until something is ready: how many items are. CALL_TIMED_OUT, or 0 for a time-out of 0. */
int channel_poll(struct channel_poll *items, size_t n_items, uint64_t timeout_ns);

struct channel_info {
	const char *service;
	const char *peer_context; /* user:role:type:level, from the host */
	uint64_t channel;         /* number, as `portcullis channel list` prints it */
	uint64_t opened_at_policy;
	bool accepted; /* this end is the server */
	bool waiting;  /* the service has not accepted yet */
	/* May a message still be sent, received? CALL_OK, or the error that says why not. */
	int send_state, receive_state;
	bool lossless_send, lossless_receive; /* the flow has flowctl */
	bool peer_closed, peer_died;
	/* Counted by this end since it opened; they stay after a cut. */
	uint64_t sent, sent_bytes;
	uint64_t taken_by_peer; /* of sent, as last seen: at least so many */
	uint64_t received, received_bytes;
	uint64_t lost;       /* on a flow without flowctl: overwritten before they were read */
	uint64_t next_bytes; /* of the message that was CALL_TOO_LONG */
	uint64_t max_bytes;  /* longest message that fits this channel, either way */
};

/* CALL_NOT_OPEN. The texts stay valid until the channel is closed. */
int channel_info(const struct channel *channel, struct channel_info *info);

/* ---- the rest of the world ---- */

/*
 * One line for the host's log: at most 1023 bytes, more is cut off. Knows %d %i %u %x %s %c %p %%, with h, l,
 * ll and z, a width and 0. The host limits the rate of lines, and says how many it dropped.
 */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As snprintf, with the conversions of log_line. */
size_t format_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t format_text_v(char *text, size_t size, const char *format, va_list arguments);

/* Nanoseconds since the guest was started; and of the host's clock (UTC since 1970), as set at that moment.
 */
uint64_t time_now(void);
uint64_t time_unix(void);

/* Waits without a channel. */
void time_wait(uint64_t ns);

/* Unpredictable bytes (ChaCha20 over a seed that the host gives each domain). */
void random_bytes(void *buffer, size_t bytes);

/* The data file of the manifest, read-only; NULL and 0 bytes if the domain has none. */
const void *data_file(size_t *bytes);

/* The heap: an arena. 16-byte aligned, zeroed, never freed; NULL when it is used up. */
void *heap_alloc(size_t bytes);
size_t heap_left(void);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *text);
int strcmp(const char *a, const char *b);
/* Decimal, all of the text; false for anything else. */
bool text_number(const char *text, uint64_t *number);

#endif
