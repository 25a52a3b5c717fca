#include "monitor/control_query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/loop.h"
#include "monitor/posture.h"
#include "monitor/registry.h"
#include "monitor/suggest.h"

/* ---- names ---- */

static int unknown_class(const char *text, char why[static WHY_BYTES])
{
	const char *names[N_CLASSES];
	char suggestion[SUGGESTION_BYTES];

	for (int i = 0; i < N_CLASSES; i++)
		names[i] = class_name((enum policy_class)i);
	snprintf(why, WHY_BYTES, "there is no class \"%.64s\"%s (channel, domain, guest, monitor)", text,
	         suggest_phrase(text, names, N_CLASSES, suggestion));
	return -EINVAL;
}

static int unknown_permission(enum policy_class tclass, const char *text, char why[static WHY_BYTES])
{
	const char *names[MAX_PERMISSIONS];
	char suggestion[SUGGESTION_BYTES], all[WHY_BYTES / 2];
	size_t n = 0;

	for (unsigned bit = 0; bit < MAX_PERMISSIONS; bit++)
		if (class_permission_name(tclass, 1u << bit))
			names[n++] = class_permission_name(tclass, 1u << bit);
	class_format(tclass, class_all_permissions(tclass), all, sizeof(all));
	snprintf(why, WHY_BYTES, "class %s has no permission \"%.64s\"%s %s", class_name(tclass), text,
	         suggest_phrase(text, names, n, suggestion), all);
	return -EINVAL;
}

int query_read_names(const char *class_text, const char *permission_text, enum policy_class *tclass,
                     uint32_t *permission, char why[static WHY_BYTES])
{
	int found = class_find(class_text);

	if (found < 0)
		return unknown_class(class_text, why);
	*tclass = (enum policy_class)found;
	*permission = 0;
	if (!permission_text || !*permission_text)
		return 0;
	*permission = class_permission_find(*tclass, permission_text);
	return *permission ? 0 : unknown_permission(*tclass, permission_text, why);
}

/* ---- answers ---- */

static json_t *permissions_json(enum policy_class tclass, uint32_t bits)
{
	json_t *names = json_array();

	for (unsigned bit = 0; bit < MAX_PERMISSIONS; bit++) {
		const char *name = class_permission_name(tclass, bits & 1u << bit);

		if (name)
			json_array_append_new(names, json_string(name));
	}
	return names;
}

json_t *query_json(const char *source, const char *target, enum policy_class tclass, uint32_t permission,
                   const struct server_decision *decision)
{
	uint32_t allowed = decision->known ? decision->allowed : 0;
	json_t *json = json_pack("{s:s s:s s:s s:b s:b s:o s:o s:o}", "source", source, "target", target,
	                         "class", class_name(tclass), "known", decision->known, "permissive",
	                         decision->permissive, "allowed", permissions_json(tclass, allowed),
	                         "auditallow", permissions_json(tclass, decision->auditallow), "auditdeny",
	                         permissions_json(tclass, decision->auditdeny));

	if (json && permission)
		json_object_update_new(json, json_pack("{s:s s:b}", "permission",
		                                       class_permission_name(tclass, permission), "granted",
		                                       (allowed & permission) != 0));
	return json;
}

json_t *explain_json(const char *source, const char *target, enum policy_class tclass, uint32_t permission,
                     const char *text)
{
	return json_pack("{s:s s:s s:s s:s s:b s:s}", "source", source, "target", target, "class",
	                 class_name(tclass), "permission", class_permission_name(tclass, permission),
	                 "granted", strcmp(text, "allowed") == 0, "text", text);
}

/* ---- in a running monitor ---- */

struct question {
	char source[MAX_CONTEXT_BYTES];
	char target[MAX_CONTEXT_BYTES];
	enum policy_class tclass;
	uint32_t permission;
};

static const struct domain *find_domain(const struct registry *registry, const char *name)
{
	for (uint32_t g = 0; g < registry->n_guests; g++) {
		const struct guest *guest = registry->guests[g];

		for (uint32_t d = 0; d < guest->n_domains; d++) {
			char path[PATH_NAME_BYTES];

			if (strcmp(guest->domains[d].name, name) == 0 ||
			    strcmp(domain_path(&guest->domains[d], path), name) == 0)
				return &guest->domains[d];
		}
	}
	return NULL;
}

