/*
 * The verbs of the control socket: what each needs, and what it does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/audit.h"
#include "monitor/control_change.h"
#include "monitor/control_guest.h"
#include "monitor/control_query.h"
#include "monitor/control_request.h"
#include "monitor/lifecycle.h"
#include "monitor/posture.h"
#include "monitor/registry.h"
#include "monitor/suggest.h"
#include "monitor/view.h"

#define MAX_AUDIT_LINES 4096
#define DEFAULT_AUDIT_LINES 100

/* ---- what the monitor shows ---- */

static void show(struct control_request *request, json_t *(*view)(struct monitor *monitor))
{
	if (control_unpack(request, "{}"))
		request_reply_json(request, view(request->monitor));
}

static void run_status(struct control_request *request)
{
	show(request, view_status);
}

static void run_policy_show(struct control_request *request)
{
	show(request, view_policy);
}

static void run_guest_list(struct control_request *request)
{
	show(request, view_guests);
}

static void run_domain_list(struct control_request *request)
{
	show(request, view_domains);
}

static void run_channel_list(struct control_request *request)
{
	show(request, view_channels);
}

static void run_policy_image(struct control_request *request)
{
	const struct policy_instance *policy = &request->monitor->posture->policy;

	if (control_unpack(request, "{}"))
		request_reply_fd(request, policy->image_fd, policy->image_bytes);
}

static void add_audit_line(void *opaque, const char *text)
{
	json_array_append_new(opaque, json_string(text));
}

static void run_audit(struct control_request *request)
{
	json_int_t lines = DEFAULT_AUDIT_LINES, after = 0;
	json_t *list;
	uint64_t newest;

	if (!control_unpack(request, "{s?I s?I}", "lines", &lines, "after", &after))
		return;
	if (lines < 0 || lines > MAX_AUDIT_LINES || after < 0) {
		request_fail(request, "audit: lines is 0 to %d, after a serial number", MAX_AUDIT_LINES);
		return;
	}
	list = json_array();
	newest = audit_recent(request->monitor->audit, (uint64_t)after, (size_t)lines, add_audit_line, list);
	request_reply_json(request,
	                   json_pack("{s:I s:I s:o}", "newest", (json_int_t)newest, "lost",
	                             (json_int_t)audit_lost(request->monitor->audit), "lines", list));
}

/* ---- changes ---- */

/* The names that the client gave its descriptors, one for each. */
static bool read_sources(struct control_request *request, json_t *files, struct policy_source *sources)
{
	size_t n = request->message.n_fds;

	if (!json_is_array(files) || json_array_size(files) != n || n == 0) {
		request_fail(request, "bad request: %s: files has one name for each descriptor",
		             request->verb->name);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		const char *name = json_string_value(json_array_get(files, i));

		if (!name || !*name || strlen(name) >= MAX_SOURCE_NAME_BYTES) {
			request_fail(request, "bad request: %s: files has names of 1 to %u bytes",
			             request->verb->name, MAX_SOURCE_NAME_BYTES - 1);
			return false;
		}
		if (request->message.bytes[i] == 0 || request->message.bytes[i] > MAX_POLICY_BYTES) {
			request_fail(request,
			             "bad request: descriptor %zu holds %zu bytes; 1 to %u are possible",
			             i + 1, request->message.bytes[i], MAX_POLICY_BYTES);
			return false;
		}
		sources[i] = (struct policy_source){name, request->message.fds[i], request->message.bytes[i]};
	}
	return true;
}

static void begin_policy_change(struct control_request *request, bool plan_only)
{
	struct policy_source sources[MAX_POLICY_FILES];
	const char *stop = NULL;
	json_t *files;
	int force = 0;

	if (!control_unpack(request, "{s:o s?s s?b}", "files", &files, "stop", &stop, "force", &force) ||
	    !read_sources(request, files, sources))
		return;
	control_begin_change(request,
	                     &(struct change_request){
				     .kind = CHANGE_POLICY,
				     .plan_only = plan_only,
				     .force = force,
				     .sources = sources,
				     .n_sources = request->message.n_fds,
			     },
	                     stop);
}

