/*
 * The life of guests while the monitor runs: defined, started, suspended, resumed, ended, started again.
 *
 * A *definition* is what a guest is started from: a manifest under a name. It outlives the guest's runs, and
 * each run is a struct guest of its own, with new generations and zeroed outboxes. All functions: loop
 * thread. Times are monotonic nanoseconds, errors -errno with one line in why.
 *
 * Who may ask is the caller's matter (control_verbs.c, libvirt/): nothing here looks at a permission.
 */
#ifndef PORTCULLIS_MONITOR_LIFECYCLE_H
#define PORTCULLIS_MONITOR_LIFECYCLE_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/manifest.h"
#include "monitor/registry.h"

enum lifecycle_state {
	LIFECYCLE_OFF,      /* defined, no run, or the run has ended */
	LIFECYCLE_STARTING, /* its contexts are being asked about, or its machine is being built */
	LIFECYCLE_RUNNING,
	LIFECYCLE_SUSPENDED, /* an operator's stop stands on its machine */
	LIFECYCLE_CRASHED,   /* the kernel of the guest failed; its run is kept for the report */
};

/* Why it is in its state. */
enum lifecycle_reason {
	REASON_NONE,
	REASON_BOOTED,
	REASON_OPERATOR, /* suspended, resumed, shut down or destroyed on request */
	REASON_FINISHED, /* every domain has exited */
	REASON_CRASHED,
	REASON_KILLED, /* by the monitor: a deadline, a refused mapping, a storm */
	REASON_FAILED, /* the start failed */
};

enum lifecycle_event {
	EVENT_DEFINED,
	EVENT_UNDEFINED,
	EVENT_STARTED,
	EVENT_SUSPENDED,
	EVENT_RESUMED,
	EVENT_SHUTDOWN,  /* off: orderly, on request or because every domain has exited (reason) */
	EVENT_DESTROYED, /* off: at once, on request */
	EVENT_CRASHED,
	EVENT_KILLED,
	EVENT_FAILED, /* to start */
};

struct definition {
	struct definition *next; /* in the order in which they were defined */
	char name[MAX_NAME_BYTES];
	uint8_t uuid[UUID_BYTES]; /* of the manifest, else made of this host's machine-id and the name: stable
	                             over restarts */
	struct manifest *manifest;         /* held: other guests of the file may hold it too */
	const struct manifest_guest *spec; /* this guest in it */
	bool persistent;                   /* stays when its run ends */
	struct guest *guest; /* its run, also one that has ended and is kept for the report; NULL: none */
	int32_t id;          /* of the run, from 1, never used again while the monitor runs; -1: not active */
	enum lifecycle_state state;
	enum lifecycle_reason reason;
	uint64_t since_ns; /* it is in this state */
};

/* First of the list; NULL: none. */
struct definition *lifecycle_first(struct monitor *monitor);
struct definition *lifecycle_find(struct monitor *monitor, const char *name);
struct definition *lifecycle_find_guest(struct monitor *monitor, const struct guest *guest);

/*
 * -EEXIST: that name (or uuid) is taken and active; an inactive definition of the name is replaced. -EINVAL:
 * the manifest has not exactly one guest. -ENOSPC: MAX_DEFINITIONS. Takes the manifest if 0.
 */
int lifecycle_define(struct monitor *monitor, struct manifest *manifest, bool persistent,
                     struct definition **definition, char why[static WHY_BYTES]);

/* Whether lifecycle_define would take it now; nothing changes. */
int lifecycle_check_guest(struct monitor *monitor, const struct manifest_guest *spec,
                          char why[static WHY_BYTES]);

/* One guest of a manifest of several; the manifest is held once more, not taken. */
int lifecycle_define_guest(struct monitor *monitor, struct manifest *manifest, uint32_t guest,
                           bool persistent, struct definition **definition, char why[static WHY_BYTES]);

/* Whether it starts or runs: one that has crashed does not, and may be started, replaced or undefined. */
bool definition_is_active(const struct definition *definition);

