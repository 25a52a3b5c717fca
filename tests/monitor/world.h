/*
 * A world: one stage with real guests, and what tests of the monitor's promises
 * do with it. Every failure is a failed assertion of the running test; every wait has
 * a deadline that only a broken program reaches.
 *
 * The usual guest has two vCPUs and four domains: "one" and "three" on vCPU 0,
 * "two" and "four" on vCPU 1, with contexts one_t ...; "two" offers "svc",
 * "four" offers "aux". They are actors: t_mailbox.h says what they can be told.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_WORLD_H
#define PORTCULLIS_TESTS_MONITOR_WORLD_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/abi/call.h"
#include "guest/abi/memory.h"
#include "monitor/channel.h"
#include "monitor/change.h"
#include "monitor/posture.h"
#include "monitor/registry.h"
#include "monitor/stage.h"
#include "tests/hostile/domains/t_mailbox.h"

#define WAIT_SECONDS 60.0
#define NO_TIMEOUT UINT64_MAX

#define TEST_DOMAINS "build/tests/domains/"
#define TEST_KERNELS "build/tests/kernels/"

/* A list of policy files, NULL at its end. base.cil is one of them. */
typedef const char *const *policy_files;

extern const char *const POLICY_OPEN[];       /* one <-> two, three <-> two, one and three <-> four */
extern const char *const POLICY_NO_SEND[];    /* as OPEN, but one may not send to two */
extern const char *const POLICY_NO_CONNECT[]; /* as OPEN, but one may not connect to two */
extern const char *const POLICY_NO_FLOWCTL[]; /* as OPEN, but two tells one nothing of how far it has read */
extern const char *const POLICY_SWAP[];       /* as OPEN, but it is three that may not connect to two */
extern const char *const POLICY_NOTHING[];    /* nobody may do anything */
extern const char *const POLICY_FORGET[];     /* as OPEN for those that remain: one_t is unknown */
extern const char *const POLICY_LANE_A[];     /* traffic: lanes a, c, d */
extern const char *const POLICY_LANE_B[];     /* traffic: lanes b, c, d */

struct world_options {
	const char *manifest; /* NULL: the usual guest */
	policy_files policy;  /* NULL: POLICY_OPEN */
	double deadline_seconds;
	bool not_started;
	bool quiet;     /* no log lines */
	bool not_ready; /* do not wait until every domain has written to its mailbox */
	bool busy;      /* vCPUs spin: everything else goes first, so that many pushes take less time */
};

struct world {
	struct launcher *launcher;
	struct stage *stage;
	struct monitor *monitor;
};

extern const char MANIFEST_USUAL[];
extern const char MANIFEST_TRAFFIC[]; /* "source" on vCPU 0 -> "sink" on vCPU 1, lanes a to d */

/* Skips the test where there is no /dev/kvm (and fails it where CI=true). Starts the launcher: call it first.
 */
void world_open(struct world *world, const struct world_options *options);
void world_close(struct world *world);

struct guest *world_guest(struct world *world);
struct domain *world_domain(struct world *world, const char *name);
struct mailbox *world_mailbox(struct world *world, const char *name);

/* Runs the loop until the condition holds, or fails the test and says what it waited for. */
typedef bool world_condition(struct world *world, void *opaque);
void world_until(struct world *world, world_condition *condition, void *opaque, const char *what);

/* Runs the loop once around, without waiting for anything to happen. */
void world_turn(struct world *world);
/* Runs the loop for that long: only to vary when things happen, never to wait for them. */
void world_drift(struct world *world, uint64_t ns);

/* ---- actors ---- */

struct command {
	enum actor_operation operation;
	uint64_t argument[6];
	const char *text;
};

/* Tells the actor; it may block in it. */
void actor_begin(struct world *world, const char *name, struct command command);
/* Waits until it has carried the command out, returns the result; values in its mailbox. */
int64_t actor_finish(struct world *world, const char *name);
int64_t actor_do(struct world *world, const char *name, struct command command);
bool actor_is_done(struct world *world, const char *name);
/* Waits until it has begun the command and its kernel says that it sleeps. */
void actor_until_blocked(struct world *world, const char *name);
/* The same of a connect that was granted: not while it is undecided. */
void actor_until_awaiting(struct world *world, const char *name);
/* Tells a loop of the command to end; then actor_finish. */
void actor_end_loop(struct world *world, const char *name);

/* A channel: its handle at each end. */
struct pair {
	const char *client, *server;
	uint64_t at_client, at_server;
	struct channel *channel; /* as the registry has it */
};

struct pair pair_open(struct world *world, const char *client, const char *server, const char *service);
/* n messages from counter on. */
int64_t pair_send(struct world *world, const struct pair *pair, bool from_client, uint64_t counter,
                  uint64_t n);
int64_t pair_receive(struct world *world, const struct pair *pair, bool at_client, uint64_t most);
void pair_close(struct world *world, const struct pair *pair);

/* ---- changes ---- */

/* Status as of stage_push; *why may be NULL. Retries nothing. */
json_t *world_try_push(struct world *world, policy_files policy, enum stop_mode stop, int *status);
/* Must succeed. */
json_t *world_push(struct world *world, policy_files policy, enum stop_mode stop);
json_t *world_plan(struct world *world, policy_files policy);
void world_push_quietly(struct world *world, policy_files policy, enum stop_mode stop);

/* The policy in force, compiled: a push of it takes a quarter of the time. */
struct image {
	int fd;
	size_t bytes;
};

struct image world_image(struct world *world);
json_t *world_push_image(struct world *world, const struct image *image, enum stop_mode stop);

/* "flows.cut", "cuts.0.discarded_messages" */
json_int_t report_number(const json_t *report, const char *path);
const char *report_text(const json_t *report, const char *path);

/* ---- the host's state ---- */

/*
 * Everything that a denial or a failed change must leave as it was (I3, I7): the
 * registry, slot records, what stands in the inbox windows and who has it mapped,
 * and the policy. One text, so that a difference can be shown.
 */
enum snapshot_depth {
	SNAPSHOT_QUIET, /* guests are idle: event counts, contents of inbox slots too */
	SNAPSHOT_BUSY,  /* guests run: the host's own state, records and mappings */
};

char *world_snapshot(struct world *world, enum snapshot_depth depth);
void snapshot_assert_equal(char *before, char *after, const char *what); /* frees both */

/* True if all that a guest can see in that end's inbox slot is zero. */
bool inbox_is_empty(const struct channel *channel, enum channel_side side);

/* Of this process, in bytes. */
uint64_t resident_bytes(void);

/* Newest audit line that holds the text; NULL: none. malloc. */
char *audit_find(struct world *world, const char *text);
/* Waits for it: a denial's line comes when the security server has said why. */
char *audit_await(struct world *world, const char *text);

#endif
