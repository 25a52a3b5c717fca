/*
 * A guest as the monitor knows it: built from a manifest, losing domains, lost.
 *
 * "Lost" means that it is never entered again (crashed, killed, or failed
 * closed); "reaped" that its channels have ended too. Functions with a registry
 * argument want the registry lock.
 */
#ifndef PORTCULLIS_MONITOR_GUEST_H
#define PORTCULLIS_MONITOR_GUEST_H

#include "monitor/manifest.h"
#include "monitor/registry.h"

/*
 * Builds a guest of a manifest, machine and all, stopped before its first
 * instruction, and enters it in the registry. Its contexts must be known to the policy
 * in force. Without vCPUs it is the host's own (host.h). -errno and a line in why; then nothing is left.
 */
int guest_create(struct monitor *monitor, const struct manifest_guest *manifest, struct guest **guest,
                 char why[static WHY_BYTES]);

/*
 * The steps of that, for a loop that has more to do. Until it has been entered, nobody else knows the guest
 *and guest_discard frees it, whatever step failed.
 *
 *	outline	names, SIDs, services. Loop
 *	check	whether the policy in force knows every context. Loop; right until the next change
 *	begin	the VM, a fraction of a millisecond. Loop
 *	build	memory, images, vCPUs: 1 ms for a small guest, 30 ms and more for a large one. Any thread
 *	enter	whether its windows fit beside all others', and the registry. Loop, while no change is under
 *way
 */
int guest_outline(struct monitor *monitor, const struct manifest_guest *manifest, struct guest **guest,
                  char why[static WHY_BYTES]);
int guest_check_contexts(struct registry *registry, const struct guest *guest,
                         const struct manifest_guest *manifest, char why[static WHY_BYTES]);
int guest_begin(struct guest *guest, const struct manifest_guest *manifest, char why[static WHY_BYTES]);
int guest_build(struct guest *guest, char why[static WHY_BYTES]);
int guest_enter(struct guest *guest, char why[static WHY_BYTES]);
void guest_discard(struct guest *guest);

/* vm.max_map_count of this host; 0: not known. Read before the sandbox closes. */
uint64_t guest_mappings_allowed(void);

/*
 * Takes it out of the registry: its channels end, the machine is shut down, all is freed but what ends that
 * peers still hold refer to (names, and counters in its outboxes): that goes with the last of them.
 * Loop, while no change is under way. Both halves: leave is the loop's, bury any thread's (munmap of much
 * memory takes long).
 */
void guest_destroy(struct guest *guest);
void guest_leave(struct guest *guest);
void guest_bury(struct guest *guest);

/* Drops a reference; the last one frees. Registry lock, or nobody else knows the guest. */
void guest_release(struct guest *guest);

/* A domain has ended: its channels end, its connect is forgotten. END_CLOSED for exit, END_DIED for a fault.
 */
void domain_end(struct registry *registry, struct domain *domain, bool failed, int exit_status);

/*
 * Fail closed: the machine is killed, nothing of the guest is entered again.
 * Its channels stay until guest_reap. Idempotent.
 */
void guest_lose(struct registry *registry, struct guest *guest, const char *why);

/* Ends every channel of a lost guest; peers are told "peer died". Idempotent. */
void guest_reap(struct registry *registry, struct guest *guest);

/* Whether every domain has exited, or the guest is lost. */
bool guest_is_over(struct registry *registry, const struct guest *guest);

/* Exit status that `run` owes to this guest: 1 if it is lost, or a domain failed or exited with something but
 * 0. */
int guest_exit_status(struct registry *registry, const struct guest *guest);

/* running, suspended, crashed, killed, stopped: the forms of docs/cli. */
const char *guest_state_name(const struct guest *guest);

/* running, blocked, exited, failed, quarantined. */
const char *domain_state_name(const struct domain *domain);

#endif
