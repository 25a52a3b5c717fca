/*
 * The posture: everything that decisions are made by, as it is in force.
 *
 * A security server with its sealed image, the AVC, the SIDs, the enforcing
 * mode. A change prepares a candidate beside it and commit puts that in its
 * place. AVC and SIDs are under the registry lock; the server is the loop's.
 */
#ifndef PORTCULLIS_MONITOR_POSTURE_H
#define PORTCULLIS_MONITOR_POSTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/members.h"
#include "monitor/monitor.h"
#include "monitor/settings.h"
#include "monitor/watch.h"
#include "policy/avc.h"
#include "policy/overlay.h"
#include "policy/server.h"
#include "policy/sid.h"

/* A loaded policy with the process that answers for it. */
struct policy_instance {
	struct server *server; /* NULL: died, and another is being started */
	int image_fd;          /* sealed */
	size_t image_bytes;
	uint64_t fingerprint_high, fingerprint_low;
	char operator_context[MAX_CONTEXT_BYTES];
	uint32_t n_types, n_rules, n_booleans;
	bool mls;
};

/* What loading a policy gave. */
struct policy_load {
	bool done;
	int status;
	char *why; /* lines for the user, malloc'ed; NULL: none */
	struct policy_instance policy;
};

struct posture {
	/* Registry lock. */
	struct avc *avc;
	struct sid_table *sids;
	struct members *members; /* which instance a client gets; cleared with the AVC */
	struct overlay overlay;
	bool enforcing;
	uint64_t policy_number;
	policy_sid operator_sid;
	uint64_t switched_at; /* the policy number under which another server came in force; 0: none has */
	policy_sid n_judged;  /* which had been asked about SIDs up to this one */

	/* Loop thread only. */
	struct policy_instance policy;
	struct settings settings;
	struct server_watch watch;      /* of policy.server */
	struct policy_load replacement; /* of a server that died */
	uint64_t next_try_ns;           /* to start one */
	struct loop_timer timer;        /* connects that wait too long; another try to start a server */
};

/*
 * Starts a security server and puts the loading of these sources to it; *load
 * (which must stay where it is) is filled in by server_dispatch. 0 or -errno and why.
 */
int policy_begin(struct monitor *monitor, const struct policy_source *sources, size_t n_sources,
                 const struct settings *settings, struct policy_load *load, char why[static WHY_BYTES]);

/* Gives up or frees whatever of it is there. */
void policy_release(struct policy_instance *policy);

/* One without a policy yet: SIDs can be interned. -ENOMEM. */
int posture_create(struct monitor *monitor);

/*
 * Loads the manifest's policies and makes them the first posture: number 1,
 * enforcing. Waits for the server. *why gets malloc'ed lines on failure.
 */
int posture_load(struct monitor *monitor, char **why);
/* Ends the server in force: every question to it has its answer then. Before what asked is taken down. */
void posture_silence(struct monitor *monitor);
void posture_destroy(struct monitor *monitor);

/* Interns every context of the manifests and marks those that the policy knows. Waits for the server. */
int posture_learn(struct monitor *monitor, struct manifest *const *manifests, size_t n_manifests,
                  char why[static WHY_BYTES]);

/* From now on the loop listens to the server in force; a dead one is replaced from the sealed image. */
void posture_watch(struct monitor *monitor);

/* Puts the candidate's policy in the place of the one in force, which is returned; under the registry lock,
 * by commit alone. */
struct policy_instance posture_switch(struct monitor *monitor, struct policy_instance *candidate);

/* After questions were put, or connects became pending: the loop's timers follow. */
void posture_rearm(struct monitor *monitor);

/* One permission of a subject: yes, no, or why there is no answer. text says what is missing. */
typedef void permission_fn(void *opaque, bool allowed, const char *text);

/*
 * Asks AVC or server whether source may; audits a denial; calls done, at once or
 * later, exactly once. permission is one bit. Loop thread.
 */
void posture_ask(struct monitor *monitor, policy_sid source, policy_sid target, enum policy_class tclass,
                 uint32_t permission, permission_fn *done, void *opaque);

/* The context of a guest or of the monitor itself as a target: the operator's own SID. */
policy_sid posture_self(const struct monitor *monitor);

#endif
