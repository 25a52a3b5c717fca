/*
 * Stopping and resuming vCPUs (design: 5; Flask, USENIX Security 1999, 5.3: a
 * thread's state may be examined only when it is stopped; F9, F14).
 *
 * One atomic word per vCPU; all its transitions stand in stop.c. Stops are
 * counted: a machine runs only when every stop has been resumed. While waiting, the
 * caller must hold no lock that a handler can take. After stop_machines has returned 0, no
 * instruction of the guest runs until the resume, and pending I/O exits are complete.
 * Any thread but a vCPU's; calls from several threads are safe.
 */
#ifndef PORTCULLIS_VMM_STOP_H
#define PORTCULLIS_VMM_STOP_H

#include <stddef.h>
#include <stdint.h>

#include "vmm/machine.h"

struct stop_report {
	uint32_t n_stopped; /* vCPUs that are parked or halted */
	uint32_t n_gone;    /* vCPUs whose thread has ended: they count as arrived */
	uint32_t n_late;
};

/*
 * Kicks all vCPUs of all machines, then waits for all, until deadline_ns
 * (CLOCK_MONOTONIC). 0; -ETIMEDOUT: late[i] is set for each machine with a vCPU
 * that did not arrive, and why names vCPUs and states. The stop counts on every
 * machine in both cases; the caller kills the late ones or resumes.
 * late may be NULL when n_machines is 1.
 */
int stop_machines(struct machine *const *machines, size_t n_machines, uint64_t deadline_ns,
                  struct stop_report *report, bool *late, char why[static WHY_BYTES]);

/*
 * Takes one stop back from each machine; waits for the acknowledgement of each
 * vCPU that is to run again. -ETIMEDOUT as above. -EINVAL: a machine had no stop (underflow; nothing changes
 * there).
 */
int resume_machines(struct machine *const *machines, size_t n_machines, uint64_t deadline_ns,
                    char why[static WHY_BYTES]);

/* Stops that are in force. */
uint32_t machine_stop_count(const struct machine *machine);

/* Whether it has vCPUs, is stopped, and all of them have arrived: none enters the guest before the resume. */
bool machine_stands(const struct machine *machine);

/* Stop requests that its vCPUs ever got: tests show that an unconcerned guest got none. */
uint64_t machine_stop_requests(const struct machine *machine);

#endif
