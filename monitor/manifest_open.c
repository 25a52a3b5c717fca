/*
 * Opening what a manifest names: by path, or through the opener of its options.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/manifest_read.h"

/* DIR of the executable, with its slash. */
static int executable_directory(char directory[static PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", directory, PATH_MAX - 1);
	char *slash;

	if (n < 0)
		return -errno;
	directory[n] = '\0';
	slash = strrchr(directory, '/');
	if (!slash)
		return -ENOENT;
	slash[1] = '\0';
	return 0;
}

/* Where a program without a slash may be; place 0, 1; NULL: there is no such place. malloc. */
static char *program_place(const struct manifest_reader *reader, const char *name, int place)
{
	static const char *const formats[] = {"%sdomains/%s.elf", "%s../lib/portcullis/domains/%s.elf"};
	char directory[PATH_MAX];
	char *path = NULL;

	if (reader->options->program_dir) {
		if (place == 0 && asprintf(&path, "%s/%s.elf", reader->options->program_dir, name) < 0)
			return NULL;
		return path;
	}
	if (place > 1 || executable_directory(directory))
		return NULL;
	if (asprintf(&path, formats[place], directory, name) < 0)
		return NULL;
	return path;
}

/* The path of a program without a slash (malloc), or NULL and a message. */
static char *find_program(const struct manifest_reader *reader, const char *name, char why[static WHY_BYTES])
{
	char *first = NULL, *path;

	for (int place = 0; (path = program_place(reader, name, place)); place++) {
		if (access(path, F_OK) == 0) {
			free(first);
			return path;
		}
		if (first)
			free(path);
		else
			first = path;
	}
	snprintf(why, WHY_BYTES, "\"%.64s\": there is no %.400s", name, first ? first : "such program");
	free(first);
	return NULL;
}

char *read_path(const struct manifest_reader *reader, const char *path)
{
	char *joined;

	if (asprintf(&joined, "%s%s", *path == '/' ? "" : reader->directory, path) < 0)
		return NULL;
	return joined;
}

/* Where the name leads (malloc); NULL and why. */
static char *resolve(const struct manifest_reader *reader, enum manifest_file what, const char *name,
                     char why[static WHY_BYTES])
{
	snprintf(why, WHY_BYTES, "%.400s: %s", name, strerror(ENOMEM));
	if (what == MANIFEST_GIVEN || reader->options->open)
		return strdup(name);
	if (what == MANIFEST_PROGRAM && !strchr(name, '/'))
		return find_program(reader, name, why);
	return read_path(reader, name);
}

int read_open(const struct manifest_reader *reader, enum manifest_file what, const char *name,
              size_t most_bytes, size_t *bytes, char **found, char why[static WHY_BYTES])
{
	const struct manifest_options *options = reader->options;
	int fd;

	*found = resolve(reader, what, name, why);
	if (!*found)
		return -ENOENT;
	if (options->open)
		fd = options->open(options->open_opaque, what, name, most_bytes, bytes, why);
	else
		fd = file_seal(*found, most_bytes, bytes, why);
	if (fd < 0) {
		free(*found);
		*found = NULL;
	} else if (options->opened) {
		options->opened(options->open_opaque, what, name, fd);
	}
	return fd;
}
