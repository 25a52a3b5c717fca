/*
 * The registry: guests, domains, services, channels, and the one lock over them.
 *
 * The host's truth (I6): what a guest may do is what stands here, whatever the
 * guest writes. Handlers of vCPU threads and the loop take the registry lock
 * for one short step each; it is never held across a wait. Functions that need
 * it take the struct registry that registry_lock returned.
 *
 * Lock order: the registry lock, then the audit queue's and the machines' own
 * (leaves). Nobody who waits for a stop holds the registry lock.
 */
#ifndef PORTCULLIS_MONITOR_REGISTRY_H
#define PORTCULLIS_MONITOR_REGISTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "guest/abi/limits.h"
#include "monitor/monitor.h"
#include "monitor/placement.h"
#include "policy/sid.h"
#include "vmm/machine.h"

struct bell;
struct channel;
struct group;
struct guest;

/* A name that a domain offers; its connects that wait for accept, oldest first. */
struct service {
	char name[MAX_NAME_BYTES];
	struct domain *domain;
	policy_sid sid;
	bool follows_domain;  /* its context is its domain's, also after a relabel */
	uint32_t per_client;  /* channels that one client may have here; 0: no limit */
	uint32_t n_instances; /* domains of its guest that offer this name */
	struct channel *backlog_first, *backlog_last;
	uint32_t n_backlog;
};

/* What a domain asks for: a service of any guest, or of the one that it names. */
struct service_name {
	char guest[MAX_NAME_BYTES]; /* "": any */
	char service[MAX_NAME_BYTES];
};

/* One slot of a domain. */
struct slot {
	struct channel *channel; /* NULL: free, or unusable */
	uint8_t side;            /* which end of the channel */
	bool to_sever;           /* scratch of a plan that is being made */
	bool unusable;           /* what was written there cannot be taken away (I8) */
	uint64_t generation;     /* grows with each use; 48 bits are published */
};

enum domain_life {
	LIFE_RUNNING,
	LIFE_EXITED, /* with its exit status */
	LIFE_FAILED, /* it faulted, or its guest is lost */
};

/* A connect without an outcome yet: it waits for decisions, or at the gate. */
struct pending_connect {
	bool active;
	bool asked; /* the loop has put its questions */
	bool awake; /* its exit goes on: the domain looks at the outcome without being woken */
	uint64_t ticket;
	struct service_name name;
	bool on_behalf;         /* of the client of ... */
	struct channel *parent; /* ... this channel; NULL: it has ended meanwhile, or ... */
	policy_sid identity;    /* ... of a client of the host (port_listen.c); else SID_NONE */
	uint64_t deadline_ns;
};

struct domain {
	/* Immutable after monitor_create. */
	struct guest *guest;
	uint32_t index;
	uint32_t vcpu;
	uint32_t first_slot;
	uint32_t n_slots;
	char name[MAX_NAME_BYTES];
	struct service services[MAX_SERVICES];
	uint32_t n_services;

	/* Registry lock. */
	policy_sid sid;
	enum domain_life life;
	int exit_status;
	bool quarantined;       /* nothing is opened for it, as client or server */
	struct slot *slots;     /* n_slots of them */
	uint32_t lowest_free;   /* below it none is free */
	struct extent *extents; /* n_extents of them: placement.h */
	uint32_t n_extents;     /* 0: the lowest free slot is taken */
	uint32_t extent_slots;
	uint32_t n_used;
	struct group *groups; /* of channels that it opened for itself: group.h */
	uint64_t last_ticket;
	struct pending_connect pending;
	uint32_t accepts_waiting;
	uint32_t heard_from[MAX_GUESTS]; /* peers that ring from the guest with index i: bells.h */
	bool to_wake;                    /* marked by commit, until it has raised the events */
};

