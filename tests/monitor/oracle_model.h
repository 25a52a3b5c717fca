/*
 * The model of the differential oracle: what policies and channels are to do,
 * written down a second time and as plainly as possible. It knows the table of what a flow
 * needs (design: 6) and the life of a channel from the documents, and nothing of the monitor's code.
 *
 * Five domains, each of which offers a service and may connect to all: domain i has
 * type i at first and offers "s<i>"; the label of s3 is type 5 whatever its domain is;
 * domains 3 and 4 both offer "m" too, whose label is type 6. Type 7 nobody has at first.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_ORACLE_MODEL_H
#define PORTCULLIS_TESTS_MONITOR_ORACLE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define N_ORACLE_DOMAINS 5
#define N_ORACLE_TYPES 8
#define N_ORACLE_POLICIES 24
#define ORACLE_ANY N_ORACLE_TYPES /* of an overlay's side */
#define MOST_ORACLE_RULES 6
#define MOST_ORACLE_CHANNELS 40
#define MOST_ORACLE_ENDS 10 /* that one domain holds */
#define SERVICE_OF_TWO N_ORACLE_DOMAINS
#define LABEL_OF_THREE 5
#define LABEL_OF_TWO 6

enum oracle_permission {
	MAY_CONNECT = 1,
	MAY_ACCEPT = 2,
	MAY_SEND = 4,
	MAY_RECV = 8,
	MAY_FLOWCTL = 16,
	MAY_SPECIFY_CLIENT = 32,
	MAY_ALL = 63,
};

#define N_ORACLE_PERMISSIONS 6

struct oracle_policy {
	uint8_t always[N_ORACLE_TYPES][N_ORACLE_TYPES];
	uint8_t if_true[N_ORACLE_TYPES][N_ORACLE_TYPES]; /* with the boolean */
	bool known[N_ORACLE_TYPES], permissive[N_ORACLE_TYPES];
	int member[N_ORACLE_TYPES]; /* type of the instance of "m" that a client gets; -1: no rule */
	bool has_boolean, initially;
};

struct oracle_rule {
	int source, target; /* type, or ORACLE_ANY */
	uint8_t permissions;
};

/* All that decisions are made by. */
struct oracle_posture {
	const struct oracle_policy *policy;
	bool enforcing;
	bool is_set, value; /* the boolean, by an operator */
	struct oracle_rule rules[MOST_ORACLE_RULES];
	size_t n_rules;
	int type[N_ORACLE_DOMAINS];
	bool quarantined[N_ORACLE_DOMAINS];
};

enum oracle_state {
	ORACLE_DENIED,
	ORACLE_PENDING,
	ORACLE_OPEN,
	ORACLE_CUT,
	ORACLE_CLOSED,
};

struct oracle_flow {
	enum oracle_state state;
	bool flowctl;
	uint64_t sent, taken; /* messages; of a flow with flowctl */
};

/* Index 0 is the client's, or from it. */
struct oracle_channel {
	uint64_t number;
	int domain[2];
	int service;
	bool held[2], waits; /* waits: for accept */
	int identity;        /* type that decides for the client */
	bool on_behalf;
	int parent; /* channel, or -1 */
	struct oracle_flow flow[2];
	uint64_t handle[2];
	bool blocked; /* the client awaits the accept */
};

struct oracle_model {
	struct oracle_posture posture;
	struct oracle_channel channels[MOST_ORACLE_CHANNELS]; /* in the order of their numbers */
	size_t n_channels;
	uint64_t policy_number;
};

enum oracle_answer {
	ORACLE_GRANTED,
	ORACLE_REFUSED,
	ORACLE_NO_SERVICE,
	ORACLE_QUARANTINED,
};

/* What a connect gets; server and flows of one that is granted. */
struct oracle_grant {
	enum oracle_answer answer;
	int server;
	bool open[2], flowctl[2];
	bool blind; /* the client hears nothing of its server */
	bool quick; /* the client does not wait for the accept */
};

/* parent: a channel, or -1. */
struct oracle_grant oracle_connect(const struct oracle_model *model, int client, int service, int parent);

/* The channel that this grant makes; its index, which holds until one is closed. */
int oracle_open(struct oracle_model *model, int client, int service, int parent,
                const struct oracle_grant *grant, uint64_t number);

/* The oldest that waits for the domain; -1: none. */
int oracle_waiting(const struct oracle_model *model, int server);
void oracle_accept(struct oracle_model *model, int channel);
void oracle_close(struct oracle_model *model, int channel, int side);

/* What a change does to flows. */
struct oracle_effect {
	size_t n_examined, n_cut, n_allowed, n_marked;
	bool cut[MOST_ORACLE_CHANNELS][2];
};

/* The change to that posture; cut_channel: one that an operator cuts, or -1. Does nothing yet. */
struct oracle_effect oracle_plan(const struct oracle_model *model, const struct oracle_posture *next,
                                 int cut_channel);
void oracle_change(struct oracle_model *model, const struct oracle_posture *next,
                   const struct oracle_effect *effect);

/* What a change has left without any end. */
void oracle_sweep(struct oracle_model *model);

bool oracle_is_live(const struct oracle_flow *flow);
bool oracle_hears(const struct oracle_channel *channel, int side);

/* How many ends the domain holds, or will hold. */
int oracle_ends(const struct oracle_model *model, int domain);

#endif
