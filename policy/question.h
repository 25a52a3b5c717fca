/*
 * One question to a security server: its packets, its answer, its callback.
 *
 * A question is asked in as many packets as it needs. encode writes the next
 * one, accept checks and keeps its answer; both know how far they are. Nothing
 * of a question points to the caller's memory. server.c owns and orders them.
 */
#ifndef PORTCULLIS_POLICY_QUESTION_H
#define PORTCULLIS_POLICY_QUESTION_H

#include "policy/protocol.h"
#include "policy/server.h"

struct question;

struct question_kind {
	enum protocol_kind first; /* of the packets */
	/* Writes the next packet; begun, so that only kind and fields are to be set. */
	void (*encode)(struct question *question, struct packet *packet);
	/* 0: answered. 1: another packet is needed. -EPROTO. Or a status that is the question's. */
	int (*accept)(struct question *question, struct packet *answer);
	/* Runs the callback. */
	void (*report)(struct question *question, int status);
	void (*release)(struct question *question);
};

struct question {
	const struct question_kind *kind;
	struct question *next;
	uint64_t deadline_ns;
	void *opaque;
};

/* Each: 0 and *made, or -EINVAL, -E2BIG, -ENOMEM. The caller sets deadline_ns and opaque. */
int question_load(const struct policy_source *sources, size_t n_sources,
                  const struct policy_boolean *booleans, size_t n_booleans, server_loaded_fn *done,
                  struct question **made);
int question_decide(const char *const *contexts, size_t n_contexts, const struct server_question *questions,
                    size_t n_questions, server_decided_fn *done, struct question **made);
int question_validate(const char *const *contexts, size_t n_contexts, server_validated_fn *done,
                      struct question **made);
int question_member(const char *source, const char *target, enum policy_class tclass, server_member_fn *done,
                    struct question **made);
int question_explain(const char *source, const char *target, enum policy_class tclass, uint32_t permission,
                     server_explained_fn *done, struct question **made);
int question_booleans(server_booleans_fn *done, struct question **made);

/* Copies texts of less than text_bytes into one allocation. 0, -EINVAL, -ENOMEM. */
int question_copy_texts(const char *const *texts, size_t n_texts, size_t text_bytes, char ***copies);

/* Replaces what a terminal would act upon and what is not UTF-8; newlines stay. */
void question_clean_text(char *text);

#endif