static void run_policy_push(struct control_request *request)
{
	begin_policy_change(request, false);
}

static void run_policy_plan(struct control_request *request)
{
	begin_policy_change(request, true);
}

/* ---- guests and the monitor ---- */

static void run_shutdown(struct control_request *request)
{
	struct monitor *monitor = request->monitor;

	if (!control_unpack(request, "{}"))
		return;
	request_reply_json(request, json_object());
	monitor_end(monitor, lifecycle_exit_status(monitor));
}

/* ---- the table ---- */

static const struct control_verb verbs[] = {
	{"status", CLASS_MONITOR, MONITOR_GETATTR, 0, run_status},
	{"policy show", CLASS_MONITOR, MONITOR_GETATTR, 0, run_policy_show},
	{"policy image", CLASS_MONITOR, MONITOR_GETATTR, 0, run_policy_image},
	{"policy push", CLASS_MONITOR, MONITOR_LOAD_POLICY, MAX_POLICY_FILES, run_policy_push},
	{"policy plan", CLASS_MONITOR, MONITOR_COMPUTE, MAX_POLICY_FILES, run_policy_plan},
	{"policy query", CLASS_MONITOR, MONITOR_COMPUTE, 0, control_run_query},
	{"policy explain", CLASS_MONITOR, MONITOR_COMPUTE, 0, control_run_explain},
	{"policy bool", CLASS_MONITOR, MONITOR_SETBOOL, 0, control_run_bool},
	{"policy bool list", CLASS_MONITOR, MONITOR_GETATTR, 0, control_run_bool_list},
	{"policy enforce", CLASS_MONITOR, MONITOR_SETENFORCE, 0, control_run_enforce},
	{"policy revoke", CLASS_MONITOR, MONITOR_OVERLAY, 0, control_run_revoke},
	{"policy grant", CLASS_MONITOR, MONITOR_OVERLAY, 0, control_run_grant},
	{"policy reset", CLASS_MONITOR, MONITOR_OVERLAY, 0, control_run_reset},
	{"domain relabel", CLASS_DOMAIN, 0, 0, control_run_relabel},
	{"domain quarantine", CLASS_DOMAIN, 0, 0, control_run_quarantine},
	{"domain release", CLASS_DOMAIN, 0, 0, control_run_release},
	{"channel cut", CLASS_CHANNEL, 0, 0, control_run_cut},
	{"audit", CLASS_MONITOR, MONITOR_READ_AUDIT, 0, run_audit},
	{"guest list", CLASS_GUEST, GUEST_GETATTR, 0, run_guest_list},
	{"guest start", CLASS_GUEST, 0, MAX_CONTROL_FILES, control_run_guest_start},
	{"guest stop", CLASS_GUEST, GUEST_STOP, 0, control_run_guest_stop},
	{"guest suspend", CLASS_GUEST, GUEST_SUSPEND, 0, control_run_guest_suspend},
	{"guest resume", CLASS_GUEST, GUEST_RESUME, 0, control_run_guest_resume},
	{"guest undefine", CLASS_GUEST, GUEST_DEFINE, 0, control_run_guest_undefine},
	{"domain list", CLASS_DOMAIN, DOMAIN_GETATTR, 0, run_domain_list},
	{"channel list", CLASS_DOMAIN, DOMAIN_GETATTR, 0, run_channel_list},
	{"shutdown", CLASS_MONITOR, MONITOR_SHUTDOWN, 0, run_shutdown},
};
#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

const struct control_verb *control_verb_find(const char *name, char *suggestion)
{
	const char *names[N_VERBS];

	for (size_t i = 0; i < N_VERBS; i++) {
		names[i] = verbs[i].name;
		if (strcmp(names[i], name) == 0)
			return &verbs[i];
	}
	suggest_phrase(name, names, N_VERBS, suggestion);
	return NULL;
}
