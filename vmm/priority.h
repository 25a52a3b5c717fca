/*
 * Who runs first while vCPUs are stopped. The thread that stops runs SCHED_FIFO
 * where the system allows it, and lends that to each vCPU's thread that has not parked, or not said that it
 * runs again, within 250 us (stop.c): then neither the way out of the guest nor the way back in waits for a
 *slice of somebody else (with 8 computing vCPUs on 2 cores: 12 ms for each resume, otherwise).
 *
 * No guest runs with it: a vCPU's thread gives it back before it enters, whatever happened meanwhile.
 *
 *	stopper, under kick_lock        vCPU's thread
 *	it does not run yet?            says that it runs
 *	raises it, sets lent            takes kick_lock, lets it go
 *	                                lent is set: lowers itself
 *
 * Either the stopper sees that it runs and lets it be, or it sees lent. A request to stop that was withdrawn
 * has sent its signal before: KVM_RUN returns, and lent is looked at.
 */
#ifndef PORTCULLIS_VMM_PRIORITY_H
#define PORTCULLIS_VMM_PRIORITY_H

#include <stdbool.h>
#include <sys/types.h>

/* The calling thread runs SCHED_FIFO and lends it from now on. false: the system does not allow that. */
bool priority_raise(void);

/* The calling thread's number if it is an ordinary one, to which it may be lent; 0: the operator has chosen
 * otherwise. */
pid_t priority_borrower(void);

/* Lends it to another thread of this process. false: the caller has none, or thread is 0. */
bool priority_lend(pid_t thread);

/* The calling thread is an ordinary one again. */
void priority_give_back(void);

#endif
