/*
 * Real security servers for tests, asked synchronously.
 *
 * A harness is a launcher and one server. What its questions bring back stays in
 * it until the next question. Failures are assertions of the running test.
 */
#ifndef PORTCULLIS_TESTS_POLICY_HARNESS_H
#define PORTCULLIS_TESTS_POLICY_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/launcher.h"
#include "policy/server.h"

#define HARNESS_TEXT_BYTES 65536u

struct harness {
	struct launcher *launcher;
	struct server *server;
	int pidfd; /* a duplicate, to kill and to wait with */

	int status; /* of the last answer; 1 before it came */
	unsigned n_answers;
	char text[HARNESS_TEXT_BYTES]; /* why, warnings, explanation or context */
	char operator_context[MAX_CONTEXT_BYTES];
	struct server_policy policy; /* of the last load; its image_fd is ours */
	struct server_decision *decisions;
	struct server_member member;
	bool valid[1024];
	char booleans[64][64];
	bool boolean_values[64];
	size_t n;
};

/* One source. name NULL ends a list. */
struct harness_file {
	const char *name;
	const char *text;
	size_t bytes; /* 0: strlen(text) */
};

/* Starts the launcher and one server. */
struct harness *harness_open(void);
/* Another server from the same launcher, instead of the first. */
void harness_renew(struct harness *harness);
void harness_close(struct harness *harness);

/* Far enough that no slow machine reaches it, near enough that a hang ends. */
uint64_t harness_deadline(void);

/* A sealed memfd. */
int harness_memfd(const void *bytes, size_t n_bytes);

/* The policy of the repository, by path from its root; malloc. */
char *harness_read_file(const char *path);

/* Each returns the status. */
int harness_load(struct harness *harness, const struct harness_file *files);
int harness_load_booleans(struct harness *harness, const struct harness_file *files,
                          const struct policy_boolean *booleans, size_t n_booleans);
int harness_decide(struct harness *harness, const char *const *contexts, size_t n_contexts,
                   const struct server_question *questions, size_t n_questions);

/* One decision, which must be answered. */
struct server_decision harness_ask(struct harness *harness, const char *source, const char *target,
                                   enum policy_class tclass);

/* The explanation, which must be answered. */
const char *harness_explain(struct harness *harness, const char *source, const char *target,
                            enum policy_class tclass, uint32_t permission);

/* A small policy with types a_t, b_t, c_t and role r, user u, to which a test adds rules. */
extern const char harness_base[];

#endif
