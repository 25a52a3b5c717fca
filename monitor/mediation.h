/*
 * Mediation: what a guest's request becomes (design: 6; F1, F2).
 *
 * mediation_request runs on vCPU threads. A connect whose decisions are cached
 * is answered within its exit: lookup and effect under one hold of the registry
 * lock. Otherwise the domain blocks, and the loop asks the security server and
 * completes it: a vCPU thread never waits for another process.
 *
 *	connect (vCPU thread)		change (loop)
 *	lock, decide under n, grant,
 *	publish, unlock
 *					close the gate, plan sees the channel
 *	lock, gate closed: pending
 *					raise to n+1, cut, open the gate
 *	(loop) decided under n+1
 */
#ifndef PORTCULLIS_MONITOR_MEDIATION_H
#define PORTCULLIS_MONITOR_MEDIATION_H

#include <stdint.h>

#include "monitor/registry.h"
#include "vmm/machine.h"

/* A machine_handlers.request; owner is the struct guest. */
int64_t mediation_request(void *owner, const struct guest_request *request);

/* Loop: a connect of a port on behalf of a client of the host, whom no guest can name; SID_NONE: its own. */
int64_t mediation_connect_for(struct domain *relay, const struct guest_request *request, policy_sid identity);

/*
 * Loop: completes what can be completed from the AVC, asks the server for the
 * rest, denies what has waited past its deadline. After a kick, an answer, or
 * the opening of the gate.
 */
void mediation_pump(struct monitor *monitor);

/* Loop: the server that was asked is gone; what it was asked is to be asked again. */
void mediation_forget_questions(struct monitor *monitor);

/* The nearest deadline of a pending connect; UINT64_MAX: none. */
uint64_t mediation_next_deadline(struct monitor *monitor);

#endif