/* "running", "stopped" ...; "operator", "finished" ...; "started" ... */
const char *definition_state_name(const struct definition *definition);
const char *lifecycle_reason_name(enum lifecycle_reason reason);
const char *lifecycle_event_name(enum lifecycle_event event);

/* -EBUSY while it is active. */
int lifecycle_undefine(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES]);

/*
 * Starts it: asks the security server about its contexts, builds the machine, enters it in the registry, and
 * lets it run (paused: it stays suspended before its first instruction). done is called once, from the loop,
 * never from within this call, with 0 or -errno and a line; the definition may be gone only if it was
 * undefined by then (then definition is NULL). -EBUSY: active already. If not 0 is returned, done is not
 * called. Has a deadline.
 */
typedef void lifecycle_done_fn(void *opaque, struct definition *definition, int error, const char *why);
int lifecycle_start(struct monitor *monitor, struct definition *definition, bool paused,
                    lifecycle_done_fn *done, void *opaque, char why[static WHY_BYTES]);

/* The caller of a start has gone away: done will not be called. The start itself goes on. */
void lifecycle_forget(struct monitor *monitor, void *opaque);

/*
 * Operator's suspend: counted once, however often it is asked for; a change's stop comes on top of it and
 * leaves it standing. -EALREADY, -ESRCH: not active, -ETIMEDOUT: vCPUs that did not arrive are named, and the
 * guest is killed.
 */
int lifecycle_suspend(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES]);
int lifecycle_resume(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES]);

/*
 * Ends its run. shutdown: as if every domain had exited (what they sent stays readable until peers close);
 * destroy: as if each had died. Works on a suspended and on a crashed guest (R: faults.md P10). -ESRCH: not
 * active.
 */
int lifecycle_shutdown(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES]);
int lifecycle_destroy(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES]);

/* Hears of every event of every guest, whatever caused it, in order; loop thread. Quarantine is none. */
typedef void lifecycle_listener_fn(void *opaque, const struct definition *definition,
                                   enum lifecycle_event event, enum lifecycle_reason reason);
struct lifecycle_listener {
	struct lifecycle_listener *next; /* lifecycle's */
	lifecycle_listener_fn *heard;
	void *opaque;
};
void lifecycle_listen(struct monitor *monitor, struct lifecycle_listener *listener);
void lifecycle_unlisten(struct monitor *monitor, struct lifecycle_listener *listener);

/* ---- for the monitor itself ---- */

struct lifecycle;

/* NULL: no memory. Reads the machine-id: before the sandbox closes. */
struct lifecycle *lifecycle_create(struct monitor *monitor);

/*
 * The guests that the monitor begins with, not running yet, while the security server compiles the policy;
 * before the loop runs. boot defines them and starts to build their machines on other threads. booted waits
 * for these and enters each guest whose contexts the policy knows. What went wrong in either half is told by
 * booted, as if one guest had been made after the other: so that a policy that is refused is told first,
 * whatever happens here.
 */
void lifecycle_boot(struct monitor *monitor, struct manifest *const *manifests, size_t n_manifests);
int lifecycle_booted(struct monitor *monitor, char why[static WHY_BYTES]);
/* Lets all of these run. */
int lifecycle_launch(struct monitor *monitor, char why[static WHY_BYTES]);

/* A domain has ended or a guest is lost: guests that have come to their end are noticed. Over: there are
 * definitions, and none is active. */
void lifecycle_settle(struct monitor *monitor, bool *over);

/* A change has ended: what had to wait for that goes on. */
void lifecycle_change_ended(struct monitor *monitor);

/* Exit status of `run`: 1 if a domain or a guest has failed, in any run. */
int lifecycle_exit_status(struct monitor *monitor);

/* The monitor ends: nothing starts any more. */
void lifecycle_end(struct monitor *monitor);
/* When all guests have gone and the security server is silent. */
void lifecycle_free(struct monitor *monitor);

#endif
