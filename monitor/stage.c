#include "monitor/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/loop.h"
#include "monitor/posture.h"
#include "policy/launcher.h"

#define STEP_NS 5000000ull /* how often a condition is looked at when nothing happens */
#define CHANGE_SECONDS 60.0

/* Relative paths start at the present folder. */
static int load_text(const struct stage_options *options, struct manifest **manifest,
                     char why[static WHY_BYTES])
{
	struct manifest_options from = {.policies = options->policies,
	                                .n_policies = options->n_policies,
	                                .program_dir = options->program_dir,
	                                .directory = "./"};

	return manifest_parse("manifest", options->manifest, strlen(options->manifest), &from, manifest, why);
}

int stage_open(const struct stage_options *options, struct stage **out, char **why)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	char line[WHY_BYTES] = "out of memory";
	int error = -ENOMEM;

	*why = NULL;
	if (!stage)
		return -ENOMEM;
	stage->launcher = options->launcher;
	launcher_prepare(stage->launcher);
	stage->kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	error = load_text(options, &stage->manifest, line);
	if (error == 0) {
		struct monitor_options from = {
			.launcher = options->launcher,
			.manifests = &stage->manifest,
			.n_manifests = 1,
			.kvm_fd = stage->kvm_fd,
			.stop = stage->manifest->stop,
			.deadline_seconds = options->deadline_seconds > 0 ? options->deadline_seconds : 10.0,
			.quiet = options->quiet,
			.on_log = options->on_log,
			.on_log_opaque = options->on_log_opaque,
			.serve = true,
		};

		error = monitor_create(&from, &stage->monitor, why);
	} else {
		*why = strdup(line);
	}
	if (error < 0) {
		stage_close(stage);
		return error;
	}
	*out = stage;
	return 0;
}

int stage_start(struct stage *stage, char why[static WHY_BYTES])
{
	return monitor_start(stage->monitor, why);
}

bool stage_until(struct stage *stage, bool (*condition)(struct stage *stage, void *opaque), void *opaque,
                 double seconds)
{
	uint64_t deadline = loop_now() + (uint64_t)(seconds * 1e9);

	while (!condition(stage, opaque)) {
		uint64_t now = loop_now();

		if (now >= deadline)
			return false;
		loop_step(stage->monitor->loop, now + STEP_NS < deadline ? now + STEP_NS : deadline);
	}
	return true;
}

struct outcome {
	bool done;
	int status;
	json_t *report;
	char *why;
};

static void on_done(void *opaque, int status, json_t *report, const char *why)
{
	struct outcome *outcome = opaque;

	outcome->done = true;
	outcome->status = status;
	outcome->report = report;
	outcome->why = strdup(why ? why : "");
}

static bool is_done(struct stage *stage, void *opaque)
{
	(void)stage;
	return ((struct outcome *)opaque)->done;
}

json_t *stage_change(struct stage *stage, const struct change_request *request, int *status, char **why)
{
	struct outcome outcome = {0};
	char line[WHY_BYTES];

	*why = NULL;
	*status = change_begin(stage->monitor, request, on_done, &outcome, line);
	if (*status < 0) {
		*why = strdup(line);
		return NULL;
	}
	if (!stage_until(stage, is_done, &outcome, CHANGE_SECONDS)) {
		change_abandon(stage->monitor, &outcome);
		*status = -ETIMEDOUT;
		*why = strdup("the change has not ended");
		return NULL;
	}
	*status = outcome.status;
	*why = outcome.why;
	return outcome.report;
}

json_t *stage_push(struct stage *stage, const char *const *files, size_t n_files, enum stop_mode stop,
                   bool plan_only, int *status, char **why)
{
	struct policy_source *sources = calloc(n_files, sizeof(*sources));
	char line[WHY_BYTES] = "out of memory";
	json_t *report = NULL;
	size_t n = 0;

	*status = sources ? 0 : -ENOMEM;
	*why = NULL;
	for (; *status == 0 && n < n_files; n++) {
		sources[n].name = files[n];
		sources[n].fd = file_seal(files[n], MAX_POLICY_BYTES, &sources[n].bytes, line);
		if (sources[n].fd < 0) {
			*status = sources[n].fd;
			break;
		}
	}
	if (*status == 0) {
		struct change_request request = {.kind = CHANGE_POLICY,
		                                 .plan_only = plan_only,
		                                 .stop = stop,
		                                 .author = posture_self(stage->monitor),
		                                 .sources = sources,
		                                 .n_sources = n_files};

		report = stage_change(stage, &request, status, why);
	} else {
		*why = strdup(line);
	}
	while (n > 0)
		close(sources[--n].fd);
	free(sources);
	return report;
}

void stage_close(struct stage *stage)
{
	if (!stage)
		return;
	monitor_destroy(stage->monitor);
	manifest_free(stage->manifest);
	if (stage->kvm_fd >= 0)
		close(stage->kvm_fd);
	free(stage);
}
