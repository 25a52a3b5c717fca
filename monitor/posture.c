#include "monitor/posture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/audit.h"
#include "monitor/change.h"
#include "monitor/denials.h"
#include "monitor/loop.h"
#include "monitor/mediation.h"
#include "monitor/registry.h"
#include "vmm/check.h"

#define AVC_ENTRIES 16384u
#define RETRY_NS 1000000000ull /* between two tries to replace a dead security server */

/* ---- loading a policy ---- */

static void loaded(void *opaque, int status, const struct server_policy *from, const char *why)
{
	struct policy_load *load = opaque;
	struct policy_instance *policy = &load->policy;

	load->done = true;
	load->status = status;
	if (status < 0) {
		load->why = strdup(why ? why : "the security server failed");
		return;
	}
	policy->image_fd = from->image_fd;
	policy->image_bytes = from->image_bytes;
	policy->fingerprint_high = from->fingerprint_high;
	policy->fingerprint_low = from->fingerprint_low;
	policy->n_types = from->n_types;
	policy->n_rules = from->n_rules;
	policy->n_booleans = from->n_booleans;
	policy->mls = from->mls;
	snprintf(policy->operator_context, sizeof(policy->operator_context), "%s", from->operator_context);
	if (from->warnings && from->warnings[0])
		load->why = strdup(from->warnings);
}

int policy_begin(struct monitor *monitor, const struct policy_source *sources, size_t n_sources,
                 const struct settings *settings, struct policy_load *load, char why[static WHY_BYTES])
{
	int socket_fd, pidfd, error;

	*load = (struct policy_load){.policy.image_fd = -1};
	error = launcher_spawn(monitor->launcher, &socket_fd, &pidfd, why);
	if (error < 0)
		return error;
	load->policy.server = server_open(socket_fd, pidfd);
	error = -ENOMEM;
	if (load->policy.server)
		error = server_load(load->policy.server, sources, n_sources,
		                    settings ? settings->booleans : NULL, settings ? settings->n_booleans : 0,
		                    loop_now() + monitor->deadline_ns, loaded, load);
	if (error < 0) {
		snprintf(why, WHY_BYTES, "the security server cannot be asked: %s", strerror(-error));
		policy_release(&load->policy);
	}
	return error;
}

void policy_release(struct policy_instance *policy)
{
	server_close(policy->server);
	if (policy->image_fd >= 0)
		close(policy->image_fd);
	*policy = (struct policy_instance){.image_fd = -1};
}

/* ---- the first posture ---- */

int posture_create(struct monitor *monitor)
{
	struct posture *posture = calloc(1, sizeof(*posture));

	monitor->posture = posture;
	if (!posture)
		return -ENOMEM;
	posture->policy.image_fd = -1;
	posture->avc = avc_create(AVC_ENTRIES);
	posture->sids = sid_table_create();
	posture->members = members_create();
	return posture->avc && posture->sids && posture->members ? 0 : -ENOMEM;
}

static int load_and_wait(struct monitor *monitor, struct policy_load *load, char **why)
{
	const struct manifest *manifest = monitor->manifest;
	struct policy_source *sources = calloc(manifest->n_policies, sizeof(*sources));
	char line[WHY_BYTES];
	int error;

	if (!sources)
		return -ENOMEM;
	for (size_t i = 0; i < manifest->n_policies; i++)
		sources[i] = (struct policy_source){manifest->policies[i].name, manifest->policies[i].fd,
		                                    manifest->policies[i].bytes};
	error = policy_begin(monitor, sources, manifest->n_policies, NULL, load, line);
	free(sources);
	if (error < 0) {
		*why = strdup(line);
		return error;
	}
	server_wait(load->policy.server);
	if (load->status < 0) {
		*why = load->why;
		policy_release(&load->policy);
	}
	return load->status;
}

int posture_load(struct monitor *monitor, char **why)
{
	struct posture *posture = monitor->posture;
	struct policy_load load;
	int error = load_and_wait(monitor, &load, why);

	if (error < 0)
		return error;
	posture->policy = load.policy;
	posture->enforcing = true;
	posture->policy_number = avc_policy_number(posture->avc);
	if (load.why)
		audit_log(monitor->audit, "policy", NULL, load.why, 0);
	free(load.why);
	return sid_intern(posture->sids, posture->policy.operator_context, &posture->operator_sid);
}

void posture_silence(struct monitor *monitor)
{
	struct posture *posture = monitor->posture;
	struct server *server;

	if (!posture)
		return;
	watch_end(&posture->watch);
	server = posture->policy.server;
	posture->policy.server = NULL;
	server_close(server);
	if (monitor->loop)
		loop_disarm(monitor->loop, &posture->timer);
}

void posture_destroy(struct monitor *monitor)
{
	struct posture *posture = monitor->posture;

	if (!posture)
		return;
	posture_silence(monitor);
	policy_release(&posture->policy);
	settings_clear(&posture->settings);
	free(posture->replacement.why);
	avc_destroy(posture->avc);
	members_destroy(posture->members);
	sid_table_destroy(posture->sids);
	free(posture);
	monitor->posture = NULL;
}

