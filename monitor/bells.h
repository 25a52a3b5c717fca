/*
 * Doorbells between guests, and which flows need them (design: 4, "Waiting"; I10).
 *
 * One per ordered pair of guests. It is bound while the record of an end says that it may notify a peer in
 * the other guest, and unbound by whatever takes that away from the last of them: a cut, a close, a death.
 * The guest that rings keeps its half as long as a record of its says so, also where nobody hears it: the
 * writer of a diode must not learn that its reader is gone. A doorbell that the host could not bind (no
 * descriptor left) is an exit at each ring, and the monitor wakes whom it is for: slower, and nothing is
 * lost.
 *
 * KVM takes a doorbell away only when every vCPU has left a certain stretch of code: microseconds, or a
 * scheduler's slice on a busy host. That is not done while the registry is locked for more than one at a
 * time, nor while guests are stopped: what loses its last need is marked as nobody's at once, so that a ring
 * has no effect, and unbound by bells_settle, for a change before its report is given.
 *
 * What a ring says is "guest i has rung": domains of one guest that are both notified from guest i see each
 * other's rings as wake-ups for nothing. All under the registry lock.
 */
#ifndef PORTCULLIS_MONITOR_BELLS_H
#define PORTCULLIS_MONITOR_BELLS_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/channel.h"
#include "monitor/registry.h"

/* A new channel: notes the doorbells of both ends, so that nothing can fail later. -ENOMEM. */
int bells_join(struct channel *channel);
/* It ends; neither end may notify any more. */
void bells_leave(struct channel *channel);

/* Before the end's record says that it may notify its peer. */
void bells_bind(struct channel *channel, enum channel_side side);
/* After the record says whether it still may: what this end does not need. */
void bells_unbind(struct channel *channel, enum channel_side side, bool may_notify);

/* Unbinds what is not needed any more, one after the other, taking the lock for each. Loop thread. */
void bells_settle(struct monitor *monitor);

/* The guest, whose channels have ended, leaves the registry: the same for its own and those to it, at once.
 */
void bells_forget(struct registry *registry, struct guest *guest);

/* A machine_handlers.rang; owner is the struct guest. vCPU threads; takes the registry lock. */
bool bells_rang(void *owner, uint32_t number);

#endif
