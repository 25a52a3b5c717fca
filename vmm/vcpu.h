/*
 * A vCPU's thread: KVM_RUN, exits, parking. Private to vmm/.
 *
 * The loop asks stop_wanted, then enters. A kick is a signal whose handler sets
 * immediate_exit, so a kick that lands between the two makes KVM_RUN return at once:
 *
 *	vCPU thread                     stopper
 *	word is RUNNING
 *	                                word = REQUESTED
 *	                                immediate_exit = 1, signal
 *	(handler: immediate_exit = 1)
 *	KVM_RUN returns EINTR
 *	immediate_exit = 0
 *	word is REQUESTED: parks
 *
 * immediate_exit is cleared before the word is read again, so a kick is never cleared unseen.
 */
#ifndef PORTCULLIS_VMM_VCPU_H
#define PORTCULLIS_VMM_VCPU_H

#include "vmm/machine_state.h"

/* Installs the handler of the kick signal for the whole process; more than once is harmless. -errno. */
int vcpu_signal_install(void);

/* Starts the pinned thread. -errno of pthread_create. The loop thread. */
int vcpu_start(struct vcpu *vcpu);

/* stop_vcpu.kick and .hurry. */
void vcpu_kick(struct stop_vcpu *stop);
void vcpu_hurry(struct stop_vcpu *stop);

/*
 * Tests only: kicks no longer set immediate_exit, neither here nor in the
 * handler. This is the mistake that row P1 is about; with it a stop must be seen to fail.
 */
void vcpu_break_kicks(bool broken);

/* hypercall_run.c: serves the hypercall that the vCPU has just made. False: the guest is lost. */
bool vcpu_hypercall(struct vcpu *vcpu);

#endif
