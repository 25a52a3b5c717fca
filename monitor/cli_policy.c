/*
 * The verbs about policy: push, plan, show, query, explain.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/cli_offline.h"
#include "monitor/cli_output.h"
#include "monitor/cli_remote.h"
#include "monitor/cli_report.h"
#include "monitor/control_query.h"
#include "monitor/manifest.h"

/* ---- push and plan ---- */

struct sealed_files {
	int fds[MAX_POLICY_FILES];
	size_t n;
	json_t *names;
};

static void close_files(struct sealed_files *files)
{
	while (files->n > 0)
		close(files->fds[--files->n]);
	json_decref(files->names);
}

/* The operands, sealed. False: said why; then nothing is left. */
static bool seal_files(const struct cli_call *call, struct sealed_files *files)
{
	char why[WHY_BYTES];

	*files = (struct sealed_files){.names = json_array()};
	if (call->n_operands > MAX_POLICY_FILES) {
		fprintf(stderr, "portcullis: at most %u policy files are possible\n", MAX_POLICY_FILES);
		close_files(files);
		return false;
	}
	for (; files->n < call->n_operands; files->n++) {
		const char *name = call->operands[files->n];
		size_t bytes;
		int fd = file_seal(name, MAX_POLICY_BYTES, &bytes, why);

		if (fd >= 0 && bytes == 0) {
			snprintf(why, sizeof(why), "%.400s: the file is empty", name);
			close(fd);
			fd = -EINVAL;
		}
		if (fd < 0 || json_array_append_new(files->names, json_string(name))) {
			fprintf(stderr, "portcullis: %s\n", fd < 0 ? why : "a file's name is not UTF-8");
			close_files(files);
			return false;
		}
		files->fds[files->n] = fd;
	}
	return true;
}

static int ask_change(const struct cli_call *call, const char *verb)
{
	struct sealed_files files;
	json_t *request, *report;
	int mode, status;

	if (!cli_stop_mode(call, &mode))
		return CLI_USAGE;
	if (!seal_files(call, &files))
		return CLI_FAILED;
	request = json_pack("{s:s s:O}", "verb", verb, "files", files.names);
	if (mode >= 0)
		json_object_set_new(request, "stop", json_string(stop_mode_name((enum stop_mode)mode)));
	if (cli_has(call, "--force"))
		json_object_set_new(request, "force", json_true());
	status = remote_ask(call, request, files.fds, files.n, &report);
	close_files(&files);
	if (report && call->json)
		cli_print_json(json_incref(report));
	else if (report)
		cli_print_report(report);
	json_decref(report);
	return status;
}

int cli_policy_push(const struct cli_call *call)
{
	return ask_change(call, "policy push");
}

int cli_policy_plan(const struct cli_call *call)
{
	return ask_change(call, "policy plan");
}

/* ---- show ---- */

