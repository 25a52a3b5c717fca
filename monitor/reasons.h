/*
 * Why flows are cut: each distinct missing permission once, with the security
 * server's explanation of it. Loop thread.
 */
#ifndef PORTCULLIS_MONITOR_REASONS_H
#define PORTCULLIS_MONITOR_REASONS_H

#include <stddef.h>
#include <stdint.h>

#include "monitor/needs.h"
#include "monitor/plan.h"
#include "policy/server.h"

struct reasons;

struct reasons *reasons_create(void);
void reasons_destroy(struct reasons *reasons);

/* Numbers the reasons of a plan's cuts (plan_flow.reason). 0, -ENOMEM. */
int reasons_collect(struct reasons *reasons, struct plan *plan);

/*
 * Asks the server about those that policy gives; the overlay's say so themselves. A
 * negative status of an answer leaves the plain text. 0 or -errno.
 */
int reasons_ask(struct reasons *reasons, const struct overlay *overlay, struct server *server,
                const struct sid_table *sids, uint64_t deadline_ns);

/* How many answers are still to come. */
size_t reasons_pending(const struct reasons *reasons);

/* 0, or why the server gave no answer: it is dead then (policy/server.h). */
int reasons_status(const struct reasons *reasons);

/* "no rule allows client_t server_t:channel send" */
const char *reasons_text(const struct reasons *reasons, uint32_t number);

#endif