/* A context as it is, or that of the domain which is named. */
static bool resolve(struct monitor *monitor, const char *text, char context[static MAX_CONTEXT_BYTES])
{
	struct registry *registry = registry_lock(monitor);
	const struct domain *domain = find_domain(registry, text);
	const char *found = strchr(text, ':') ? text : NULL;

	if (domain)
		found = sid_context(monitor->posture->sids, domain->sid);
	if (found)
		snprintf(context, MAX_CONTEXT_BYTES, "%s", found);
	registry_unlock(registry);
	return found && strlen(found) < MAX_CONTEXT_BYTES;
}

/* Reads what is asked into scratch; false: replied already. */
static bool read_question(struct control_request *request, bool needs_permission)
{
	struct question *question = calloc(1, sizeof(*question));
	const char *source, *target, *class_text, *permission = "";
	char why[WHY_BYTES];
	json_error_t error;

	request->scratch = question;
	json_object_del(request->message.json, "verb");
	if (!question)
		request_fail(request, "out of memory");
	else if (json_unpack_ex(request->message.json, &error, JSON_STRICT, "{s:s s:s s:s s?s}", "source",
	                        &source, "target", &target, "class", &class_text, "permission", &permission))
		request_fail(request, "bad request: %s: %s", request->verb->name, error.text);
	else if (query_read_names(class_text, permission, &question->tclass, &question->permission, why))
		request_fail(request, "%s", why);
	else if (needs_permission && !question->permission)
		request_fail(request, "which permission is to be explained?");
	else if (!resolve(request->monitor, source, question->source))
		request_fail(request, "\"%.160s\" is neither a context (user:role:type:level) nor a domain",
		             source);
	else if (!resolve(request->monitor, target, question->target))
		request_fail(request, "\"%.160s\" is neither a context (user:role:type:level) nor a domain",
		             target);
	else if (!request->monitor->posture->policy.server)
		request_fail(request, "the security server is being started again; try again");
	else
		return true;
	return false;
}

static void ask_decision(struct control_request *request);
static void ask_explanation(struct control_request *request);

/* A change has put another server in the place of the one that was asked: the new one answers (R9). */
static bool was_replaced(const struct control_request *request, int status)
{
	return status == -ECANCELED && request->monitor->posture->policy.server;
}

static void fail_status(struct control_request *request, int status)
{
	request_fail(request, "the security server did not answer: %s", strerror(-status));
}

static void decided(void *opaque, int status, const struct server_decision *decisions, size_t n_decisions)
{
	struct control_request *request = opaque;
	const struct question *question = request->scratch;
	json_t *json;

	if (request_orphaned(request))
		return;
	if (was_replaced(request, status)) {
		ask_decision(request);
		return;
	}
	if (status < 0 || n_decisions != 1) {
		fail_status(request, status < 0 ? status : -EPROTO);
		return;
	}
	json = query_json(question->source, question->target, question->tclass, question->permission,
	                  decisions);
	if (json)
		json_object_set_new(json, "policy_number",
		                    json_integer((json_int_t)request->monitor->posture->policy_number));
	request_reply_json(request, json);
}

static void explained(void *opaque, int status, const char *text)
{
	struct control_request *request = opaque;
	const struct question *question = request->scratch;

	if (request_orphaned(request))
		return;
	if (was_replaced(request, status))
		ask_explanation(request);
	else if (status < 0)
		fail_status(request, status);
	else
		request_reply_json(request, explain_json(question->source, question->target, question->tclass,
		                                         question->permission, text));
}

static void ask_decision(struct control_request *request)
{
	struct monitor *monitor = request->monitor;
	const struct question *question = request->scratch;
	const char *contexts[2] = {question->source, question->target};
	int error = server_decide(monitor->posture->policy.server, contexts, 2,
	                          &(struct server_question){0, 1, question->tclass}, 1,
	                          loop_now() + monitor->deadline_ns, decided, request);

	if (error < 0)
		fail_status(request, error);
	posture_rearm(monitor);
}

static void ask_explanation(struct control_request *request)
{
	struct monitor *monitor = request->monitor;
	const struct question *question = request->scratch;
	int error = server_explain(monitor->posture->policy.server, question->source, question->target,
	                           question->tclass, question->permission, loop_now() + monitor->deadline_ns,
	                           explained, request);

	if (error < 0)
		fail_status(request, error);
	posture_rearm(monitor);
}

void control_run_query(struct control_request *request)
{
	if (read_question(request, false))
		ask_decision(request);
}

void control_run_explain(struct control_request *request)
{
	if (read_question(request, true))
		ask_explanation(request);
}
