/*
 * A request of a control client on its way from datagram to reply.
 *
 * Between them lie answers that come when they come: the permission, the
 * security server, a change. The client may go away at any of these points;
 * then the request is an orphan, which is freed by the answer that it waits for.
 * Internal to control*.c; loop thread only.
 */
#ifndef PORTCULLIS_MONITOR_CONTROL_REQUEST_H
#define PORTCULLIS_MONITOR_CONTROL_REQUEST_H

#include <stdbool.h>

#include "monitor/control_wire.h"
#include "monitor/monitor.h"
#include "policy/class.h"
#include "policy/sid.h"

#define MAX_SOURCE_NAME_BYTES 4096u /* of a file, as the client calls it */

struct control_client;
struct control_request;

/* One verb: what the policy is asked, and what is done when it says yes. 0: the verb itself asks about its
 * targets. */
struct control_verb {
	const char *name;
	enum policy_class tclass;
	uint32_t permission;
	size_t most_fds;
	/* Ends in exactly one request_...; at once, or from a callback. */
	void (*run)(struct control_request *request);
};

struct control_request {
	struct monitor *monitor;
	struct control_client *client; /* NULL: orphan */
	const struct control_verb *verb;
	policy_sid subject;
	struct control_message message;
	bool changing; /* change.h has it: change_abandon frees it from there */
	void *scratch; /* of the verb; freed with the request */
};

/* The verb of that name; NULL: none, and *suggestion gets a phrase. */
const struct control_verb *control_verb_find(const char *name, char *suggestion);

/* Each replies and frees the request; without a client it only frees. */
void request_fail(struct control_request *request, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void request_reply_json(struct control_request *request, json_t *body); /* takes body; NULL: out of memory */
void request_reply(struct control_request *request, int status, const char *error, json_t *body);
void request_reply_fd(struct control_request *request, int body_fd, size_t body_bytes); /* not consumed */

/* True if nobody waits for the answer; the request is then gone. Call it first in every callback. */
bool request_orphaned(struct control_request *request);

#endif
