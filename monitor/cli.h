/*
 * The command line: verbs, their options, their help. One table (cli_verbs.c).
 *
 * Exit statuses: 0 done, 1 failed (standard error says why), 2 wrong usage.
 * With --json a verb prints one document on standard output and nothing else there.
 * One thread.
 */
#ifndef PORTCULLIS_MONITOR_CLI_H
#define PORTCULLIS_MONITOR_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_DONE 0
#define CLI_FAILED 1
#define CLI_USAGE 2

#define CLI_MAX_GIVEN 256u

struct cli_call;
struct launcher;

struct cli_option {
	const char *name;  /* "--policy" */
	const char *value; /* what stands behind it in the usage; NULL: nothing does */
	const char *help;  /* NULL: not shown */
};

/* Options that many verbs share. */
enum cli_shared {
	CLI_JSON = 1u << 0,   /* --json */
	CLI_SOCKET = 1u << 1, /* --socket PATH */
};

#define CLI_OWN_OPTIONS 10

struct cli_verb {
	const char *name; /* "policy push" */
	const char *operands;
	unsigned least, most; /* of operands */
	const char *summary;
	const char *help; /* paragraphs below the usage */
	unsigned shared;
	struct cli_option options[CLI_OWN_OPTIONS]; /* ended by one without a name */
	bool launches;                              /* a launcher is started before anything is opened */
	int (*run)(const struct cli_call *call);
};

struct cli_given {
	const char *name;
	const char *value;
};

struct cli_call {
	const struct cli_verb *verb;
	const char *operands[CLI_MAX_GIVEN];
	size_t n_operands;
	struct cli_given given[CLI_MAX_GIVEN];
	size_t n_given;
	bool json;
	struct launcher *launcher; /* of a verb that launches */
};

/* The program. */
int cli_main(int argc, char **argv);

/* ---- for verbs ---- */

bool cli_has(const struct cli_call *call, const char *option);

/* The last value given; NULL: none. */
const char *cli_value(const struct cli_call *call, const char *option);

/* All values given; `values` has room for CLI_MAX_GIVEN. Returns their number. */
size_t cli_values(const struct cli_call *call, const char *option, const char **values);

/* Prints what is wrong with the usage and how to see the right one; returns CLI_USAGE. */
int cli_usage(const struct cli_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A number of an option, `otherwise` if it was not given. False: cli_usage has been called. */
bool cli_number(const struct cli_call *call, const char *option, uint64_t most, uint64_t otherwise,
                uint64_t *number);
bool cli_seconds(const struct cli_call *call, const char *option, double most, double otherwise,
                 double *seconds);

/* The mode of --stop, -1 if not given. False: cli_usage has been called. */
bool cli_stop_mode(const struct cli_call *call, int *mode);

/* ---- the verbs, each in the file that is named like it ---- */

extern const struct cli_verb cli_verbs[];
extern const size_t cli_n_verbs;

int cli_run(const struct cli_call *call);
int cli_serve(const struct cli_call *call);
int cli_check(const struct cli_call *call);
int cli_policy_push(const struct cli_call *call);
int cli_policy_plan(const struct cli_call *call);
int cli_policy_show(const struct cli_call *call);
int cli_policy_query(const struct cli_call *call);
int cli_policy_explain(const struct cli_call *call);
int cli_policy_bool(const struct cli_call *call);
int cli_policy_enforce(const struct cli_call *call);
int cli_policy_revoke(const struct cli_call *call);
int cli_policy_grant(const struct cli_call *call);
int cli_policy_reset(const struct cli_call *call);
int cli_domain_relabel(const struct cli_call *call);
int cli_domain_quarantine(const struct cli_call *call);
int cli_domain_release(const struct cli_call *call);
int cli_channel_cut(const struct cli_call *call);
int cli_guest_list(const struct cli_call *call);
int cli_guest_start(const struct cli_call *call);
int cli_guest_stop(const struct cli_call *call);
int cli_guest_suspend(const struct cli_call *call);
int cli_guest_resume(const struct cli_call *call);
int cli_guest_undefine(const struct cli_call *call);
int cli_domain_list(const struct cli_call *call);
int cli_channel_list(const struct cli_call *call);
int cli_status(const struct cli_call *call);
int cli_audit(const struct cli_call *call);
int cli_shutdown(const struct cli_call *call);
int cli_doctor(const struct cli_call *call);

#endif
