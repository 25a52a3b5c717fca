/*
 * The monitor's own sandbox: a hole in an exit handler must not become a shell on the host.
 *
 * Once everything that a path names has been opened, the process gives up what it has no use for (design: 7,
 * "Sandbox"), for good:
 *
 *	process      seccomp: no program is started, no new process, no socket but AF_UNIX, no executable
 *memory, files opened by a path for reading alone loop         Landlock, where the kernel has it: not even
 *that, but beneath the directories it was given vCPU thread  seccomp: KVM (no new VM), the windows' mappings,
 *futexes, and descriptors that are open writer       the same: it writes the log and the audit trail
 *
 * What a library may try and can do without fails with EACCES or ENOSYS; what only an intruder wants (execve,
 *ptrace, bpf, ...) ends the process, and the kernel's log says by which call. Sanitized builds are not
 *confined: their runtimes open what they like.
 */
#ifndef PORTCULLIS_MONITOR_CONFINE_H
#define PORTCULLIS_MONITOR_CONFINE_H

#include "guest/abi/limits.h"

/*
 * Compiles the filters, which takes longer than to put them on: once, for the process and for all threads, at
 * any time before confine_process, which does it if nobody has. The loop's thread. -errno and a line in why.
 */
int confine_prepare(char why[static WHY_BYTES]);

/*
 * All threads that exist and those to come; called by the loop's thread, once. Files beneath `directory` (a
 * descriptor of a directory, -1: none) can still be read. -errno and a line in why (a kernel without
 * seccomp).
 */
int confine_process(int directory, char why[static WHY_BYTES]);

/* The calling thread: one that runs a vCPU or writes the log. Does nothing before confine_process, and
 * nothing when it is called again. A failure ends the process: closed, loudly. */
void confine_thread(void);

#endif
