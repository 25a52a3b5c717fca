/*
 * The guests of `bench ipc`: a client and a server on two vCPUs, another pair
 * that shares a third one, a relay that calls on behalf of its client, and a pair in two further guests. Each
 * runs one batch when it is told to and sleeps otherwise, so that the host's own ping-pongs have the same
 * cores to themselves in between. One thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_IPC_GUEST_H
#define PORTCULLIS_MONITOR_BENCH_IPC_GUEST_H

#include <stddef.h>
#include <stdint.h>

#include "guest/abi/limits.h"

struct call_watch;
struct launcher;
struct ipc_guest;

enum ipc_pair {
	PAIR_TWO_VCPUS,
	PAIR_ONE_VCPU,
	PAIR_ON_BEHALF, /* on two vCPUs; the client is a relay, the channel bears the identity of its client
	                 */
	PAIR_TWO_GUESTS,
	N_PAIRS
};

#define IPC_BULK_BYTES (128u << 10) /* two messages of 64 KiB under way */
#define IPC_MAX_TIMES (IPC_BULK_BYTES / sizeof(uint32_t))
#define IPC_MAX_BATCHES 28u /* of one pair */

enum ipc_kind {
	IPC_SPINNING,
	IPC_UNMEDIATED, /* the same, but the ring looks at a private copy of its record */
	IPC_IDENTIFIED, /* spinning; the server asks for each message who sent it */
	IPC_SLEEPING,

	/* A "round trip" of these is something else, and there are no messages. */
	IPC_CONNECT,
	IPC_ACCEPTED, /* a connect, until it is accepted */
	IPC_FRESH,    /* a connect that takes slots nobody has used, and keeps them */
	IPC_DENIED,
	IPC_HYPERCALL,
	IPC_SYSTEM_CALL,
};

struct ipc_batch {
	enum ipc_kind kind;
	uint32_t bytes;         /* at least 1 */
	uint32_t n_round_trips; /* timed; at most IPC_MAX_TIMES, or 0 times are given back */
	uint32_t n_messages;    /* one way, as fast as they go */
};

/* A pair runs its batches in this order, again and again. A pair without batches is left out. */
struct ipc_plan {
	struct ipc_batch batch[N_PAIRS][IPC_MAX_BATCHES];
	size_t n_batches[N_PAIRS];
	uint32_t n_slots; /* of each domain; 0: the default */
};

struct ipc_times {
	double *round_trip_us; /* room for n_round_trips; NULL: they are not asked for */
	double stream_us;
};

/* -errno and a line. The plan is read once. */
int ipc_guest_open(struct launcher *launcher, const char *program_dir, const struct ipc_plan *plan,
                   struct ipc_guest **guest, char why[static WHY_BYTES]);
void ipc_guest_close(struct ipc_guest *guest);

/* Runs the pair's next batch; all domains sleep before and after. */
int ipc_guest_run(struct ipc_guest *guest, enum ipc_pair pair, struct ipc_times *times,
                  char why[static WHY_BYTES]);

/* Watches the hypercalls of the first guest; NULL: no more. */
void ipc_guest_watch(struct ipc_guest *guest, const struct call_watch *watch);

/* Exits to user space of all vCPUs so far. */
uint64_t ipc_guest_exits(struct ipc_guest *guest);

/* Exits to user space while two spinning domains exchange n_messages of 8 bytes (an even number). */
int ipc_count_exits(struct launcher *launcher, const char *program_dir, uint32_t n_messages, uint64_t *exits,
                    char why[static WHY_BYTES]);

#endif
