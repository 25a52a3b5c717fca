#include "monitor/bench/memory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/bench/planted.h"

#define N_CHANNELS 4096u

/* "Rss:", "Pss:" of a process, bytes; 0 if it has gone. */
static uint64_t rollup(pid_t pid, const char *field)
{
	unsigned long long kib = 0;
	char path[64], line[128];
	size_t bytes = strlen(field);
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, field, bytes) == 0 && sscanf(line + bytes, "%llu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * 1024;
}

static pid_t parent_of(pid_t pid)
{
	char path[64], text[512], *end;
	int parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	end = strrchr(text, ')'); /* a name may hold anything */
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* The launcher is our child, the security servers are its. */
static void add_others(struct memory_figures *figures)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	pid_t self = getpid();

	while (folder && (entry = readdir(folder))) {
		pid_t pid =
			isdigit((unsigned char)entry->d_name[0]) ? (pid_t)strtol(entry->d_name, NULL, 10) : 0;
		pid_t parent = pid ? parent_of(pid) : 0;

		if (parent != self && (!parent || parent_of(parent) != self))
			continue;
		figures->others += rollup(pid, "Rss:");
		figures->all += rollup(pid, "Pss:");
	}
	if (folder)
		closedir(folder);
}

static bool all_blocked(struct scene *scene, void *opaque)
{
	(void)opaque;
	return scene_all_blocked(scene);
}

static int measure_guest(struct planted *planted, struct memory_figures *figures, char why[static WHY_BYTES])
{
	int error = scene_until(planted->scene, all_blocked, NULL, "every domain sleeps", why);

	*figures =
		(struct memory_figures){.monitor = rollup(getpid(), "Rss:"), .all = rollup(getpid(), "Pss:")};
	add_others(figures);
	return error;
}

static int measure_channels(struct planted *planted, struct memory_figures *figures,
                            char why[static WHY_BYTES])
{
	size_t before = mallinfo2().uordblks, after;
	int error = planted_fill(planted, why);

	after = mallinfo2().uordblks;
	figures->per_channel = after > before ? (after - before) / planted->n : 0;
	return error;
}

int memory_measure(struct launcher *launcher, const char *program_dir, struct memory_figures *figures,
                   char why[static WHY_BYTES])
{
	struct planted few = {.n = 1, .n_pairs = 1, .n_vcpus = 2, .program_dir = program_dir};
	struct planted many = {.n = N_CHANNELS, .n_pairs = 1, .n_vcpus = 2, .program_dir = program_dir};
	int error = planted_open(&few, launcher, why);

	if (error == 0)
		error = measure_guest(&few, figures, why);
	planted_close(&few);
	if (error == 0) {
		error = planted_open(&many, launcher, why);
		if (error == 0)
			error = measure_channels(&many, figures, why);
		planted_close(&many);
	}
	return error;
}
