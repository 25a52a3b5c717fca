/*
 * The verb check: what run would refuse, found without KVM.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/cli_offline.h"
#include "monitor/cli_output.h"
#include "monitor/manifest.h"
#include "vmm/elf.h"
#include "guest/abi/memory.h"

struct check {
	const struct manifest *manifest;
	struct offline offline;
	json_t *errors, *warnings;
};

__attribute__((format(printf, 2, 3))) static void note(json_t *list, const char *format, ...)
{
	va_list arguments;
	char *text;
	int n;

	va_start(arguments, format);
	n = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (n < 0)
		return;
	json_array_append_new(list, json_string(text));
	free(text);
}

/* ---- programs ---- */

static void check_programs(struct check *check)
{
	const struct manifest *manifest = check->manifest;

	for (uint32_t d = 0; d < manifest->n_domains; d++) {
		const struct manifest_domain *domain = &manifest->domains[d];
		struct elf elf = {0};
		char why[WHY_BYTES];

		if (elf_decode(domain->image, domain->image_bytes, VA_IMAGE, VA_IMAGE_END, &elf, why) < 0)
			note(check->errors, "%s:%u: domain \"%s\": %s: %s", manifest->path, domain->line,
			     domain->name, domain->program, why);
		elf_release(&elf);
	}
}

/* ---- contexts ---- */

/* A context and where it stands. */
struct mention {
	const char *context;
	unsigned line;
	char what[2 * MAX_NAME_BYTES + 32];
};

static size_t list_mentions(const struct manifest *manifest, struct mention *mentions)
{
	size_t n = 0;

	for (uint32_t d = 0; d < manifest->n_domains; d++) {
		const struct manifest_domain *domain = &manifest->domains[d];
		struct mention *mention = &mentions[n++];

		mention->context = domain->context;
		mention->line = domain->line;
		snprintf(mention->what, sizeof(mention->what), "domain \"%s\"", domain->name);
		for (uint32_t s = 0; s < domain->n_services; s++) {
			if (!domain->services[s].context[0])
				continue;
			mention = &mentions[n++];
			mention->context = domain->services[s].context;
			mention->line = domain->line;
			snprintf(mention->what, sizeof(mention->what), "service \"%s\"",
			         domain->services[s].name);
		}
	}
	for (size_t c = 0; c < manifest->n_clients; c++) {
		struct mention *mention = &mentions[n++];

		mention->context = manifest->clients[c].context;
		mention->line = manifest->clients[c].line;
		snprintf(mention->what, sizeof(mention->what), "uid %u", (unsigned)manifest->clients[c].uid);
	}
	return n;
}

static bool check_contexts(struct check *check)
{
	const struct manifest *manifest = check->manifest;
	size_t most = manifest->n_domains * (1 + MAX_SERVICES) + manifest->n_clients;
	struct mention *mentions = calloc(most, sizeof(*mentions));
	const char **contexts = calloc(most, sizeof(*contexts));
	bool *valid = calloc(most, sizeof(*valid));
	bool answered = false;
	size_t n;

	if (mentions && contexts && valid) {
		n = list_mentions(manifest, mentions);
		for (size_t i = 0; i < n; i++)
			contexts[i] = mentions[i].context;
		answered = offline_validate(&check->offline, contexts, n, valid);
		for (size_t i = 0; answered && i < n; i++)
			if (!valid[i])
				note(check->errors, "%s:%u: %s: the policy does not know the context %s",
				     manifest->path, mentions[i].line, mentions[i].what, mentions[i].context);
	}
	free(mentions);
	free(contexts);
	free(valid);
	return answered;
}

/* ---- shared vCPUs ---- */

/* Domains a and b share a vCPU: what each may do to the other. */
struct shared_pair {
	uint32_t a, b;
};

static size_t list_pairs(const struct manifest *manifest, struct shared_pair *pairs)
{
	size_t n = 0;

	for (uint32_t a = 0; a < manifest->n_domains; a++)
		for (uint32_t b = a + 1; b < manifest->n_domains; b++)
			if (manifest->domains[a].vcpu == manifest->domains[b].vcpu)
				pairs[n++] = (struct shared_pair){a, b};
	return n;
}

/* Whether messages may flow from the domain of `forth` to that of `back`. */
static bool may_flow(const struct server_decision *forth, const struct server_decision *back)
{
	return forth->allowed & CHANNEL_SEND && back->allowed & CHANNEL_RECV;
}

static void judge_pair(struct check *check, const struct shared_pair *pair, const struct server_decision *two)
{
	const struct manifest *manifest = check->manifest;
	const struct manifest_domain *a = &manifest->domains[pair->a], *b = &manifest->domains[pair->b];
	bool forth = may_flow(&two[0], &two[1]), back = may_flow(&two[1], &two[0]);

	if (!forth || !back)
		note(check->warnings,
		     "%s:%u: domains \"%s\" and \"%s\" share vCPU %u, but policy lets %s: a shared vCPU "
		     "carries "
		     "timing, caches and on some hosts wide registers, whatever policy says",
		     manifest->path, b->line, a->name, b->name, a->vcpu,
		     forth || back ? "messages pass one way only" : "no message pass between them");
}