static void validated(void *opaque, int status, const bool *valid, size_t n_valid)
{
	struct sid_table *sids = opaque;

	for (size_t i = 0; status == 0 && i < n_valid; i++)
		sid_set_known(sids, (policy_sid)i + 1, valid[i]);
}

/* A text that is no context at all is reported where the manifest is turned into a guest. */
static void intern_guest(struct sid_table *sids, const struct manifest_guest *guest)
{
	policy_sid sid;

	for (uint32_t d = 0; d < guest->n_domains; d++) {
		const struct manifest_domain *domain = &guest->domains[d];

		sid_intern(sids, domain->context, &sid);
		for (uint32_t s = 0; s < domain->n_services; s++)
			if (domain->services[s].context[0])
				sid_intern(sids, domain->services[s].context, &sid);
	}
}

static void intern_manifest(struct sid_table *sids, const struct manifest *manifest)
{
	policy_sid sid;

	for (uint32_t g = 0; g < manifest->n_guests; g++)
		intern_guest(sids, &manifest->guests[g]);
	for (uint32_t p = 0; p < manifest->n_ports; p++) {
		sid_intern(sids, manifest->ports[p].context, &sid);
		if (manifest->ports[p].offers.context[0])
			sid_intern(sids, manifest->ports[p].offers.context, &sid);
		for (size_t c = 0; c < manifest->ports[p].n_clients; c++)
			sid_intern(sids, manifest->ports[p].clients[c].context, &sid);
	}
	for (size_t c = 0; c < manifest->n_clients; c++)
		sid_intern(sids, manifest->clients[c].context, &sid);
}

int posture_learn(struct monitor *monitor, struct manifest *const *manifests, size_t n_manifests,
                  char why[static WHY_BYTES])
{
	struct posture *posture = monitor->posture;
	const char **contexts;
	size_t n;
	int error;

	for (size_t m = 0; m < n_manifests; m++)
		intern_manifest(posture->sids, manifests[m]);
	n = sid_count(posture->sids);
	contexts = calloc(n, sizeof(*contexts));
	if (!contexts)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		contexts[i] = sid_context(posture->sids, (policy_sid)i + 1);
	error = server_validate(posture->policy.server, contexts, n, loop_now() + monitor->deadline_ns,
	                        validated, posture->sids);
	free(contexts);
	if (error == 0)
		server_wait(posture->policy.server);
	if (error < 0 || !server_alive(posture->policy.server)) {
		snprintf(why, WHY_BYTES, "the security server did not answer");
		return error < 0 ? error : -ECONNRESET;
	}
	return 0;
}

/* ---- in force ---- */

/* Starts another server from the sealed image; booleans keep their values in it. */
static void replace_server(struct monitor *monitor)
{
	struct posture *posture = monitor->posture;
	struct policy_source source = {"the policy in force", posture->policy.image_fd,
	                               posture->policy.image_bytes};
	struct policy_load *load = &posture->replacement;
	char why[WHY_BYTES];

	free(load->why);
	posture->next_try_ns = loop_now() + RETRY_NS;
	if (policy_begin(monitor, &source, 1, NULL, load, why) < 0) {
		audit_notice(monitor->audit, "PORTCULLIS_SERVER", "cannot be started again: %s", why);
		return;
	}
	posture->policy.server = load->policy.server;
	load->policy.server = NULL;
	posture_watch(monitor);
}

/* The replacement's image is the one that we have. */
static void drop_second_image(struct posture *posture)
{
	struct policy_load *load = &posture->replacement;

	if (load->done && load->policy.image_fd >= 0) {
		close(load->policy.image_fd);
		load->policy.image_fd = -1;
	}
}

static void after_answers(void *opaque)
{
	struct monitor *monitor = opaque;
	struct posture *posture = monitor->posture;

	drop_second_image(posture);
	if (!server_alive(posture->policy.server)) {
		audit_notice(monitor->audit, "PORTCULLIS_SERVER",
		             "died; another is started from the policy in force");
		watch_end(&posture->watch);
		server_close(posture->policy.server);
		posture->policy.server = NULL;
	}
	posture_rearm(monitor);
	change_answers(monitor);
}

static void on_timer(void *opaque)
{
	struct monitor *monitor = opaque;

	if (!monitor->posture->policy.server)
		replace_server(monitor);
	mediation_pump(monitor);
}

void posture_watch(struct monitor *monitor)
{
	struct posture *posture = monitor->posture;

	posture->timer.fn = on_timer;
	posture->timer.opaque = monitor;
	watch_end(&posture->watch);
	if (watch_begin(&posture->watch, monitor->loop, posture->policy.server, after_answers, monitor) < 0) {
		server_close(posture->policy.server);
		posture->policy.server = NULL;
	}
	posture_rearm(monitor);
}

