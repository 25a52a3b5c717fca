/*
 * The state word of a vCPU, and the group of words of one machine (stop.h is
 * what the rest of the program uses). Knows no KVM: whatever runs is a thread
 * that asks stop_wanted before each piece of work and can be kicked out of it.
 * All transitions stand in stop.c.
 *
 *	             start            request            arrive
 *	NEW ------> PARKED   RUNNING --------> REQUESTED -------> PARKED or HALTED
 *	              |         ^ ^               |                     |
 *	              +---------+ +---------------+                     |
 *	              |  release       withdraw         release         |
 *	              |         ^---------------------------------------+
 *	any but GONE --leave--> LEAVING --------> GONE      (NEW leaves to GONE at once)
 *
 * A word is epoch << STOP_STATE_BITS | state. The group's epoch is odd while it
 * is stopped. A new stop writes its epoch into the words of those still parked,
 * which is what makes a late release fail:
 *
 *	parked thread                   stopper (second stop)
 *	word = PARKED of stop 1
 *	epoch is even: released
 *	                                epoch becomes odd
 *	                                PARKED 1 -> PARKED 3: arrived
 *	PARKED 1 -> RUNNING fails,
 *	looks again, sleeps
 */
#ifndef PORTCULLIS_VMM_STOP_WORD_H
#define PORTCULLIS_VMM_STOP_WORD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/abi/limits.h"
#include "vmm/stop.h"

enum stop_state {
	STOP_NEW,       /* no thread yet */
	STOP_RUNNING,   /* in the guest, or in a handler */
	STOP_REQUESTED, /* the same, and it is to park */
	STOP_PARKED,
	STOP_HALTED, /* parked, and its guest is in HLT */
	STOP_LEAVING,
	STOP_GONE, /* never runs again and is never signalled */
};

#define STOP_STATE_BITS 4

struct stop_vcpu {
	uint32_t word; /* atomic, futex */
	uint32_t index;
	/* Gets the thread out of its work, soon; called with kick_lock held, any thread. */
	void (*kick)(struct stop_vcpu *vcpu);
	/*
	 * Lets the thread run before others, who has not parked or acknowledged for a while; NULL: nothing
	 * can. Called with kick_lock held, any thread.
	 */
	void (*hurry)(struct stop_vcpu *);
	/* Held while kicking, hurrying and becoming gone: so no thread that has ended is signalled. A leaf.
	 */
	pthread_mutex_t kick_lock;
};

struct stop_group {
	const char *name;
	uint32_t n_vcpus;
	struct stop_vcpu *vcpu[MAX_VCPUS];

	pthread_mutex_t lock; /* for count and for each pass over the words; never held across a wait */
	uint32_t count;       /* under lock: stops in force */

	uint32_t epoch;    /* atomic, futex that parked threads sleep on; odd while stopped */
	uint32_t ended;    /* atomic: whoever is released leaves instead */
	uint64_t requests; /* atomic: RUNNING to REQUESTED, all vCPUs, ever */
};

enum stop_verdict {
	STOP_RUN,
	STOP_LEAVE,
};

void stop_group_init(struct stop_group *group, const char *name);
void stop_group_destroy(struct stop_group *group);
void stop_group_add(struct stop_group *group, struct stop_vcpu *vcpu, void (*kick)(struct stop_vcpu *));

/* Before the thread is made: NEW to PARKED. false: it is to leave already; make no thread. */
bool stop_start(struct stop_vcpu *vcpu);

/* The vCPU's thread: is there a reason to call stop_park? One load or two. */
bool stop_wanted(const struct stop_group *group, const struct stop_vcpu *vcpu);

/*
 * The vCPU's thread: first thing that it does, and whenever stop_wanted. Returns when it
 * may run, acknowledged, or is to leave. halted: it parks in the middle of HLT.
 */
enum stop_verdict stop_park(struct stop_group *group, struct stop_vcpu *vcpu, bool halted);

/* The vCPU's thread: last thing that it does. Also for a thread that could not be made. */
void stop_gone(struct stop_vcpu *vcpu);

/*
 * Tells vCPUs to leave; waits for none. stopped_too: also those of a machine
 * that is stopped. Otherwise those leave when they are released, and count as stopped until then.
 */
void stop_leave(struct stop_group *group, bool stopped_too);

/* Waits until all are gone. -ETIMEDOUT names who is missing. */
int stop_wait_gone(struct stop_group *group, uint64_t deadline_ns, char why[static WHY_BYTES]);

/* As stop_machines and resume_machines. */
int stop_groups(struct stop_group *const *groups, size_t n_groups, uint64_t deadline_ns,
                struct stop_report *report, bool *late, char why[static WHY_BYTES]);
int resume_groups(struct stop_group *const *groups, size_t n_groups, uint64_t deadline_ns,
                  char why[static WHY_BYTES]);

/* It counts as stopped: parked, or it does not run. */
bool stop_arrived(enum stop_state state);

enum stop_state stop_state_of(const struct stop_vcpu *vcpu);
const char *stop_state_name(enum stop_state state);

#endif
