/*
 * A monitor in this process that is driven step by step: for benchmarks and tests.
 *
 * The caller's thread is the loop. Guests are real, decisions are made by a real
 * security server, changes go the one way; only the command line and the
 * control socket are left out.
 */
#ifndef PORTCULLIS_MONITOR_STAGE_H
#define PORTCULLIS_MONITOR_STAGE_H

#include <jansson.h>
#include <stdbool.h>

#include "monitor/change.h"
#include "monitor/manifest.h"
#include "monitor/monitor.h"

struct stage {
	struct launcher *launcher;
	struct manifest *manifest;
	struct monitor *monitor;
	int kvm_fd;
};

struct stage_options {
	struct launcher *launcher;   /* not taken; started before any thread was */
	const char *manifest;        /* libconfig text; paths in it are relative to the present folder */
	const char *const *policies; /* files; replace the manifest's */
	size_t n_policies;
	const char *program_dir;   /* NULL: as in manifest.h */
	double deadline_seconds;   /* 0: 10 */
	bool quiet;                /* domains' log lines are not written */
	audit_listener_fn *on_log; /* hears each of them (audit.h); NULL: nobody */
	void *on_log_opaque;
};

/* Builds monitor and guest, not running yet. *why: malloc'ed lines on failure. Needs /dev/kvm. */
int stage_open(const struct stage_options *options, struct stage **stage, char **why);

/* Lets the guests run. */
int stage_start(struct stage *stage, char why[static WHY_BYTES]);

/* Runs the loop until the condition holds; false: not within that time. */
bool stage_until(struct stage *stage, bool (*condition)(struct stage *stage, void *opaque), void *opaque,
                 double seconds);

/* Pushes (or plans) CIL files and runs the loop until the report is there; NULL: *status and *why say why
 * not. */
json_t *stage_push(struct stage *stage, const char *const *files, size_t n_files, enum stop_mode stop,
                   bool plan_only, int *status, char **why);

/* The same for any request; its sources must stay valid until it returns. */
json_t *stage_change(struct stage *stage, const struct change_request *request, int *status, char **why);

void stage_close(struct stage *stage);

#endif
