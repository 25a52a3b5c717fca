/*
 * The cut oracle: does this host keep what the design is built on (I1)? That
 * once window_sever has returned, no load of a running guest sees what was there.
 *
 * A guest spins on an inbox slot on a core of its own; the host plays the peer,
 * cuts, writes a new value, and looks at what the guest reports. Any thread; it
 * makes a machine of its own and ends it. Knows no policy.
 */
#ifndef PORTCULLIS_VMM_ORACLE_H
#define PORTCULLIS_VMM_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/abi/limits.h"

struct oracle_result {
	uint32_t rounds;   /* completed */
	uint32_t escapes;  /* rounds in which the reader saw something after the cut */
	uint64_t readings; /* that the reader made after cuts */
	uint64_t cut_ns_max;
};

/*
 * Opens the slot, lets the reader see it, cuts, writes, and looks; so many times.
 * sever false is the control: everything the same but the cut, and every round must count as an escape. 0
 * with the result; -errno and a line when no such guest can run here, -ETIMEDOUT when it
 * does not get on. About 0.3 ms a round.
 */
int oracle_run(int kvm_fd, uint32_t rounds, bool sever, struct oracle_result *result,
               char why[static WHY_BYTES]);

#endif
