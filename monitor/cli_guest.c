/*
 * The verbs that start and end guests of a running monitor. What a manifest names is read here and goes to
 * the monitor as bytes: it opens nothing by a path.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/cli_output.h"
#include "monitor/cli_remote.h"
#include "monitor/control_guest.h"

/* The files of a request, each with the name that it has in the manifest. */
struct parcel {
	int fds[MAX_CONTROL_FILES];
	size_t n;
	json_t *names;
	bool full;
};

static void parcel_clear(struct parcel *parcel)
{
	while (parcel->n > 0)
		close(parcel->fds[--parcel->n]);
	json_decref(parcel->names);
}

static bool has(const struct parcel *parcel, const char *name)
{
	const json_t *known;
	size_t i;

	cli_each (parcel->names, i, known)
		if (strcmp(json_string_value(known), name) == 0)
			return true;
	return false;
}

/* A manifest_opened_fn. */
static void pack(void *opaque, enum manifest_file what, const char *name, int fd)
{
	struct parcel *parcel = opaque;
	char *key = control_guest_key(what, name);
	int copy = -1;

	if (key && has(parcel, key)) {
		free(key);
		return;
	}
	if (key && parcel->n < MAX_CONTROL_FILES)
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0) {
		parcel->full = true;
	} else {
		parcel->fds[parcel->n++] = copy;
		json_array_append_new(parcel->names, json_string(key));
	}
	free(key);
}

static int complain(const char *line)
{
	fprintf(stderr, "%s\n", line);
	return CLI_FAILED;
}

/* Reads the manifest and all that it names. The same bytes are checked here and sent. */
static int fill(struct parcel *parcel, const char *path, const struct manifest_options *options)
{
	struct manifest *manifest = NULL;
	char why[WHY_BYTES];
	size_t bytes;
	void *text;
	int fd = file_seal(path, MAX_MANIFEST_BYTES, &bytes, why);

	if (fd < 0)
		return complain(why);
	parcel->fds[parcel->n++] = fd;
	json_array_append_new(parcel->names, json_string("manifest"));
	text = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
	if (text == MAP_FAILED)
		return complain(strerror(errno));
	manifest_parse(path, text ? text : "", bytes, options, &manifest, why);
	if (text)
		munmap(text, bytes);
	if (!manifest)
		return complain(why);
	manifest_free(manifest);
	if (!parcel->full)
		return CLI_DONE;
	snprintf(why, sizeof(why), "%s: it names more than %u files; start its guests by several manifests",
	         path, MAX_CONTROL_FILES - 1);
	return complain(why);
}

static void print_guest(const json_t *body)
{
	printf("%s: %s\n", cli_text(body, "guest"), cli_text(body, "state"));
}

static void print_guests(const json_t *body)
{
	const json_t *guest;
	size_t i;

	cli_each (json_object_get(body, "guests"), i, guest)
		print_guest(guest);
}

static int send(const struct cli_call *call, json_t *request, const int *fds, size_t n_fds,
                void (*print)(const json_t *body))
{
	json_t *body = NULL;
	int status = remote_ask(call, request, fds, n_fds, &body);

	if (body && call->json && status == CLI_DONE)
		return cli_print_json(body);
	if (body && status == CLI_DONE)
		print(body);
	json_decref(body);
	return status;
}

/* Of one that is defined: a name, where there is no such file. */
static bool is_name(const char *operand)
{
	size_t length = strlen(operand);
	struct stat status;

	return length > 0 && length < MAX_NAME_BYTES &&
	       strspn(operand, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length &&
	       stat(operand, &status) < 0;
}

static int start_manifest(const struct cli_call *call, json_t *request, const char *path)
{
	const char *data[CLI_MAX_GIVEN];
	struct parcel parcel = {.names = json_array()};
	struct manifest_options options = {
		.n_data = cli_values(call, "--data", data),
		.data = data,
		.program_dir = cli_value(call, "--programs"),
		.guests_only = true,
		.opened = pack,
		.open_opaque = &parcel,
	};
	json_t *given = json_array();
	int status = CLI_DONE;

	for (size_t i = 0; i < options.n_data && status == CLI_DONE; i++) {
		json_array_append_new(given, json_string(data[i]));
		if (!strchr(data[i], '='))
			status = cli_usage(call, "--data %s: expected DOMAIN=FILE", data[i]);
	}
	if (status == CLI_DONE)
		status = fill(&parcel, path, &options);
	json_object_set_new(request, "manifest", json_string(path));
	json_object_set(request, "files", parcel.names);
	json_object_set_new(request, "data", given);
	if (status == CLI_DONE)
		status = send(call, json_incref(request), parcel.fds, parcel.n, print_guests);
	json_decref(request);
	parcel_clear(&parcel);
	return status;
}

int cli_guest_start(const struct cli_call *call)
{
	const char *operand = call->operands[0];
	json_t *request = json_pack("{s:s s:b}", "verb", "guest start", "paused", cli_has(call, "--paused"));

	if (!is_name(operand))
		return start_manifest(call, request, operand);
	json_object_set_new(request, "guest", json_string(operand));
	return send(call, request, NULL, 0, print_guests);
}

static int act(const struct cli_call *call, const char *verb)
{
	json_t *request = json_pack("{s:s s:s}", "verb", verb, "guest", call->operands[0]);

	if (cli_has(call, "--force"))
		json_object_set_new(request, "force", json_true());
	return send(call, request, NULL, 0, print_guest);
}

int cli_guest_stop(const struct cli_call *call)
{
	return act(call, "guest stop");
}

int cli_guest_suspend(const struct cli_call *call)
{
	return act(call, "guest suspend");
}

int cli_guest_resume(const struct cli_call *call)
{
	return act(call, "guest resume");
}

int cli_guest_undefine(const struct cli_call *call)
{
	return act(call, "guest undefine");
}
