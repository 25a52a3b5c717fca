/*
 * The monitor's end of a security server: questions out, answers in.
 *
 * Every question is asynchronous: it is queued and sent without blocking, and
 * its callback runs from server_dispatch (an answer), server_expire (its
 * deadline has passed) or server_close. After a garbled or late answer, or
 * when the process ends, the server is dead: every pending callback gets a
 * negative status, and so does every later question. Answers are checked like
 * anyone's: numbers in range, texts terminated, counts as asked.
 * A refused load leaves a dead server too. A dead server's descriptor stays
 * hung up: close it. A callback may ask, and may call server_close.
 * One thread (the loop, or a test).
 *
 * Status of a callback: 0; -ETIMEDOUT; -ECONNRESET (the process ended);
 * -EPROTO (garbage); -ECANCELED (closed by us); -EBADMSG (load only: the
 * policy is refused, the text says where and why).
 */
#ifndef PORTCULLIS_POLICY_SERVER_H
#define PORTCULLIS_POLICY_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/abi/limits.h"
#include "policy/class.h"

struct server;

/* One source of a policy: CIL text, or one binary policy alone. */
struct policy_source {
	const char *name; /* as the user named it, for messages */
	int fd;           /* a memfd sealed against writing, growing and shrinking; not consumed */
	size_t bytes;
};

struct policy_boolean {
	const char *name;
	bool value;
};

/* What a loaded policy says of itself. Valid during the callback. */
struct server_policy {
	const char *operator_context; /* of the initial SID "operator" */
	int image_fd; /* sealed memfd of the binary policy, booleans as set; the callback takes it (dup is not
	                 needed) */
	size_t image_bytes;
	uint64_t fingerprint_high; /* XXH3-128 of the image */
	uint64_t fingerprint_low;
	uint32_t n_types;
	uint32_t n_rules;
	uint32_t n_booleans;
	bool mls;
	const char *warnings; /* lines, "" if none: unknown classes or permissions of ours that the policy
	                         lacks */
};

/* Indices into the contexts of the question. */
struct server_question {
	uint32_t source;
	uint32_t target;
	enum policy_class tclass;
};

struct server_decision {
	uint32_t allowed;
	uint32_t auditallow;
	uint32_t auditdeny;
	bool permissive;
	bool known; /* false: the policy does not know one of the contexts; allowed is 0 */
};

struct server_member {
	bool known;          /* false: an unknown context */
	bool has_rule;       /* a member rule of the policy named the type */
	const char *context; /* "" if unknown, or if the rule's result is no valid context */
};

/* status is as above; on failure why is one or more lines for the user and policy is NULL. */
typedef void server_loaded_fn(void *opaque, int status, const struct server_policy *policy, const char *why);
typedef void server_decided_fn(void *opaque, int status, const struct server_decision *decisions,
                               size_t n_decisions);
typedef void server_validated_fn(void *opaque, int status, const bool *valid, size_t n_valid);
typedef void server_member_fn(void *opaque, int status, const struct server_member *member);
typedef void server_explained_fn(void *opaque, int status, const char *text);
typedef void server_booleans_fn(void *opaque, int status, const struct policy_boolean *booleans,
                                size_t n_booleans);

/* Takes both descriptors; pidfd may be -1 (tests). NULL when memory is short (they are then closed). */
struct server *server_open(int socket_fd, int pidfd);

/* Kills the process, reports -ECANCELED to every pending question, frees. NULL is allowed. */
void server_close(struct server *server);

/* Readable or hung up: call server_dispatch. Stays the same for the server's life. */
int server_fd(const struct server *server);
bool server_alive(const struct server *server);

/* Reads what is there without blocking and runs callbacks. */
void server_dispatch(struct server *server);

/* The nearest deadline, CLOCK_MONOTONIC nanoseconds; UINT64_MAX if nothing is pending. */
uint64_t server_next_deadline(const struct server *server);

/* If a deadline has passed the server is dead: kills it, runs callbacks. */
void server_expire(struct server *server, uint64_t now_ns);

/* For programs without a loop: dispatches until nothing is pending or all deadlines have passed. */
void server_wait(struct server *server);

/*
 * Compiles and loads a policy: the first question, once. Booleans that the
 * policy does not have are left out silently. deadline_ns is absolute.
 * A source that is not sealed, or has other than `bytes` bytes, is -EINVAL.
 * All calls: 0, or -ECONNRESET (dead), -EINVAL, -E2BIG, -ENOMEM; then no
 * callback runs.
 */
int server_load(struct server *server, const struct policy_source *sources, size_t n_sources,
                const struct policy_boolean *booleans, size_t n_booleans, uint64_t deadline_ns,
                server_loaded_fn *done, void *opaque);

/*
 * A batch of decisions, answered in the order asked. Any batch size; it is
 * split on the wire. A context of MAX_CONTEXT_BYTES or more is -EINVAL here and
 * below; any other text is answered, as unknown if it is none.
 */
int server_decide(struct server *server, const char *const *contexts, size_t n_contexts,
                  const struct server_question *questions, size_t n_questions, uint64_t deadline_ns,
                  server_decided_fn *done, void *opaque);

int server_validate(struct server *server, const char *const *contexts, size_t n_contexts,
                    uint64_t deadline_ns, server_validated_fn *done, void *opaque);

/* Type member decision (F6). */
int server_member(struct server *server, const char *source, const char *target, enum policy_class tclass,
                  uint64_t deadline_ns, server_member_fn *done, void *opaque);

/*
 * Why `permission` (one bit) is denied: "no rule allows client_t
 * server_t:channel send", "constraint: mlsconstrain ...", "the policy does
 * not know the context ...", "the policy has no permission ...", or "allowed".
 */
int server_explain(struct server *server, const char *source, const char *target, enum policy_class tclass,
                   uint32_t permission, uint64_t deadline_ns, server_explained_fn *done, void *opaque);

int server_booleans(struct server *server, uint64_t deadline_ns, server_booleans_fn *done, void *opaque);

#endif