struct guest {
	/* Immutable after monitor_create. */
	struct monitor *monitor;
	char name[MAX_NAME_BYTES];
	uint32_t index;  /* below MAX_GUESTS; another guest's once this one has left the registry */
	uint32_t number; /* from 1, never used again */
	uint32_t n_vcpus;
	bool is_host; /* its domains are ports (port.h), its machine has no vCPUs, and it never ends */
	struct machine *machine;
	struct domain *domains;
	uint32_t n_domains;
	struct blueprint *blueprint; /* while it is built */

	/* Registry lock. */
	struct bell *bells; /* that it rings: bells.h */
	uint8_t *shown;     /* of each slot, enum window_part: what its inbox slot shows */
	bool lost;          /* crashed, killed or gone: no channel is opened any more */
	bool ended;         /* the loop has seen its end */
	bool leaving;       /* another run takes its place; it leaves when no change is under way */
	bool gone;          /* out of the registry; only ends of channels that peers still hold refer to it */
	uint32_t n_refs;    /* the registry's, and one for each end of a channel that is not freed */
	char crash[WHY_BYTES];
};

struct registry_counters {
	uint64_t connects; /* granted */
	uint64_t denials;
	uint64_t cuts; /* flows */
};

#define CHANNELS_AHEAD 16u /* a walk over all channels fetches that many ahead */

struct registry {
	pthread_mutex_t lock;
	pthread_t owner; /* of the lock, for checks */
	bool held;

	/* Registry lock. */
	struct guest *guests[MAX_GUESTS]; /* oldest first */
	uint32_t n_guests;
	uint32_t last_guest;          /* number given last */
	uint64_t indices;             /* bit i: a guest has index i */
	uint64_t last_generation;     /* of slots of guests that have left: the next guests' are greater */
	struct channel *first, *last; /* all channels, oldest first */
	struct channel *recent[CHANNELS_AHEAD]; /* by number: those that have no channel ahead yet */
	uint32_t n_channels;
	uint32_t n_derived;        /* of them: opened on behalf of another */
	struct group *groups;      /* of all others: group.h */
	uint64_t last_judging;     /* number given last */
	struct bell *idle_bells;   /* that may have to be unbound: bells.h */
	struct channel *graveyard; /* gone while a plan may point at them */
	bool pinned;               /* there is such a plan */
	uint64_t last_channel;     /* number given last */
	bool gate_closed;
	struct registry_counters counters;

	/* Any thread writes it, the loop reads it: a connect is pending, or a domain ended. */
	int kick_fd;
};

struct registry *registry_create(void);
void registry_destroy(struct registry *registry);

struct registry *registry_lock(struct monitor *monitor);
void registry_unlock(struct registry *registry);

/* Wakes the loop. Any thread; never blocks. */
void registry_kick(struct registry *registry);

/* Takes a free index for the guest and lists it, with a reference. -ENOSPC: MAX_GUESTS. */
int registry_add(struct registry *registry, struct guest *guest);

/* It is listed no more. Its index is free; the reference stays the caller's, to be released. */
void registry_remove(struct registry *registry, struct guest *guest);

/* The gate (design: 7): while it is closed no connect is decided. */
void registry_close_gate(struct registry *registry);
void registry_open_gate(struct registry *registry);

/* While pinned, a channel that ends is buried but not freed: its numbers and names can still be read, without
 * the lock too. */
void registry_pin(struct registry *registry);
void registry_unpin(struct registry *registry);

/*
 * Raises the domain's event count, then makes its vCPU look: in this order, so
 * that a waiter that misses the count has not slept yet (guest/kernel).
 */
void domain_wake(struct registry *registry, struct domain *domain);

/* A free slot of the domain, beside others of that key; -1: none. Takes it for the channel, with a new
 * generation. */
int domain_take_slot(struct domain *domain, struct channel *channel, uint8_t side,
                     const struct placement_key *key);

/* Gives it back. Its outbox must not be mapped anywhere; it is zeroed here (I8). */
void domain_give_slot(struct domain *domain, uint32_t slot);

/* "guest/domain"; text has room for both names. */
#define PATH_NAME_BYTES MAX_PATH_BYTES
const char *domain_path(const struct domain *domain, char text[static PATH_NAME_BYTES]);

#endif
