#include "monitor/control_change.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/loop.h"
#include "monitor/posture.h"
#include "monitor/registry.h"

bool control_unpack(struct control_request *request, const char *format, ...)
{
	json_error_t error;
	va_list arguments;
	int result;

	json_object_del(request->message.json, "verb");
	va_start(arguments, format);
	result = json_vunpack_ex(request->message.json, &error, JSON_STRICT, format, arguments);
	va_end(arguments);
	if (result)
		request_fail(request, "bad request: %s: %s", request->verb->name, error.text);
	return result == 0;
}

/* ---- from the change to the report ---- */

static void change_done(void *opaque, int status, json_t *report, const char *why)
{
	struct control_request *request = opaque;

	request->changing = false;
	if (status == -EOWNERDEAD)
		request_reply(request, 1, *why ? why : "in force, but guests were killed: see the report",
		              report);
	else if (status < 0)
		request_reply(request, 1, why, report);
	else
		request_reply_json(request, report);
}

void control_begin_change(struct control_request *request, struct change_request *change, const char *stop)
{
	int mode = stop ? stop_mode_find(stop) : (int)request->monitor->stop;
	char why[WHY_BYTES];
	int error;

	if (mode < 0) {
		request_fail(request, "stop mode \"%.32s\" is not one of all, affected, none", stop);
		return;
	}
	change->stop = (enum stop_mode)mode;
	change->author = request->subject;
	request->changing = true;
	error = change_begin(request->monitor, change, change_done, request, why);
	if (error < 0) {
		request->changing = false;
		request_fail(request, "%s", why);
	}
}

/* ---- changes of what the policy says ---- */

/* The members that every change may have. */
struct common {
	const char *stop;
	int force, plan;
};
#define COMMON_FORMAT "s?s s?b s?b"
#define COMMON_MEMBERS(common) "stop", &(common).stop, "force", &(common).force, "plan", &(common).plan

static struct change_request of_kind(enum change_kind kind, const struct common *common)
{
	return (struct change_request){.kind = kind, .force = common->force, .plan_only = common->plan};
}

void control_run_bool(struct control_request *request)
{
	struct common common = {0};
	const char *name;
	int value;

	if (!control_unpack(request, "{s:s s:b " COMMON_FORMAT "}", "name", &name, "value", &value,
	                    COMMON_MEMBERS(common)))
		return;
	struct change_request change = of_kind(CHANGE_BOOLEAN, &common);

	change.boolean = name;
	change.value = value;
	control_begin_change(request, &change, common.stop);
}

static void booleans_listed(void *opaque, int status, const struct policy_boolean *booleans, size_t n)
{
	struct control_request *request = opaque;
	json_t *list;

	if (request_orphaned(request))
		return;
	if (status < 0) {
		request_fail(request, "the security server did not answer: %s", strerror(-status));
		return;
	}
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(
			list, json_pack("{s:s s:b}", "name", booleans[i].name, "value", booleans[i].value));
	request_reply_json(request, list);
}

void control_run_bool_list(struct control_request *request)
{
	struct monitor *monitor = request->monitor;
	int error = -ECONNRESET;

	if (!control_unpack(request, "{}"))
		return;
	if (monitor->posture->policy.server)
		error = server_booleans(monitor->posture->policy.server, loop_now() + monitor->deadline_ns,
		                        booleans_listed, request);
	if (error < 0)
		request_fail(request, "the security server cannot be asked now");
	else
		posture_rearm(monitor);
}

void control_run_enforce(struct control_request *request)
{
	struct common common = {0};
	int value;

	if (!control_unpack(request, "{s:b " COMMON_FORMAT "}", "value", &value, COMMON_MEMBERS(common)))
		return;
	struct change_request change = of_kind(CHANGE_ENFORCING, &common);

	change.value = value;
	control_begin_change(request, &change, common.stop);
}

