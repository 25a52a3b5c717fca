#include "monitor/bench/scene.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/text_file.h"
#include "monitor/posture.h"
#include "vmm/check.h"

#define PATIENCE_SECONDS 60.0 /* of a step; a host that needs longer is not measured but broken */
#define MAX_LINES 1024u

struct scene {
	struct stage *stage;

	/* lock: vCPU threads add lines. */
	pthread_mutex_t lock;
	size_t n_lines;
	struct scene_line lines[MAX_LINES];
};

/* ---- what domains say ---- */

static void on_log(void *opaque, const char *guest, const char *domain, const char *text)
{
	struct scene *scene = opaque;

	(void)guest;
	pthread_mutex_lock(&scene->lock);
	if (scene->n_lines < MAX_LINES) {
		struct scene_line *line = &scene->lines[scene->n_lines++];

		snprintf(line->domain, sizeof(line->domain), "%s", domain ? domain : "kernel");
		snprintf(line->text, sizeof(line->text), "%.127s", text);
	}
	pthread_mutex_unlock(&scene->lock);
	if (scene->stage)
		registry_kick(scene->stage->monitor->registry);
}

size_t scene_n_lines(struct scene *scene)
{
	size_t n;

	pthread_mutex_lock(&scene->lock);
	n = scene->n_lines;
	pthread_mutex_unlock(&scene->lock);
	return n;
}

bool scene_line(struct scene *scene, size_t i, struct scene_line *line)
{
	bool there;

	pthread_mutex_lock(&scene->lock);
	there = i < scene->n_lines;
	if (there)
		*line = scene->lines[i];
	pthread_mutex_unlock(&scene->lock);
	return there;
}

void scene_clear_lines(struct scene *scene)
{
	pthread_mutex_lock(&scene->lock);
	scene->n_lines = 0;
	pthread_mutex_unlock(&scene->lock);
}

/* ---- the guest ---- */

struct stage *scene_stage(struct scene *scene)
{
	return scene->stage;
}

struct guest *scene_guest(struct scene *scene)
{
	return scene->stage->monitor->registry->guests[0];
}

static bool all_blocked(const struct guest *guest)
{
	for (uint32_t d = 0; d < guest->n_domains; d++)
		if (strncmp(guest->domains[d].name, SCENE_LOAD, strlen(SCENE_LOAD)) != 0 &&
		    machine_domain_state(guest->machine, d) != DOMAIN_BLOCKED)
			return false;
	return true;
}

bool scene_all_blocked(struct scene *scene)
{
	const struct registry *registry = scene->stage->monitor->registry;

	for (uint32_t g = 0; g < registry->n_guests; g++)
		if (!all_blocked(registry->guests[g]))
			return false;
	return true;
}

/* A domain that has ended, or the guest that was lost; NULL: all is well. */
static const char *ended(struct scene *scene)
{
	struct registry *registry = registry_lock(scene->stage->monitor);
	const char *name = NULL;

	for (uint32_t g = 0; g < registry->n_guests && !name; g++) {
		const struct guest *guest = registry->guests[g];

		name = guest->lost ? guest->name : NULL;
		for (uint32_t d = 0; d < guest->n_domains && !name; d++)
			if (guest->domains[d].life != LIFE_RUNNING)
				name = guest->domains[d].name;
	}
	registry_unlock(registry);
	return name;
}

struct wanted {
	struct scene *scene;
	bool (*condition)(struct scene *scene, void *opaque);
	void *opaque;
	const char *ended;
};

static bool wanted_holds(struct stage *stage, void *opaque)
{
	struct wanted *wanted = opaque;

	(void)stage;
	if (wanted->condition(wanted->scene, wanted->opaque))
		return true;
	wanted->ended = ended(wanted->scene);
	return wanted->ended != NULL;
}

static void explain_end(struct scene *scene, const char *name, char why[static WHY_BYTES])
{
	struct scene_line line = {.text = "nothing"};

	for (size_t i = 0; scene_line(scene, i, &line) && strcmp(line.domain, name) != 0; i++)
		continue;
	snprintf(why, WHY_BYTES, "domain %s has ended unexpectedly; %s said: %s", name,
	         line.domain[0] ? line.domain : "it", line.text);
}