static bool check_sharing(struct check *check)
{
	const struct manifest *manifest = check->manifest;
	size_t most = manifest->n_domains * manifest->n_domains;
	struct shared_pair *pairs = calloc(most, sizeof(*pairs));
	struct server_question *questions = calloc(2 * most, sizeof(*questions));
	struct server_decision *decisions = calloc(2 * most, sizeof(*decisions));
	const char *contexts[MAX_DOMAINS];
	bool answered = false;
	size_t n;

	if (pairs && questions && decisions) {
		n = list_pairs(manifest, pairs);
		for (uint32_t d = 0; d < manifest->n_domains; d++)
			contexts[d] = manifest->domains[d].context;
		for (size_t i = 0; i < n; i++) {
			questions[2 * i] = (struct server_question){pairs[i].a, pairs[i].b, CLASS_CHANNEL};
			questions[2 * i + 1] =
				(struct server_question){pairs[i].b, pairs[i].a, CLASS_CHANNEL};
		}
		answered = n == 0 || offline_decide(&check->offline, contexts, manifest->n_domains, questions,
		                                    2 * n, decisions);
		for (size_t i = 0; answered && i < n; i++)
			judge_pair(check, &pairs[i], &decisions[2 * i]);
	}
	free(pairs);
	free(questions);
	free(decisions);
	return answered;
}

/* ---- the verb ---- */

static void print_notes(const json_t *list, const char *prefix, FILE *to)
{
	const json_t *text;
	size_t i;

	cli_each (list, i, text)
		fprintf(to, "%s%s\n", prefix, json_string_value(text));
}

static int print_result(const struct cli_call *call, struct check *check)
{
	const struct manifest *manifest = check->manifest;
	const struct offline *offline = &check->offline;
	int status = json_array_size(check->errors) ? CLI_FAILED : CLI_DONE;

	print_notes(check->errors, "", stderr);
	if (call->json) {
		json_t *json =
			json_pack("{s:b s:s s:i s:i s:{s:i s:i s:i s:b} s:O s:O}", "ok", status == CLI_DONE,
		                  "guest", manifest->name, "vcpus", (int)manifest->n_vcpus, "domains",
		                  (int)manifest->n_domains, "policy", "types", (int)offline->n_types, "rules",
		                  (int)offline->n_rules, "booleans", (int)offline->n_booleans, "mls",
		                  offline->mls, "errors", check->errors, "warnings", check->warnings);

		return cli_print_json(json) == CLI_DONE ? status : CLI_FAILED;
	}
	print_notes(check->warnings, "warning: ", stderr);
	if (status != CLI_DONE)
		return status;
	if (manifest->n_domains)
		printf("guest %s: %u vCPUs, %u domains\n", manifest->name, manifest->n_vcpus,
		       manifest->n_domains);
	printf("policy: %u types, %u rules, %u booleans%s\n", offline->n_types, offline->n_rules,
	       offline->n_booleans, offline->mls ? ", levels" : "");
	return status;
}

static bool load_policy(const struct cli_call *call, struct check *check)
{
	struct policy_source sources[MAX_POLICY_FILES];

	for (size_t i = 0; i < check->manifest->n_policies; i++) {
		const struct manifest_policy *policy = &check->manifest->policies[i];

		sources[i] = (struct policy_source){policy->name, policy->fd, policy->bytes};
	}
	return offline_load(call, sources, check->manifest->n_policies, &check->offline);
}

/* "a: x\nb: y": a policy's warnings, each as one of ours. */
static void take_policy_warnings(struct check *check)
{
	for (char *text = check->offline.warnings; text && *text;) {
		size_t length = strcspn(text, "\n");

		note(check->warnings, "%.*s", (int)length, text);
		text += length + (text[length] == '\n');
	}
}

/* What cannot even be read: one error. */
static int print_failure(const struct cli_call *call, const char *why)
{
	if (call->json)
		cli_print_json(json_pack("{s:b s:[s] s:[]}", "ok", 0, "errors", why, "warnings"));
	return CLI_FAILED;
}

static int check_all(const struct cli_call *call, const struct manifest *manifest)
{
	struct check check = {manifest, {NULL}, json_array(), json_array()};
	int status = CLI_FAILED;

	if (load_policy(call, &check)) {
		take_policy_warnings(&check);
		check_programs(&check);
		if (manifest->n_domains + manifest->n_clients == 0 ||
		    (check_contexts(&check) && check_sharing(&check)))
			status = print_result(call, &check);
		offline_close(&check.offline);
	} else {
		print_failure(call, "the policy is refused: standard error says where");
	}
	json_decref(check.errors);
	json_decref(check.warnings);
	return status;
}

int cli_check(const struct cli_call *call)
{
	const char *policies[CLI_MAX_GIVEN], *data[CLI_MAX_GIVEN];
	struct manifest_options options = {
		.n_policies = cli_values(call, "--policy", policies),
		.data = data,
		.n_data = cli_values(call, "--data", data),
		.program_dir = cli_value(call, "--programs"),
	};
	struct manifest *manifest;
	char why[WHY_BYTES];
	int error, status;

	options.policies = options.n_policies ? policies : NULL;
	if (!call->n_operands && !options.policies)
		return cli_usage(call, "what is to be checked? A manifest, or a policy (--policy FILE)");
	error = call->n_operands ? manifest_load(call->operands[0], &options, &manifest, why)
	                         : manifest_without_guest(&options, &manifest, why);
	if (error < 0) {
		fprintf(stderr, "%s\n", why);
		return print_failure(call, why);
	}
	status = check_all(call, manifest);
	manifest_free(manifest);
	return status;
}
