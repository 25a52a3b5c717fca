/*
 * Manifests as files: from bytes to a struct manifest, one or several of them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/manifest_read.h"

/* ---- one ---- */

/* An include would be opened by the parser, by whatever path, without a bound. */
static int refuse_includes(const struct manifest_reader *reader, const char *text)
{
	unsigned line = 1;

	for (const char *start = text; start; line++) {
		const char *word = start + strspn(start, " \t");

		if (strncmp(word, "@include", 8) == 0) {
			snprintf(reader->why, WHY_BYTES, "%s:%u: @include is not possible in a manifest",
			         reader->path, line);
			return -EINVAL;
		}
		start = strchr(start, '\n');
		start = start ? start + 1 : NULL;
	}
	return 0;
}

static int parse(const struct manifest_reader *reader, const char *text, struct manifest *manifest)
{
	config_t config;
	int error = refuse_includes(reader, text);

	if (error < 0)
		return error;
	config_init(&config);
	if (config_read_string(&config, text)) {
		error = manifest_read_root(reader, config_root_setting(&config), manifest);
	} else {
		snprintf(reader->why, WHY_BYTES, "%s:%d: %s", reader->path, config_error_line(&config),
		         config_error_text(&config));
		error = -EINVAL;
	}
	config_destroy(&config);
	return error;
}

/* Nothing of it said yet. */
static struct manifest *create(const char *path)
{
	struct manifest *manifest = calloc(1, sizeof(*manifest));

	if (!manifest)
		return NULL;
	manifest->references = 1;
	manifest->stop = STOP_ALL;
	manifest->deadline_seconds = DEFAULT_DEADLINE_SECONDS;
	manifest->path = strdup(path);
	if (manifest->path)
		return manifest;
	free(manifest);
	return NULL;
}

/* The text with its NUL (malloc). */
static int read_text(const char *path, char **text, size_t *bytes, char why[static WHY_BYTES])
{
	int fd = file_seal(path, MAX_MANIFEST_BYTES, bytes, why);

	if (fd < 0)
		return fd;
	*text = malloc(*bytes + 1);
	if (!*text || pread(fd, *text, *bytes, 0) != (ssize_t)*bytes) {
		snprintf(why, WHY_BYTES, "%s: out of memory", path);
		free(*text);
		close(fd);
		return -ENOMEM;
	}
	close(fd);
	(*text)[*bytes] = '\0';
	return 0;
}

/* text is terminated. */
static int load(const char *path, const char *text, size_t bytes, const struct manifest_options *options,
                bool is_later, struct manifest **out, char why[static WHY_BYTES])
{
	static const struct manifest_options none;
	const char *slash = strrchr(path, '/');
	const char *given = options ? options->directory : NULL;
	struct manifest_reader reader = {
		.path = path,
		.directory = given ? strdup(given) : strndup(path, slash ? (size_t)(slash - path) + 1 : 0),
		.options = options ? options : &none,
		.is_later = is_later,
		.why = why,
	};
	struct manifest *manifest = create(path);
	int error;

	if (!manifest || !reader.directory)
		error = read_fail(&reader, NULL, "out of memory");
	else if (strlen(text) != bytes)
		error = read_fail(&reader, NULL, "this is no text: it holds a zero byte");
	else
		error = parse(&reader, text, manifest);
	free(reader.directory);
	if (error < 0)
		manifest_free(manifest);
	else
		*out = manifest;
	return error;
}

/* Checks what only all manifests together can be held against; leaves none if that fails. */
static int finish(struct manifest **manifests, size_t n, const struct manifest_options *options,
                  char why[static WHY_BYTES])
{
	int error = options ? manifest_check_data(manifests, n, options, why) : 0;

	for (size_t i = 0; error < 0 && i < n; i++) {
		manifest_free(manifests[i]);
		manifests[i] = NULL;
	}
	return error;
}

int manifest_parse(const char *path, const char *text, size_t bytes, const struct manifest_options *options,
                   struct manifest **out, char why[static WHY_BYTES])
{
	char *copy = bytes <= MAX_MANIFEST_BYTES ? malloc(bytes + 1) : NULL;
	int error;

	if (!copy) {
		snprintf(why, WHY_BYTES, "%s: %zu bytes; a manifest has at most %u", path, bytes,
		         MAX_MANIFEST_BYTES);
		return -EFBIG;
	}
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	error = load(path, copy, bytes, options, false, out, why);
	free(copy);
	return error < 0 ? error : finish(out, 1, options, why);
}

static int load_file(const char *path, const struct manifest_options *options, bool is_later,
                     struct manifest **out, char why[static WHY_BYTES])
{
	char *text = NULL;
	size_t bytes;
	int error = read_text(path, &text, &bytes, why);

	if (error < 0)
		return error;
	error = load(path, text, bytes, options, is_later, out, why);
	free(text);
	return error;
}

int manifest_load(const char *path, const struct manifest_options *options, struct manifest **out,
                  char why[static WHY_BYTES])
{
	return manifest_load_all(&path, 1, options, out, why);
}

int manifest_without_guest(const struct manifest_options *options, struct manifest **out,
                           char why[static WHY_BYTES])
{
	struct manifest_reader reader = {.path = "-", .options = options, .why = why};
	struct manifest *manifest = create("-");
	int error = -ENOMEM;

	if (manifest)
		error = manifest_read_given_policies(&reader, manifest);
	else
		snprintf(why, WHY_BYTES, "out of memory");
	if (error < 0)
		manifest_free(manifest);
	else
		*out = manifest;
	return error;
}

struct manifest *manifest_hold(struct manifest *manifest)
{
	manifest->references++;
	return manifest;
}

void manifest_free(struct manifest *manifest)
{
	if (!manifest || --manifest->references > 0)
		return;
	for (size_t i = 0; i < manifest->n_policies; i++) {
		free(manifest->policies[i].name);
		close(manifest->policies[i].fd);
	}
	for (uint32_t i = 0; i < manifest->n_guests; i++)
		manifest_free_guest(&manifest->guests[i]);
	free(manifest->policies);
	manifest_free_ports(manifest);
	free(manifest->guests);
	free(manifest->clients);
	free(manifest->audit_path);
	free(manifest->path);
	free(manifest);
}

/* ---- several ---- */

int manifest_load_all(const char *const *paths, size_t n_paths, const struct manifest_options *options,
                      struct manifest **manifests, char why[static WHY_BYTES])
{
	int error = 0;
	size_t n = 0;

	for (; error == 0 && n < n_paths; n += error == 0) {
		manifests[n] = NULL;
		error = load_file(paths[n], options, n > 0, &manifests[n], why);
		if (error == 0 && n > 0)
			error = manifest_agrees(manifests, n, why);
		if (error < 0)
			manifest_free(manifests[n]);
	}
	if (error == 0)
		return finish(manifests, n, options, why);
	while (n > 0)
		manifest_free(manifests[--n]);
	return error;
}