int scene_until(struct scene *scene, bool (*condition)(struct scene *scene, void *opaque), void *opaque,
                const char *what, char why[static WHY_BYTES])
{
	struct wanted wanted = {scene, condition, opaque, NULL};

	if (!stage_until(scene->stage, wanted_holds, &wanted, PATIENCE_SECONDS)) {
		snprintf(why, WHY_BYTES, "after %.0f seconds still waiting until %s", PATIENCE_SECONDS, what);
		return -ETIMEDOUT;
	}
	if (!wanted.ended)
		return 0;
	explain_end(scene, wanted.ended, why);
	return -ECHILD;
}

json_t *scene_push(struct scene *scene, const char *policy, enum stop_mode stop, bool plan_only,
                   char why[static WHY_BYTES])
{
	return scene_push_watched(scene, policy, stop, plan_only, NULL, NULL, why);
}

json_t *scene_push_watched(struct scene *scene, const char *policy, enum stop_mode stop, bool plan_only,
                           void (*planned)(void *opaque), void *opaque, char why[static WHY_BYTES])
{
	struct policy_source sources[N_TEXT_SOURCES];
	struct change_request request = {.kind = CHANGE_POLICY,
	                                 .plan_only = plan_only,
	                                 .stop = stop,
	                                 .author = posture_self(scene->stage->monitor),
	                                 .sources = sources,
	                                 .n_sources = N_TEXT_SOURCES,
	                                 .planned = planned,
	                                 .planned_opaque = opaque};
	json_t *report = NULL;
	char *lines = NULL;
	int status = text_sources_open(policy, sources);

	if (status < 0) {
		snprintf(why, WHY_BYTES, "the policy's text: %s", strerror(-status));
		return NULL;
	}
	report = stage_change(scene->stage, &request, &status, &lines);
	text_sources_close(sources);
	if (status != 0) {
		snprintf(why, WHY_BYTES, "push: %s", lines && *lines ? lines : strerror(-status));
		json_decref(report);
		report = NULL;
	}
	free(lines);
	return report;
}

struct domain *scene_domain(struct scene *scene, const char *name)
{
	const struct registry *registry = scene->stage->monitor->registry;

	for (uint32_t g = 0; g < registry->n_guests; g++)
		for (uint32_t d = 0; d < registry->guests[g]->n_domains; d++)
			if (strcmp(registry->guests[g]->domains[d].name, name) == 0)
				return &registry->guests[g]->domains[d];
	CHECK(false);
}

void scene_wake(struct scene *scene, struct domain *domain)
{
	struct registry *registry = registry_lock(scene->stage->monitor);

	domain_wake(registry, domain);
	registry_unlock(registry);
}

void scene_wake_all(struct scene *scene)
{
	for (uint32_t d = 0; d < scene_guest(scene)->n_domains; d++)
		scene_wake(scene, &scene_guest(scene)->domains[d]);
}

/* ---- begin and end ---- */

static int stage_begin(struct scene *scene, const struct scene_options *options, char why[static WHY_BYTES])
{
	struct policy_source sources[N_TEXT_SOURCES];
	char paths[N_TEXT_SOURCES][32];
	const char *files[N_TEXT_SOURCES] = {paths[0], paths[1]};
	struct stage_options from = {.launcher = options->launcher,
	                             .manifest = options->manifest,
	                             .policies = files,
	                             .n_policies = N_TEXT_SOURCES,
	                             .program_dir = options->program_dir,
	                             .quiet = true,
	                             .on_log = on_log,
	                             .on_log_opaque = scene};
	char *lines = NULL;
	int error = text_sources_open(options->policy, sources);

	if (error < 0) {
		snprintf(why, WHY_BYTES, "the policy's text: %s", strerror(-error));
		return error;
	}
	for (int i = 0; i < N_TEXT_SOURCES; i++)
		snprintf(paths[i], sizeof(paths[i]), "/proc/self/fd/%d", sources[i].fd);
	error = stage_open(&from, &scene->stage, &lines);
	text_sources_close(sources);
	if (error < 0)
		snprintf(why, WHY_BYTES, "%s", lines && *lines ? lines : strerror(-error));
	free(lines);
	return error < 0 ? error : stage_start(scene->stage, why);
}

int scene_open(const struct scene_options *options, struct scene **out, char why[static WHY_BYTES])
{
	struct scene *scene = calloc(1, sizeof(*scene));
	int error;

	if (!scene) {
		snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	pthread_mutex_init(&scene->lock, NULL);
	error = stage_begin(scene, options, why);
	if (error < 0) {
		scene_close(scene);
		return error;
	}
	*out = scene;
	return 0;
}

void scene_close(struct scene *scene)
{
	if (!scene)
		return;
	stage_close(scene->stage);
	pthread_mutex_destroy(&scene->lock);
	free(scene);
}
