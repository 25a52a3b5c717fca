#include "monitor/cli_offline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/loop.h"
#include "monitor/manifest.h"
#include "policy/launcher.h"

#define DEADLINE_NS 30000000000ull

/* An answer that is waited for. */
struct answer {
	int status;
	struct offline *offline;
	char *text;
	struct server_decision *decisions;
	bool *valid;
	size_t n;
};

static uint64_t deadline(void)
{
	return loop_now() + DEADLINE_NS;
}

static void loaded(void *opaque, int status, const struct server_policy *policy, const char *why)
{
	struct answer *answer = opaque;
	struct offline *offline = answer->offline;

	answer->status = status;
	if (status < 0) {
		answer->text = strdup(why && *why ? why : strerror(-status));
		return;
	}
	offline->n_types = policy->n_types;
	offline->n_rules = policy->n_rules;
	offline->n_booleans = policy->n_booleans;
	offline->mls = policy->mls;
	snprintf(offline->operator_context, sizeof(offline->operator_context), "%s",
	         policy->operator_context);
	if (policy->warnings[0])
		offline->warnings = strdup(policy->warnings);
	close(policy->image_fd);
}

bool offline_load(const struct cli_call *call, const struct policy_source *sources, size_t n_sources,
                  struct offline *offline)
{
	struct answer answer = {.status = -ECONNRESET, .offline = offline};
	char why[WHY_BYTES];
	int socket_fd, pidfd, error;

	*offline = (struct offline){.server = NULL};
	if (launcher_spawn(call->launcher, &socket_fd, &pidfd, why) < 0) {
		fprintf(stderr, "portcullis: %s\n", why);
		return false;
	}
	offline->server = server_open(socket_fd, pidfd);
	error = offline->server ? server_load(offline->server, sources, n_sources, NULL, 0, deadline(),
	                                      loaded, &answer)
	                        : -ENOMEM;
	if (error == 0)
		server_wait(offline->server);
	if (error == 0 && answer.status == 0)
		return true;
	if (answer.text)
		fprintf(stderr, "%s\n", answer.text);
	else
		fprintf(stderr, "portcullis: the security server: %s\n",
		        strerror(error < 0 ? -error : -answer.status));
	free(answer.text);
	offline_close(offline);
	return false;
}

bool offline_load_given(const struct cli_call *call, struct offline *offline)
{
	const char *files[CLI_MAX_GIVEN];
	struct policy_source sources[MAX_POLICY_FILES];
	size_t n_files = cli_values(call, "--policy", files), n = 0;
	char why[WHY_BYTES] = "";
	bool done = false;

	if (n_files > MAX_POLICY_FILES) {
		fprintf(stderr, "portcullis: at most %u policy files are possible\n", MAX_POLICY_FILES);
		return false;
	}
	for (; n < n_files; n++) {
		sources[n].name = files[n];
		sources[n].fd = file_seal(files[n], MAX_POLICY_BYTES, &sources[n].bytes, why);
		if (sources[n].fd < 0)
			break;
	}
	if (n < n_files)
		fprintf(stderr, "portcullis: %s\n", why);
	else
		done = offline_load(call, sources, n, offline);
	while (n > 0)
		close(sources[--n].fd);
	return done;
}

void offline_close(struct offline *offline)
{
	server_close(offline->server);
	free(offline->warnings);
	*offline = (struct offline){.server = NULL};
}

/* Waits for what was asked. False: said why. */
static bool finish(struct offline *offline, int error, const struct answer *answer)
{
	if (error == 0) {
		server_wait(offline->server);
		error = answer->status;
	}
	if (error < 0)
		fprintf(stderr, "portcullis: the security server did not answer: %s\n", strerror(-error));
	return error == 0;
}

static void decided(void *opaque, int status, const struct server_decision *decisions, size_t n_decisions)
{
	struct answer *answer = opaque;

	answer->status = status == 0 && n_decisions != answer->n ? -EPROTO : status;
	if (answer->status == 0)
		memcpy(answer->decisions, decisions, n_decisions * sizeof(*decisions));
}

bool offline_decide(struct offline *offline, const char *const *contexts, size_t n_contexts,
                    const struct server_question *questions, size_t n_questions,
                    struct server_decision *decisions)
{
	struct answer answer = {.status = -ECONNRESET, .decisions = decisions, .n = n_questions};

	return finish(offline,
	              server_decide(offline->server, contexts, n_contexts, questions, n_questions, deadline(),
	                            decided, &answer),
	              &answer);
}

static void validated(void *opaque, int status, const bool *valid, size_t n_valid)
{
	struct answer *answer = opaque;

	answer->status = status == 0 && n_valid != answer->n ? -EPROTO : status;
	if (answer->status == 0)
		memcpy(answer->valid, valid, n_valid * sizeof(*valid));
}

bool offline_validate(struct offline *offline, const char *const *contexts, size_t n_contexts, bool *valid)
{
	struct answer answer = {.status = -ECONNRESET, .valid = valid, .n = n_contexts};

	return finish(offline,
	              server_validate(offline->server, contexts, n_contexts, deadline(), validated, &answer),
	              &answer);
}

static void explained(void *opaque, int status, const char *text)
{
	struct answer *answer = opaque;

	answer->status = status;
	answer->text = status == 0 ? strdup(text) : NULL;
}

char *offline_explain(struct offline *offline, const char *source, const char *target,
                      enum policy_class tclass, uint32_t permission)
{
	struct answer answer = {.status = -ECONNRESET};

	finish(offline,
	       server_explain(offline->server, source, target, tclass, permission, deadline(), explained,
	                      &answer),
	       &answer);
	return answer.text;
}