/* Written beside it and renamed: half a policy under that name would be taken for a whole one. */
static int save_image(const char *path, int image_fd, size_t bytes)
{
	char *temporary;
	char buffer[65536];
	int fd, error = 0;

	if (asprintf(&temporary, "%s.part", path) < 0)
		return -ENOMEM;
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		error = -errno;
	for (size_t done = 0; error == 0 && done < bytes;) {
		ssize_t n = pread(image_fd, buffer, sizeof(buffer), (off_t)done);

		if (n <= 0 || write(fd, buffer, (size_t)n) != n)
			error = n == 0 ? -EIO : -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	if (fd >= 0 && close(fd) && error == 0)
		error = -errno;
	if (error == 0 && rename(temporary, path))
		error = -errno;
	if (error < 0 && fd >= 0)
		unlink(temporary);
	free(temporary);
	return error;
}

static int save_policy(const struct cli_call *call, const char *path)
{
	size_t bytes;
	int image_fd, error;
	int status = remote_ask_bytes(call, json_pack("{s:s}", "verb", "policy image"), &image_fd, &bytes);

	if (status != CLI_DONE)
		return status;
	error = save_image(path, image_fd, bytes);
	close(image_fd);
	if (error < 0) {
		fprintf(stderr, "portcullis: %s: %s\n", path, strerror(-error));
		return CLI_FAILED;
	}
	return CLI_DONE;
}

/* What the operator has done on top of the policy. */
static void print_alterations(const json_t *body)
{
	json_t *rule, *value, *set = json_object_get(body, "set");
	const char *name;
	size_t i;

	cli_each (json_object_get(body, "revoked"), i, rule)
		printf("revoked: %s %s:%s %s\n", cli_text(rule, "source"), cli_text(rule, "target"),
		       cli_text(rule, "class"), cli_text(rule, "permissions"));
	cli_each_member (set, name, value)
		printf("set: %s %s\n", name, json_is_true(value) ? "on" : "off");
}

int cli_policy_show(const struct cli_call *call)
{
	const char *output = cli_value(call, "--output");
	json_t *body;
	int status = output ? save_policy(call, output) : CLI_DONE;

	if (status == CLI_DONE)
		status = remote_ask(call, json_pack("{s:s}", "verb", "policy show"), NULL, 0, &body);
	if (status != CLI_DONE)
		return status;
	if (call->json)
		return cli_print_json(body);
	printf("policy %lld (%s), %s\n", cli_integer(body, "policy_number"), cli_text(body, "fingerprint"),
	       json_is_true(json_object_get(body, "enforcing")) ? "enforcing" : "permissive");
	printf("%lld types, %lld rules, %lld booleans, %s, %lld bytes\n", cli_integer(body, "types"),
	       cli_integer(body, "rules"), cli_integer(body, "booleans"),
	       json_is_true(json_object_get(body, "mls")) ? "with levels" : "without levels",
	       cli_integer(body, "bytes"));
	printf("operator: %s\n", cli_text(body, "operator_context"));
	print_alterations(body);
	if (output)
		printf("saved as %s\n", output);
	json_decref(body);
	return CLI_DONE;
}

/* ---- query and explain ---- */

static void print_permissions(const json_t *names, const char *none)
{
	const json_t *name;
	size_t i;

	if (json_array_size(names) == 0)
		printf("%s\n", none);
	cli_each (names, i, name)
		printf("%s%s", json_string_value(name), i + 1 < json_array_size(names) ? " " : "\n");
}

static int print_query(const struct cli_call *call, json_t *body)
{
	if (call->json)
		return cli_print_json(body);
	if (json_is_false(json_object_get(body, "known")))
		printf("nothing: the policy does not know one of the contexts\n");
	else if (call->n_operands == 4)
		printf("%s\n", json_is_true(json_object_get(body, "granted")) ? "allowed" : "denied");
	else
		print_permissions(json_object_get(body, "allowed"), "nothing");
	json_decref(body);
	return CLI_DONE;
}

static int print_explanation(const struct cli_call *call, json_t *body)
{
	if (call->json)
		return cli_print_json(body);
	printf("%s\n", cli_text(body, "text"));
	json_decref(body);
	return CLI_DONE;
}

static json_t *question_request(const struct cli_call *call, const char *verb)
{
	json_t *request = json_pack("{s:s s:s s:s s:s}", "verb", verb, "source", call->operands[0], "target",
	                            call->operands[1], "class", call->operands[2]);

	if (call->n_operands == 4)
		json_object_set_new(request, "permission", json_string(call->operands[3]));
	return request;
}

/* The body of a query or explanation of the files of --policy; NULL: said why. */
static json_t *ask_offline(const struct cli_call *call, enum policy_class tclass, uint32_t permission,
                           bool explain)
{
	struct server_question question = {0, 1, tclass};
	struct server_decision decision;
	struct offline offline;
	json_t *body = NULL;
	char *text;

	if (!offline_load_given(call, &offline))
		return NULL;
	if (explain) {
		text = offline_explain(&offline, call->operands[0], call->operands[1], tclass, permission);
		if (text)
			body = explain_json(call->operands[0], call->operands[1], tclass, permission, text);
		free(text);
	} else if (offline_decide(&offline, call->operands, 2, &question, 1, &decision)) {
		body = query_json(call->operands[0], call->operands[1], tclass, permission, &decision);
	}
	offline_close(&offline);
	return body;
}

static int ask_question(const struct cli_call *call, const char *verb, bool explain, json_t **body)
{
	char why[WHY_BYTES];
	enum policy_class tclass;
	uint32_t permission;

	*body = NULL;
	if (query_read_names(call->operands[2], call->n_operands == 4 ? call->operands[3] : NULL, &tclass,
	                     &permission, why))
		return cli_usage(call, "%s", why);
	if (!cli_has(call, "--policy"))
		return remote_ask(call, question_request(call, verb), NULL, 0, body);
	*body = ask_offline(call, tclass, permission, explain);
	return *body ? CLI_DONE : CLI_FAILED;
}

int cli_policy_query(const struct cli_call *call)
{
	json_t *body;
	int status = ask_question(call, "policy query", false, &body);

	return status == CLI_DONE ? print_query(call, body) : status;
}

int cli_policy_explain(const struct cli_call *call)
{
	json_t *body;
	int status = ask_question(call, "policy explain", true, &body);

	return status == CLI_DONE ? print_explanation(call, body) : status;
}
