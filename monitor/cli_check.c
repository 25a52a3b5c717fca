/*
 * The verb check: what run would refuse, found without KVM.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/cli_manifest.h"
#include "monitor/cli_offline.h"
#include "monitor/cli_output.h"
#include "monitor/manifest.h"
#include "monitor/port_check.h"
#include "monitor/suggest.h"
#include "vmm/elf.h"
#include "guest/abi/memory.h"

struct check {
	struct manifest **manifests;
	size_t n_manifests;
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

static bool check_programs(struct check *check, const struct manifest_guest *guest)
{
	for (uint32_t d = 0; d < guest->n_domains; d++) {
		const struct manifest_domain *domain = &guest->domains[d];
		struct elf elf = {0};
		char why[WHY_BYTES];

		if (elf_decode(domain->image, domain->image_bytes, VA_IMAGE, VA_IMAGE_END, &elf, why) < 0)
			note(check->errors, "%s:%u: domain \"%s\": %s: %s", guest->path, domain->line,
			     domain->name, domain->program, why);
		elf_release(&elf);
	}
	return true;
}

/* ---- contexts ---- */

/* A context and where it stands. */
struct mention {
	const char *context;
	unsigned line;
	char what[2 * MAX_NAME_BYTES + 32];
};

static size_t list_mentions(const struct manifest_guest *guest, struct mention *mentions)
{
	size_t n = 0;

	for (uint32_t d = 0; d < guest->n_domains; d++) {
		const struct manifest_domain *domain = &guest->domains[d];
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
	return n;
}

static size_t list_clients(const struct manifest *manifest, struct mention *mentions)
{
	for (size_t c = 0; c < manifest->n_clients; c++) {
		mentions[c].context = manifest->clients[c].context;
		mentions[c].line = manifest->clients[c].line;
		snprintf(mentions[c].what, sizeof(mentions[c].what), "uid %u",
		         (unsigned)manifest->clients[c].uid);
	}
	return manifest->n_clients;
}

/* False: no answer. */
static bool validate(struct check *check, const char *path, const struct mention *mentions, size_t n)
{
	const char **contexts = calloc(n + 1, sizeof(*contexts));
	bool *valid = calloc(n + 1, sizeof(*valid));
	bool answered = false;

	if (contexts && valid) {
		for (size_t i = 0; i < n; i++)
			contexts[i] = mentions[i].context;
		answered = n == 0 || offline_validate(&check->offline, contexts, n, valid);
		for (size_t i = 0; answered && i < n; i++)
			if (!valid[i])
				note(check->errors, "%s:%u: %s: the policy does not know the context %s",
				     path, mentions[i].line, mentions[i].what, mentions[i].context);
	}
	free(contexts);
	free(valid);
	return answered;
}

static bool check_contexts(struct check *check, const struct manifest_guest *guest)
{
	struct mention *mentions = calloc(MAX_DOMAINS * (1 + MAX_SERVICES), sizeof(*mentions));
	bool answered = mentions && validate(check, guest->path, mentions, list_mentions(guest, mentions));

	free(mentions);
	return answered;
}

static bool check_clients(struct check *check, const struct manifest *manifest)
{
	struct mention *mentions = calloc(manifest->n_clients + 1, sizeof(*mentions));
	bool answered =
		mentions && validate(check, manifest->path, mentions, list_clients(manifest, mentions));

	free(mentions);
	return answered;
}

/* ---- ports ---- */

static size_t list_port_clients(const struct manifest_port *port, struct mention *mentions)
{
	for (size_t c = 0; c < port->n_clients; c++) {
		mentions[c].context = port->clients[c].context;
		mentions[c].line = port->clients[c].line;
		snprintf(mentions[c].what, sizeof(mentions[c].what), "port \"%s\": uid %u", port->name,
		         (unsigned)port->clients[c].uid);
	}
	return port->n_clients;
}

static size_t list_ports(const struct manifest *manifest, struct mention *mentions)
{
	size_t n = 0;

	for (uint32_t p = 0; p < manifest->n_ports; p++) {
		const struct manifest_port *port = &manifest->ports[p];
		const char *contexts[] = {port->context, port->offers.context};

		for (size_t i = 0; i < 2; i++) {
			if (!contexts[i][0])
				continue;
			mentions[n].context = contexts[i];
			mentions[n].line = port->line;
			snprintf(mentions[n++].what, sizeof(mentions->what), "port \"%s\"", port->name);
		}
		n += list_port_clients(port, mentions + n);
	}
	return n;
}

static size_t most_port_contexts(const struct manifest *manifest)
{
	size_t n = 2 * manifest->n_ports;

	for (uint32_t p = 0; p < manifest->n_ports; p++)
		n += manifest->ports[p].n_clients;
	return n;
}

static size_t most_services(const struct check *check)
{
	size_t n = 0;

	for (size_t m = 0; m < check->n_manifests; m++) {
		n += check->manifests[m]->n_ports;
		n += (size_t)check->manifests[m]->n_guests * MAX_DOMAINS * MAX_SERVICES;
	}
	return n;
}

static size_t list_guest_services(const struct manifest_guest *guest, const char **names)
{
	size_t n = 0;

	for (uint32_t d = 0; d < guest->n_domains; d++)
		for (uint32_t s = 0; s < guest->domains[d].n_services; s++)
			names[n++] = guest->domains[d].services[s].name;
	return n;
}

/* Every name that is offered; a guest's name before it does not count here. */
static size_t list_services(const struct check *check, const char **names)
{
	size_t n = 0;

	for (size_t m = 0; m < check->n_manifests; m++) {
		const struct manifest *manifest = check->manifests[m];

		for (uint32_t g = 0; g < manifest->n_guests; g++)
			n += list_guest_services(&manifest->guests[g], names + n);
		for (uint32_t p = 0; p < manifest->n_ports; p++)
			if (manifest->ports[p].offers.name[0])
				names[n++] = manifest->ports[p].offers.name;
	}
	return n;
}

/* A guest that comes later may offer it, so this is no error. */
static void check_target(struct check *check, const struct manifest_port *port, const char *const *names,
                         size_t n_names)
{
	const char *slash = strrchr(port->to, '/'), *wanted = slash ? slash + 1 : port->to;
	char suggestion[SUGGESTION_BYTES];

	for (size_t i = 0; i < n_names; i++)
		if (strcmp(names[i], wanted) == 0)
			return;
	note(check->warnings, "%s:%u: port \"%s\" connects to \"%s\", which no domain here offers%s",
	     port->manifest, port->line, port->name, port->to,
	     suggest_phrase(wanted, names, n_names, suggestion));
}

static void check_place(struct check *check, const struct manifest_port *port)
{
	char why[WHY_BYTES];
	enum port_finding finding = port_check(port, why);

	if (finding != PORT_FINE)
		note(finding == PORT_WRONG ? check->errors : check->warnings, "%s:%u: port \"%s\": %s",
		     port->manifest, port->line, port->name, why);
}

static bool check_ports(struct check *check, const struct manifest *manifest)
{
	struct mention *mentions = calloc(most_port_contexts(manifest) + 1, sizeof(*mentions));
	const char **names = calloc(most_services(check) + 1, sizeof(*names));
	bool answered = false;

	if (mentions && names) {
		size_t n_names = list_services(check, names);

		answered = validate(check, manifest->path, mentions, list_ports(manifest, mentions));
		for (uint32_t p = 0; p < manifest->n_ports; p++) {
			check_place(check, &manifest->ports[p]);
			if (manifest->ports[p].to[0])
				check_target(check, &manifest->ports[p], names, n_names);
		}
	}
	free(mentions);
	free(names);
	return answered;
}

/* ---- shared vCPUs ---- */

/* Domains a and b share a vCPU: what each may do to the other. */
struct shared_pair {
	uint32_t a, b;
};

static size_t list_pairs(const struct manifest_guest *guest, struct shared_pair *pairs)
{
	size_t n = 0;

	for (uint32_t a = 0; a < guest->n_domains; a++)
		for (uint32_t b = a + 1; b < guest->n_domains; b++)
			if (guest->domains[a].vcpu == guest->domains[b].vcpu)
				pairs[n++] = (struct shared_pair){a, b};
	return n;
}

/* Whether messages may flow from the domain of `forth` to that of `back`. */
static bool may_flow(const struct server_decision *forth, const struct server_decision *back)
{
	return forth->allowed & CHANNEL_SEND && back->allowed & CHANNEL_RECV;
}

static void judge_pair(struct check *check, const struct manifest_guest *guest,
                       const struct shared_pair *pair, const struct server_decision *two)
{
	const struct manifest_domain *a = &guest->domains[pair->a], *b = &guest->domains[pair->b];
	bool forth = may_flow(&two[0], &two[1]), back = may_flow(&two[1], &two[0]);

	if (!forth || !back)
		note(check->warnings,
		     "%s:%u: domains \"%s\" and \"%s\" share vCPU %u, but policy lets %s: a shared vCPU "
		     "carries "
		     "timing, caches and on some hosts wide registers, whatever policy says",
		     guest->path, b->line, a->name, b->name, a->vcpu,
		     forth || back ? "messages pass one way only" : "no message pass between them");
}

static bool check_sharing(struct check *check, const struct manifest_guest *guest)
{
	size_t most = guest->n_domains ? guest->n_domains * guest->n_domains : 1;
	struct shared_pair *pairs = calloc(most, sizeof(*pairs));
	struct server_question *questions = calloc(2 * most, sizeof(*questions));
	struct server_decision *decisions = calloc(2 * most, sizeof(*decisions));
	const char *contexts[MAX_DOMAINS];
	bool answered = false;
	size_t n;

	if (pairs && questions && decisions) {
		n = list_pairs(guest, pairs);
		for (uint32_t d = 0; d < guest->n_domains; d++)
			contexts[d] = guest->domains[d].context;
		for (size_t i = 0; i < n; i++) {
			questions[2 * i] = (struct server_question){pairs[i].a, pairs[i].b, CLASS_CHANNEL};
			questions[2 * i + 1] =
				(struct server_question){pairs[i].b, pairs[i].a, CLASS_CHANNEL};
		}
		answered = n == 0 || offline_decide(&check->offline, contexts, guest->n_domains, questions,
		                                    2 * n, decisions);
		for (size_t i = 0; answered && i < n; i++)
			judge_pair(check, guest, &pairs[i], &decisions[2 * i]);
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

static json_t *guests_json(const struct check *check)
{
	json_t *guests = json_array();

	for (size_t m = 0; m < check->n_manifests; m++)
		for (uint32_t g = 0; g < check->manifests[m]->n_guests; g++) {
			const struct manifest_guest *guest = &check->manifests[m]->guests[g];

			json_array_append_new(guests, json_pack("{s:s s:i s:i}", "name", guest->name, "vcpus",
			                                        (int)guest->n_vcpus, "domains",
			                                        (int)guest->n_domains));
		}
	return guests;
}

/* The first guest stands at the top too: the form that a manifest of one guest always had. */
static int print_json(struct check *check, bool ok)
{
	const struct offline *offline = &check->offline;
	json_t *guests = guests_json(check);
	const json_t *first = json_array_get(guests, 0);
	json_t *json = json_pack("{s:b s:s s:i s:i s:o s:{s:i s:i s:i s:b} s:O s:O}", "ok", ok, "guest",
	                         first ? cli_text(first, "name") : "", "vcpus",
	                         first ? (int)cli_integer(first, "vcpus") : 1, "domains",
	                         first ? (int)cli_integer(first, "domains") : 0, "guests", guests, "policy",
	                         "types", (int)offline->n_types, "rules", (int)offline->n_rules, "booleans",
	                         (int)offline->n_booleans, "mls", offline->mls, "errors", check->errors,
	                         "warnings", check->warnings);

	return cli_print_json(json);
}

static int print_result(const struct cli_call *call, struct check *check)
{
	const struct offline *offline = &check->offline;
	int status = json_array_size(check->errors) ? CLI_FAILED : CLI_DONE;

	print_notes(check->errors, "", stderr);
	if (call->json)
		return print_json(check, status == CLI_DONE) == CLI_DONE ? status : CLI_FAILED;
	print_notes(check->warnings, "warning: ", stderr);
	if (status != CLI_DONE)
		return status;
	for (size_t m = 0; m < check->n_manifests; m++)
		for (uint32_t g = 0; g < check->manifests[m]->n_guests; g++) {
			const struct manifest_guest *guest = &check->manifests[m]->guests[g];

			printf("guest %s: %u vCPUs, %u domains\n", guest->name, guest->n_vcpus,
			       guest->n_domains);
		}
	for (size_t m = 0; m < check->n_manifests; m++)
		for (uint32_t p = 0; p < check->manifests[m]->n_ports; p++) {
			const struct manifest_port *port = &check->manifests[m]->ports[p];

			printf("port %s: %s\n", port->name, port->path ? port->path : "standard streams");
		}
	printf("policy: %u types, %u rules, %u booleans%s\n", offline->n_types, offline->n_rules,
	       offline->n_booleans, offline->mls ? ", levels" : "");
	return status;
}

static bool load_policy(const struct cli_call *call, struct check *check)
{
	const struct manifest *manifest = check->manifests[0];
	struct policy_source sources[MAX_POLICY_FILES];

	for (size_t i = 0; i < manifest->n_policies; i++) {
		const struct manifest_policy *policy = &manifest->policies[i];

		sources[i] = (struct policy_source){policy->name, policy->fd, policy->bytes};
	}
	return offline_load(call, sources, manifest->n_policies, &check->offline);
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

/* False: the security server did not answer, and that was said. */
static bool check_guests(struct check *check)
{
	bool answered = check_clients(check, check->manifests[0]);

	for (size_t m = 0; m < check->n_manifests; m++) {
		answered = answered && check_ports(check, check->manifests[m]);
		for (uint32_t g = 0; g < check->manifests[m]->n_guests && answered; g++) {
			const struct manifest_guest *guest = &check->manifests[m]->guests[g];

			answered = check_programs(check, guest) && check_contexts(check, guest) &&
			           check_sharing(check, guest);
		}
	}
	return answered;
}

static int check_all(const struct cli_call *call, struct manifest **manifests, size_t n_manifests)
{
	struct check check = {manifests, n_manifests, {NULL}, json_array(), json_array()};
	int status = CLI_FAILED;

	if (load_policy(call, &check)) {
		take_policy_warnings(&check);
		if (check_guests(&check))
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
	struct manifest *manifests[CLI_MAX_GIVEN];
	size_t n_manifests;
	char why[WHY_BYTES] = "";
	int status = cli_load_manifests(call, manifests, &n_manifests, why);

	if (status == CLI_USAGE)
		return status;
	if (status != CLI_DONE) {
		fprintf(stderr, "%s\n", why);
		return print_failure(call, why);
	}
	status = check_all(call, manifests, n_manifests);
	while (n_manifests > 0)
		manifest_free(manifests[--n_manifests]);
	return status;
}
