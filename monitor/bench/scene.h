/*
 * A guest that is measured: a stage (monitor/stage.h) from generated text, with
 * the base policy that was built in, and what its domains say.
 *
 * One thread, which is the loop; domains' lines come in from vCPU threads.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_SCENE_H
#define PORTCULLIS_MONITOR_BENCH_SCENE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "monitor/registry.h"
#include "monitor/stage.h"

struct scene;

struct scene_options {
	struct launcher *launcher;
	const char *manifest;    /* libconfig text */
	const char *policy;      /* CIL beside base.cil */
	const char *program_dir; /* NULL: beside the executable (manifest.h) */
};

/* Builds the guest and lets it run. -errno and a line. */
int scene_open(const struct scene_options *options, struct scene **scene, char why[static WHY_BYTES]);
void scene_close(struct scene *scene);

struct stage *scene_stage(struct scene *scene);

/* The one guest, or the first. */
struct guest *scene_guest(struct scene *scene);

/*
 * Runs the loop until the condition holds. -ETIMEDOUT and a line with `what`;
 * -ECHILD: a domain has ended, and the line says what it said last.
 */
int scene_until(struct scene *scene, bool (*condition)(struct scene *scene, void *opaque), void *opaque,
                const char *what, char why[static WHY_BYTES]);

/* Domains whose names begin so are there to be in the way: nobody waits until they sleep. */
#define SCENE_LOAD "load"

/* Does every other domain sleep in its kernel? */
bool scene_all_blocked(struct scene *scene);

/* Pushes base.cil and this text, or only plans that; the report, or NULL and why. */
json_t *scene_push(struct scene *scene, const char *policy, enum stop_mode stop, bool plan_only,
                   char why[static WHY_BYTES]);

/* The same; `planned` is called when the plan stands and the stop is next (change.h). */
json_t *scene_push_watched(struct scene *scene, const char *policy, enum stop_mode stop, bool plan_only,
                           void (*planned)(void *opaque), void *opaque, char why[static WHY_BYTES]);

/* The domain of that name, which there must be, in any guest. */
struct domain *scene_domain(struct scene *scene, const char *name);

/* Raises a domain's events, as a cut of a channel of its would. */
void scene_wake(struct scene *scene, struct domain *domain);
/* Of the first guest. */
void scene_wake_all(struct scene *scene);

/* Lines that domains logged since the last clear. A line is cut off at 127 bytes. */
struct scene_line {
	char domain[MAX_NAME_BYTES];
	char text[128];
};
size_t scene_n_lines(struct scene *scene);
bool scene_line(struct scene *scene, size_t i, struct scene_line *line);
void scene_clear_lines(struct scene *scene);

#endif
