#include "monitor/control_guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "monitor/control_change.h"
#include "monitor/host.h"
#include "monitor/lifecycle.h"
#include "monitor/posture.h"
#include "monitor/suggest.h"

/* ---- one guest, by name ---- */

static struct definition *find(struct control_request *request, const char *name)
{
	struct definition *found = lifecycle_find(request->monitor, name);
	const char *names[MAX_DEFINITIONS];
	char suggestion[SUGGESTION_BYTES];
	size_t n = 0;

	if (found)
		return found;
	for (found = lifecycle_first(request->monitor); found && n < MAX_DEFINITIONS; found = found->next)
		names[n++] = found->name;
	if (strcmp(name, HOST_NAME) == 0)
		request_fail(request, "\"%s\" stands for the ports of this monitor, and ends with it", name);
	else
		request_fail(request, "there is no guest \"%.64s\"%s", name,
		             suggest_phrase(name, names, n, suggestion));
	return NULL;
}

static json_t *guest_json(struct monitor *monitor, const char *name)
{
	const struct definition *definition = lifecycle_find(monitor, name);

	if (!definition)
		return json_pack("{s:s s:s}", "guest", name, "state", "undefined");
	return json_pack("{s:s s:s s:i}", "guest", name, "state", definition_state_name(definition), "id",
	                 (int)definition->id);
}

typedef int action_fn(struct monitor *monitor, struct definition *definition, char why[static WHY_BYTES]);

static void act(struct control_request *request, const char *guest, action_fn *action)
{
	struct definition *definition = find(request, guest);
	char name[MAX_NAME_BYTES], why[WHY_BYTES];

	if (!definition)
		return;
	snprintf(name, sizeof(name), "%s", definition->name);
	if (action(request->monitor, definition, why) < 0)
		request_fail(request, "%s", why);
	else
		request_reply_json(request, guest_json(request->monitor, name));
}

static void act_on_named(struct control_request *request, action_fn *action)
{
	const char *guest;

	if (control_unpack(request, "{s:s}", "guest", &guest))
		act(request, guest, action);
}

void control_run_guest_stop(struct control_request *request)
{
	const char *guest;
	int force = 0;

	if (control_unpack(request, "{s:s s?b}", "guest", &guest, "force", &force))
		act(request, guest, force ? lifecycle_destroy : lifecycle_shutdown);
}

void control_run_guest_suspend(struct control_request *request)
{
	act_on_named(request, lifecycle_suspend);
}

void control_run_guest_resume(struct control_request *request)
{
	act_on_named(request, lifecycle_resume);
}

void control_run_guest_undefine(struct control_request *request)
{
	act_on_named(request, lifecycle_undefine);
}

/* ---- start ---- */

struct starting {
	/* The request's; a manifest with its files, or a guest that is defined. */
	const char *manifest, *guest;
	json_t *files, *data;
	int paused;
	uint32_t asks; /* permissions of class guest that have not been asked for yet */

	char (*names)[MAX_NAME_BYTES];
	uint32_t n_guests, n_pending;
	int error; /* of the first that failed */
	char why[WHY_BYTES];
};

char *control_guest_key(enum manifest_file what, const char *name)
{
	static const char *const kinds[] = {
		[MANIFEST_POLICY] = "policy",
		[MANIFEST_PROGRAM] = "program",
		[MANIFEST_DATA] = "data",
		[MANIFEST_GIVEN] = "given",
	};
	char *key;

	return asprintf(&key, "%s:%s", kinds[what], name) < 0 ? NULL : key;
}

/* A manifest_open_fn: the descriptor that came under that name. */
static int open_passed(void *opaque, enum manifest_file what, const char *name, size_t most_bytes,
                       size_t *bytes, char why[static WHY_BYTES])
{
	struct control_request *request = opaque;
	const struct starting *starting = request->scratch;
	char *key = control_guest_key(what, name);
	int fd = -ENOENT;

	snprintf(why, WHY_BYTES, "%.400s: the request did not bring it", name);
	for (size_t i = 1; key && i < request->message.n_fds && fd == -ENOENT; i++) {
		if (strcmp(json_string_value(json_array_get(starting->files, i)), key) != 0)
			continue;
		*bytes = request->message.bytes[i];
		fd = *bytes > most_bytes ? -EFBIG : fcntl(request->message.fds[i], F_DUPFD_CLOEXEC, 3);
		if (fd == -EFBIG)
			snprintf(why, WHY_BYTES, "%.400s: longer than %zu bytes, which is the most possible",
			         name, most_bytes);
		else if (fd < 0)
			fd = -errno;
	}
	free(key);
	return fd;
}

/* Parses what came, as if it had been read from the file. NULL: replied why not. */
static struct manifest *parse(struct control_request *request)
{
	struct starting *starting = request->scratch;
	size_t n_data = json_array_size(starting->data), bytes = request->message.bytes[0];
	const char **data = calloc(n_data + 1, sizeof(*data));
	struct manifest_options options = {.guests_only = true,
	                                   .open = open_passed,
	                                   .open_opaque = request,
	                                   .data = data,
	                                   .n_data = n_data};
	struct manifest *manifest = NULL;
	char why[WHY_BYTES] = "out of memory";
	void *text;

	text = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, request->message.fds[0], 0) : MAP_FAILED;
	for (size_t i = 0; data && i < n_data; i++)
		data[i] = json_string_value(json_array_get(starting->data, i));
	if (text == MAP_FAILED)
		snprintf(why, sizeof(why), "%.200s: the manifest is empty", starting->manifest);
	else if (data)
		manifest_parse(starting->manifest, text, bytes, &options, &manifest, why);
	if (text != MAP_FAILED)
		munmap(text, bytes);
	free(data);
	if (!manifest)
		request_fail(request, "%s", why);
	return manifest;
}