struct policy_instance posture_switch(struct monitor *monitor, struct policy_instance *candidate)
{
	struct posture *posture = monitor->posture;
	struct policy_instance old = posture->policy;

	CHECK(monitor->registry->held);
	posture->policy = *candidate;
	*candidate = (struct policy_instance){.image_fd = -1};
	return old;
}

void posture_rearm(struct monitor *monitor)
{
	struct posture *posture = monitor->posture;
	uint64_t deadline = mediation_next_deadline(monitor);

	/* A dead server is replaced at once the first time, then once a second. */
	if (!posture->policy.server && posture->next_try_ns < deadline)
		deadline = posture->next_try_ns;
	loop_arm(monitor->loop, &posture->timer, deadline);
	watch_rearm(&posture->watch);
}

/* ---- one permission ---- */

struct asked {
	struct monitor *monitor;
	struct avc_key key;
	uint32_t permission;
	uint64_t policy_number;
	permission_fn *done;
	void *opaque;
};

static void settle(const struct asked *asked, const struct decision *decision)
{
	struct posture *posture = asked->monitor->posture;
	const char *source = sid_context(posture->sids, asked->key.source);
	const char *target = sid_context(posture->sids, asked->key.target);
	bool permissive = decision->permissive || !posture->enforcing;
	bool granted = decision->allowed & asked->permission;
	const char *name = class_permission_name(asked->key.tclass, asked->permission);
	char text[WHY_BYTES];

	if (!granted && decision->auditdeny & asked->permission) {
		struct registry *registry = registry_lock(asked->monitor);

		denials_note(registry, asked->monitor,
		             &(struct denial){.tclass = asked->key.tclass,
		                              .permissions = asked->permission,
		                              .source = asked->key.source,
		                              .target = asked->key.target,
		                              .permissive = permissive});
		registry_unlock(registry);
	}
	snprintf(text, sizeof(text), "%s lacks %s:%s { %s }", source, target, class_name(asked->key.tclass),
	         name);
	asked->done(asked->opaque, granted || permissive, text);
}

static void put_question(struct asked *asked);

static void decided(void *opaque, int status, const struct server_decision *answers, size_t n_answers)
{
	struct asked *asked = opaque;
	struct posture *posture = asked->monitor->posture;

	/* The server was closed by a change: the new one is asked (R9). */
	if (status == -ECANCELED && posture->policy.server) {
		put_question(asked);
		return;
	}
	if (status < 0 || n_answers != 1) {
		asked->done(asked->opaque, false, "the security server did not answer");
	} else {
		struct registry *registry = registry_lock(asked->monitor);
		struct decision decision = {
			.allowed = answers[0].known ? answers[0].allowed : 0,
			.auditallow = answers[0].auditallow,
			.auditdeny = answers[0].known ? answers[0].auditdeny : UINT32_MAX,
			.permissive = answers[0].known && answers[0].permissive,
			.policy_number = asked->policy_number,
		};

		decision.allowed &=
			~overlay_mask(&posture->overlay, sid_context(posture->sids, asked->key.source),
		                      sid_context(posture->sids, asked->key.target), asked->key.tclass);
		avc_insert(posture->avc, asked->key, &decision);
		registry_unlock(registry);
		settle(asked, &decision);
	}
	free(asked);
}

static void put_question(struct asked *asked)
{
	struct monitor *monitor = asked->monitor;
	struct posture *posture = monitor->posture;
	const char *contexts[2] = {sid_context(posture->sids, asked->key.source),
	                           sid_context(posture->sids, asked->key.target)};
	struct server_question question = {0, 1, asked->key.tclass};
	int error = -ECONNRESET;

	asked->policy_number = posture->policy_number;
	if (posture->policy.server && contexts[0] && contexts[1])
		error = server_decide(posture->policy.server, contexts, 2, &question, 1,
		                      loop_now() + monitor->deadline_ns, decided, asked);
	if (error < 0) {
		asked->done(asked->opaque, false, "the security server cannot be asked now");
		free(asked);
	}
	posture_rearm(monitor);
}

void posture_ask(struct monitor *monitor, policy_sid source, policy_sid target, enum policy_class tclass,
                 uint32_t permission, permission_fn *done, void *opaque)
{
	struct asked asked = {monitor, {source, target, tclass}, permission, 0, done, opaque};
	struct asked *later;
	struct registry *registry = registry_lock(monitor);
	struct decision decision;
	bool hit = avc_lookup(monitor->posture->avc, asked.key, &decision);

	registry_unlock(registry);
	if (hit) {
		settle(&asked, &decision);
		return;
	}
	later = malloc(sizeof(*later));
	if (!later) {
		done(opaque, false, "out of memory");
		return;
	}
	*later = asked;
	put_question(later);
}

policy_sid posture_self(const struct monitor *monitor)
{
	return monitor->posture->operator_sid;
}