static void run_overlay(struct control_request *request, enum overlay_operation operation)
{
	const char *source, *target, *tclass, *permission;
	struct common common = {0};
	char why[WHY_BYTES];

	if (!control_unpack(request, "{s:s s:s s:s s:s " COMMON_FORMAT "}", "source", &source, "target",
	                    &target, "class", &tclass, "permission", &permission, COMMON_MEMBERS(common)))
		return;
	struct change_request change = of_kind(CHANGE_OVERLAY, &common);

	change.operation = operation;
	if (overlay_parse(source, target, tclass, permission, &change.rule, why) < 0)
		request_fail(request, "%s", why);
	else
		control_begin_change(request, &change, common.stop);
}

void control_run_revoke(struct control_request *request)
{
	run_overlay(request, OVERLAY_REVOKE);
}

void control_run_grant(struct control_request *request)
{
	run_overlay(request, OVERLAY_GRANT);
}

void control_run_reset(struct control_request *request)
{
	struct common common = {0};

	if (!control_unpack(request, "{" COMMON_FORMAT "}", COMMON_MEMBERS(common)))
		return;
	struct change_request change = of_kind(CHANGE_OVERLAY, &common);

	change.operation = OVERLAY_RESET;
	control_begin_change(request, &change, common.stop);
}

/* ---- changes upon a domain or a channel: each target is asked about ---- */

#define MAX_TARGETS 2

struct targeted {
	struct change_request change; /* its strings are the request's */
	const char *stop;
	struct {
		policy_sid target;
		enum policy_class tclass;
		uint32_t permission;
	} ask[MAX_TARGETS];
	unsigned n_asks, n_asked;
	char path[PATH_NAME_BYTES]; /* change.guest and .domain point into it */
};

static void ask_next(struct control_request *request);

static void target_answered(void *opaque, bool allowed, const char *text)
{
	struct control_request *request = opaque;

	if (request_orphaned(request))
		return;
	if (allowed)
		ask_next(request);
	else
		request_fail(request, "access denied: %s", text);
}

static void ask_next(struct control_request *request)
{
	struct targeted *targeted = request->scratch;
	unsigned i = targeted->n_asked++;
	policy_sid target;

	if (i == targeted->n_asks) {
		control_begin_change(request, &targeted->change, targeted->stop);
		return;
	}
	/* A context that the policy does not know can be taken away by whoever rules the monitor. */
	target = targeted->ask[i].target;
	if (!sid_known(request->monitor->posture->sids, target))
		target = posture_self(request->monitor);
	posture_ask(request->monitor, request->subject, target, targeted->ask[i].tclass,
	            targeted->ask[i].permission, target_answered, request);
}

static struct targeted *targeted_create(struct control_request *request, struct change_request change,
                                        const char *stop)
{
	struct targeted *targeted = calloc(1, sizeof(*targeted));

	if (!targeted) {
		request_fail(request, "out of memory");
		return NULL;
	}
	targeted->change = change;
	targeted->stop = stop;
	request->scratch = targeted;
	return targeted;
}

static void add_ask(struct targeted *targeted, policy_sid target, enum policy_class tclass,
                    uint32_t permission)
{
	targeted->ask[targeted->n_asks].target = target;
	targeted->ask[targeted->n_asks].tclass = tclass;
	targeted->ask[targeted->n_asks++].permission = permission;
}

/* Takes "DOMAIN" or "GUEST/DOMAIN" apart. */
static void split_path(struct targeted *targeted, const char *name)
{
	char *slash;

	snprintf(targeted->path, sizeof(targeted->path), "%s", name);
	slash = strchr(targeted->path, '/');
	if (slash)
		*slash = '\0';
	targeted->change.guest = slash ? targeted->path : NULL;
	targeted->change.domain = slash ? slash + 1 : targeted->path;
}