static void reply_started(struct control_request *request)
{
	struct starting *starting = request->scratch;
	json_t *guests = json_array();
	int error = starting->error;
	char why[WHY_BYTES];

	for (uint32_t i = 0; i < starting->n_guests; i++)
		json_array_append_new(guests, guest_json(request->monitor, starting->names[i]));
	snprintf(why, sizeof(why), "%s", error < 0 ? starting->why : "");
	free(starting->names);
	starting->names = NULL;
	request_reply(request, error < 0, why, json_pack("{s:o}", "guests", guests));
}

static void note_failure(struct starting *starting, int error, const char *why)
{
	if (error == 0 || starting->error < 0)
		return;
	starting->error = error;
	snprintf(starting->why, sizeof(starting->why), "%s", why);
}

static void started(void *opaque, struct definition *definition, int error, const char *why)
{
	struct control_request *request = opaque;
	struct starting *starting = request->scratch;

	(void)definition;
	note_failure(starting, error, why);
	if (--starting->n_pending == 0)
		reply_started(request);
}

/* Each is told of by `started`, from a later round of the loop; or not at all, and is counted here. */
static void start_one(struct control_request *request, struct definition *definition)
{
	struct starting *starting = request->scratch;
	char why[WHY_BYTES];
	int error;

	snprintf(starting->names[starting->n_guests++], MAX_NAME_BYTES, "%s", definition->name);
	error = lifecycle_start(request->monitor, definition, starting->paused, started, request, why);
	note_failure(starting, error, why);
	starting->n_pending += error == 0;
}

static bool reserve(struct control_request *request, uint32_t n_guests)
{
	struct starting *starting = request->scratch;

	starting->names = calloc(n_guests, sizeof(*starting->names));
	if (!starting->names)
		request_fail(request, "out of memory");
	return starting->names != NULL;
}

static void start_defined(struct control_request *request)
{
	struct starting *starting = request->scratch;
	struct definition *definition = find(request, starting->guest);

	if (!definition || !reserve(request, 1))
		return;
	start_one(request, definition);
	if (starting->n_pending == 0)
		reply_started(request);
}

static void start_manifest(struct control_request *request)
{
	struct starting *starting = request->scratch;
	struct manifest *manifest = parse(request);
	struct definition *defined[MAX_GUESTS];
	char why[WHY_BYTES];
	uint32_t n = 0;
	int error = 0;

	if (!manifest)
		return;
	if (!reserve(request, manifest->n_guests)) {
		manifest_free(manifest);
		return;
	}
	/* All of them, or none. */
	for (; n < manifest->n_guests && error == 0; n++)
		error = lifecycle_check_guest(request->monitor, &manifest->guests[n], why);
	for (n = 0; n < manifest->n_guests && error == 0; n += error == 0)
		error = lifecycle_define_guest(request->monitor, manifest, n, true, &defined[n], why);
	manifest_free(manifest);
	if (error < 0) {
		free(starting->names);
		request_fail(request, "%s", why);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		start_one(request, defined[i]);
	if (starting->n_pending == 0)
		reply_started(request);
}

/* Defining comes before starting. */
static void ask_next(struct control_request *request);

static void answered(void *opaque, bool allowed, const char *text)
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
	struct starting *starting = request->scratch;
	uint32_t permission = starting->asks & -starting->asks;

	starting->asks &= ~permission;
	if (permission)
		posture_ask(request->monitor, request->subject, posture_self(request->monitor), CLASS_GUEST,
		            permission, answered, request);
	else if (starting->manifest)
		start_manifest(request);
	else
		start_defined(request);
}

static bool are_texts(const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (!text || !*text || strlen(text) >= MAX_SOURCE_NAME_BYTES)
			return false;
	}
	return json_is_array(list);
}

static bool are_data(const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (!strchr(json_string_value(json_array_get(list, i)), '='))
			return false;
	return true;
}

/* What is wrong with the form; NULL: nothing. */
static const char *check(const struct control_request *request, const struct starting *starting)
{
	size_t n_fds = request->message.n_fds;

	if (!starting->manifest == !starting->guest)
		return "it takes a manifest or the name of a guest";
	if (starting->guest)
		return n_fds || starting->files || starting->data ? "files belong to a manifest" : NULL;
	if (!*starting->manifest || strlen(starting->manifest) >= MAX_SOURCE_NAME_BYTES)
		return "the manifest needs a name";
	if (!are_texts(starting->files) || json_array_size(starting->files) != n_fds || n_fds == 0)
		return "files has one name for each descriptor, the manifest first";
	if (starting->data && (!are_texts(starting->data) || !are_data(starting->data)))
		return "data has texts of the form DOMAIN=FILE";
	return NULL;
}

void control_run_guest_start(struct control_request *request)
{
	struct starting *starting = calloc(1, sizeof(*starting));
	const char *wrong;

	request->scratch = starting;
	if (!starting) {
		request_fail(request, "out of memory");
		return;
	}
	if (!control_unpack(request, "{s?s s?s s?o s?o s?b}", "manifest", &starting->manifest, "guest",
	                    &starting->guest, "files", &starting->files, "data", &starting->data, "paused",
	                    &starting->paused))
		return;
	wrong = check(request, starting);
	if (wrong) {
		request_fail(request, "bad request: guest start: %s", wrong);
		return;
	}
	starting->asks = starting->manifest ? GUEST_DEFINE | GUEST_START : GUEST_START;
	ask_next(request);
}
