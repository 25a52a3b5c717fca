/*
 * A policy without a monitor: a security server of our own, asked and waited for.
 * One thread; every wait ends by a deadline.
 */
#ifndef PORTCULLIS_MONITOR_CLI_OFFLINE_H
#define PORTCULLIS_MONITOR_CLI_OFFLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/cli.h"
#include "policy/server.h"

struct offline {
	struct server *server;
	uint32_t n_types, n_rules, n_booleans;
	bool mls;
	char operator_context[MAX_CONTEXT_BYTES];
	char *warnings; /* NULL: none */
};

/* Compiles and loads the sources. False: said why, FILE:LINE: first. Then nothing is left. */
bool offline_load(const struct cli_call *call, const struct policy_source *sources, size_t n_sources,
                  struct offline *offline);

/* The same from the files of --policy. */
bool offline_load_given(const struct cli_call *call, struct offline *offline);

void offline_close(struct offline *offline);

/* Each waits for the answer. False: said why. */
bool offline_decide(struct offline *offline, const char *const *contexts, size_t n_contexts,
                    const struct server_question *questions, size_t n_questions,
                    struct server_decision *decisions);
bool offline_validate(struct offline *offline, const char *const *contexts, size_t n_contexts, bool *valid);

/* The text is the caller's; NULL: said why. */
char *offline_explain(struct offline *offline, const char *source, const char *target,
                      enum policy_class tclass, uint32_t permission);

#endif