/* The context of the domain that the change names; SID_NONE: there is none. */
static policy_sid find_domain(struct monitor *monitor, const struct change_request *change)
{
	struct registry *registry = registry_lock(monitor);
	policy_sid sid = SID_NONE;

	for (uint32_t g = 0; g < registry->n_guests; g++)
		for (uint32_t d = 0; d < registry->guests[g]->n_domains; d++) {
			const struct domain *found = &registry->guests[g]->domains[d];

			if (strcmp(found->name, change->domain) == 0 &&
			    (!change->guest || strcmp(found->guest->name, change->guest) == 0))
				sid = found->sid;
		}
	registry_unlock(registry);
	return sid;
}

/* The new context of a relabel; false: replied that it is none. */
static bool add_relabel_ask(struct control_request *request, struct targeted *targeted, const char *context)
{
	struct registry *registry = registry_lock(request->monitor);
	policy_sid sid;
	int error = sid_intern(request->monitor->posture->sids, context, &sid);

	registry_unlock(registry);
	if (error < 0)
		request_fail(request, "\"%.128s\" is no security context: expected user:role:type:level",
		             context);
	else
		add_ask(targeted, sid, CLASS_DOMAIN, DOMAIN_RELABELTO);
	return error == 0;
}

static void run_on_domain(struct control_request *request, enum change_kind kind, uint32_t permission)
{
	struct common common = {0};
	const char *name, *context = NULL;
	struct targeted *targeted;
	policy_sid sid;

	if (!control_unpack(request, "{s:s s?s " COMMON_FORMAT "}", "domain", &name, "context", &context,
	                    COMMON_MEMBERS(common)))
		return;
	if ((kind == CHANGE_RELABEL) != (context != NULL)) {
		request_fail(request, "bad request: %s: a context belongs to domain relabel alone",
		             request->verb->name);
		return;
	}
	targeted = targeted_create(request, of_kind(kind, &common), common.stop);
	if (!targeted)
		return;
	split_path(targeted, name);
	targeted->change.context = context;
	sid = find_domain(request->monitor, &targeted->change);
	if (sid == SID_NONE) {
		request_fail(request, "there is no domain %.64s; see portcullis domain list", name);
		return;
	}
	add_ask(targeted, sid, CLASS_DOMAIN, permission);
	if (!context || add_relabel_ask(request, targeted, context))
		ask_next(request);
}

void control_run_relabel(struct control_request *request)
{
	run_on_domain(request, CHANGE_RELABEL, DOMAIN_RELABELFROM);
}

void control_run_quarantine(struct control_request *request)
{
	run_on_domain(request, CHANGE_QUARANTINE, DOMAIN_QUARANTINE);
}

void control_run_release(struct control_request *request)
{
	run_on_domain(request, CHANGE_RELEASE, DOMAIN_RELEASE);
}

/* The contexts of both ends; false: replied that there is no such channel. */
static bool find_channel(struct control_request *request, uint64_t number, policy_sid ends[static 2])
{
	struct registry *registry = registry_lock(request->monitor);
	bool found = false;

	for (struct channel *channel = registry->first; channel && !found; channel = channel->next) {
		if (channel->number != number)
			continue;
		ends[0] = channel->end[SIDE_CLIENT].domain->sid;
		ends[1] = channel->end[SIDE_SERVER].domain->sid;
		found = true;
	}
	registry_unlock(registry);
	if (!found)
		request_fail(request, "there is no channel %llu; see portcullis channel list",
		             (unsigned long long)number);
	return found;
}

void control_run_cut(struct control_request *request)
{
	struct common common = {0};
	struct targeted *targeted;
	policy_sid ends[2];
	json_int_t number;

	if (!control_unpack(request, "{s:I " COMMON_FORMAT "}", "channel", &number, COMMON_MEMBERS(common)))
		return;
	struct change_request change = of_kind(CHANGE_CUT, &common);

	change.channel = (uint64_t)number;
	if (!find_channel(request, change.channel, ends))
		return;
	targeted = targeted_create(request, change, common.stop);
	if (!targeted)
		return;
	add_ask(targeted, ends[0], CLASS_CHANNEL, CHANNEL_CUT);
	add_ask(targeted, ends[1], CLASS_CHANNEL, CHANNEL_CUT);
	ask_next(request);
}
