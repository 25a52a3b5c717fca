/*
 * The monitor: what everything in monitor/ shares.
 *
 * One per process. Fields are set up in monitor_create, in the order below, and
 * taken down in the reverse; each part is owned by the file that is named.
 */
#ifndef PORTCULLIS_MONITOR_MONITOR_H
#define PORTCULLIS_MONITOR_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/audit.h"
#include "monitor/manifest.h"
#include "policy/launcher.h"
#include "policy/sid.h"

struct audit;
struct change;
struct denials;
struct control;
struct libvirt;
struct lifecycle;
struct loop;
struct ports;
struct posture;
struct registry;

struct monitor_options {
	struct launcher *launcher; /* not taken */
	/* Not taken. What concerns the monitor stands in the first; the guests of all are started. */
	struct manifest *const *manifests;
	size_t n_manifests;
	int kvm_fd; /* not taken; -1: no guest can be started */
	enum stop_mode stop;
	double deadline_seconds;   /* of a stop, and of a security server's answers */
	bool quiet;                /* domains' log lines are not written */
	bool serve;                /* does not end with the last guest */
	audit_listener_fn *on_log; /* hears every log line of a domain, also if quiet; NULL: nobody */
	void *on_log_opaque;
};

struct monitor {
	/* Immutable after monitor_create. */
	struct launcher *launcher;
	struct manifest *manifest; /* held: what it says of policy, clients and audit */
	int kvm_fd;
	enum stop_mode stop;
	uint64_t deadline_ns;
	bool serve;
	uint64_t started_ns;
	uint64_t mappings_allowed; /* vm.max_map_count; 0: not known */
	int signal_fd;
	bool started; /* its start is in the audit trail, and so will be its end */

	/* Each with a header of its own. */
	struct loop *loop;           /* loop.h */
	struct audit *audit;         /* audit.h */
	struct registry *registry;   /* registry.h: guests, domains, channels; has the registry lock */
	struct posture *posture;     /* posture.h: what decisions are made by */
	struct lifecycle *lifecycle; /* lifecycle.h: which guests there can be */
	struct denials *denials;     /* denials.h: on their way to the audit trail */
	struct change *change;   /* change.h: the change that is under way; NULL: none. Loop thread only */
	struct ports *ports;     /* port.h; NULL: none */
	struct control *control; /* control.h; NULL: no socket */
	struct libvirt *libvirt; /* libvirt/libvirt.h; NULL: no sockets */
};

/*
 * Brings the policy in force and builds the guests of the manifests, stopped
 * before its first instruction: so the control socket can be opened before.
 * One line in why, or several for a policy's errors.
 */
int monitor_create(const struct monitor_options *options, struct monitor **monitor, char **why);

/* Lets the guests run. */
int monitor_start(struct monitor *monitor, char why[static WHY_BYTES]);

/*
 * Serves until every domain has exited, a signal arrives (SIGINT, SIGTERM are taken by the
 * loop), or monitor_end. Returns the exit status of `run`.
 */
int monitor_run(struct monitor *monitor);

/* Ends monitor_run with that status. Loop thread. */
void monitor_end(struct monitor *monitor, int status);

/* Stops guests in order, closes everything. NULL is allowed. */
void monitor_destroy(struct monitor *monitor);

#endif
