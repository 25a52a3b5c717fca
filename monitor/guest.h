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
 * in force. -errno and a line in why; then nothing is left.
 */
int guest_create(struct monitor *monitor, const struct manifest_guest *manifest, struct guest **guest,
                 char why[static WHY_BYTES]);

/*
 * Takes it out of the registry: its channels end, the machine is shut down, all is freed but what ends that
 * peers still hold refer to (names, and counters in its outboxes): that goes with the last of them.
 */
void guest_destroy(struct guest *guest);

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
