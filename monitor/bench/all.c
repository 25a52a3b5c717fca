#include "monitor/bench/all.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor/loop.h"

#define MAX_WORDS 14u

#define FEW "--connections", "1,4,16"
#define LARGE "--connections", "64,256,1024,4096,16384", "--runs", "10"

/* What is run, under the name that its document gets. */
static const struct measurement {
	const char *name;
	const char *words[MAX_WORDS - 4]; /* after "bench"; NULL ends them */
} measurements[] = {
	{"revoke_chain", {"revoke", "--shape", "chain", "--runs", "50"}},
	{"revoke_chain_affected", {"revoke", "--shape", "chain", "--stop", "affected", FEW}},
	{"revoke_chain_none", {"revoke", "--shape", "chain", "--stop", "none", FEW}},
	{"revoke_pairs", {"revoke", "--shape", "pairs", FEW}},
	{"revoke_fan", {"revoke", "--shape", "fan", "--connections", "1,16,256", "--runs", "10"}},
	{"revoke_adjacent", {"revoke", "--layout", "adjacent", LARGE}},
	{"revoke_mapping_per_slot", {"revoke", "--layout", "mapping-per-slot", LARGE}},
	{"revoke_scattered",
         {"revoke", "--layout", "scattered", "--connections", "64,256,1024,4096,7500", "--runs", "5"}},
	{"revoke_interleaved",
         {"revoke", "--layout", "interleaved", "--connections", "64,256,1024,4096,7500", "--runs", "5"}},
	{"revoke_loads", {"revoke", "--load", "all"}},
	{"revoke_bystander", {"revoke", "--bystander"}},
	{"revoke_bystander_adjacent",
         {"revoke", "--bystander", "--layout", "adjacent", "--connections", "64,1024", "--runs", "10"}},
	{"stop", {"stop"}},
	{"ipc", {"ipc"}},
	{"connect", {"connect"}},
	{"avc", {"avc"}},
	{"boot", {"boot"}},
	{"guests", {"guests", "--guests", "2,4,8,16,32", "--runs", "10"}},
	{"push", {"push", "--channels", "10,1000,16384", "--runs", "3"}},
};

#define N_MEASUREMENTS (sizeof(measurements) / sizeof(measurements[0]))

static const char help[] =
	"usage: portcullis bench --all [--json] [--programs DIR]\n"
	"\n"
	"Every measurement, one after the other, in less than ten minutes. Standard error says which one\n"
	"runs. With --json one document: {\"machine\": {...}, \"measurements\": {\"ipc\": {...}, ...}}.\n";

/* ---- one measurement ---- */

/* All that comes until the end, malloc'ed and terminated; NULL: no memory, or it cannot be read. */
static char *read_all(int fd)
{
	char *text = NULL, block[4096];
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);
	ssize_t n;

	if (!to)
		return NULL;
	while ((n = read(fd, block, sizeof(block))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			fwrite(block, 1, (size_t)n, to);
	if (fclose(to) == 0 && n == 0)
		return text;
	free(text);
	return NULL;
}

/* Its standard output in *output if that is wanted. The exit status; -1: it could not be run. */
static int run(const struct measurement *measurement, const char *programs, char **output)
{
	char *argv[MAX_WORDS + 2] = {(char *)"portcullis", (char *)"bench"};
	posix_spawn_file_actions_t actions;
	size_t n = 2;
	int ends[2] = {-1, -1}, status = -1;
	pid_t pid;

	for (size_t i = 0; measurement->words[i]; i++)
		argv[n++] = (char *)measurement->words[i];
	if (programs && strcmp(measurement->name, "avc") != 0) {
		argv[n++] = (char *)"--programs";
		argv[n++] = (char *)programs;
	}
	if (output)
		argv[n++] = (char *)"--json";
	if (output && pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	if (output)
		posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&actions);
	if (output) {
		close(ends[1]);
		*output = pid > 0 ? read_all(ends[0]) : NULL;
		close(ends[0]);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status))
		return WEXITSTATUS(status);
	return -1;
}

/* ---- what it ran on ---- */

static void processor_name(char name[static 128])
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256];

	snprintf(name, 128, "unknown");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "model name : %127[^\n]", name) == 1)
			break;
	if (file)
		fclose(file);
}

static double load_average(void)
{
	double load = 0;

	return getloadavg(&load, 1) == 1 ? load : -1;
}

static json_t *machine_json(double load_before, double seconds)
{
	struct utsname system;
	char name[128];

	processor_name(name);
	if (uname(&system) < 0)
		return json_object();
	return json_pack("{s:s s:i s:s s:f s:f s:f}", "processor", name, "cores", get_nprocs(), "kernel",
	                 system.release, "load_before", load_before, "load_after", load_average(), "seconds",
	                 seconds);
}

/* ---- all ---- */

static bool run_each(const char *programs, json_t *documents)
{
	uint64_t begun = loop_now();
	bool well = true;

	for (size_t i = 0; i < N_MEASUREMENTS; i++) {
		const struct measurement *measurement = &measurements[i];
		char *text = NULL;
		json_t *document;
		int status;

		fprintf(stderr, "[%2zu/%zu] %4.0f s  %s\n", i + 1, N_MEASUREMENTS,
		        (double)(loop_now() - begun) / 1e9, measurement->name);
		if (!documents)
			printf("%s== %s ==\n\n", i ? "\n" : "", measurement->name);
		fflush(stdout);
		status = run(measurement, programs, documents ? &text : NULL);
		document = text ? json_loads(text, 0, NULL) : NULL;
		if (document)
			json_object_set_new(documents, measurement->name, document);
		free(text);
		if (status == 0)
			continue;
		fprintf(stderr, "portcullis bench --all: %s ended with %d\n", measurement->name, status);
		well = false;
	}
	fprintf(stderr, "done in %.0f s\n", (double)(loop_now() - begun) / 1e9);
	return well;
}

static int print_json(json_t *machine, json_t *documents)
{
	json_t *json = json_pack("{s:o s:o}", "machine", machine, "measurements", documents);

	if (!json)
		return 1;
	json_dumpf(json, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
	return 0;
}

int all_main(int argc, char **argv)
{
	const char *programs = NULL;
	double load_before = load_average();
	uint64_t begun = loop_now();
	bool json = false, well;
	json_t *documents;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			fputs(help, stdout);
			return 0;
		}
		if (strcmp(argv[i], "--json") == 0) {
			json = true;
		} else if (strcmp(argv[i], "--programs") == 0 && i + 1 < argc) {
			programs = argv[++i];
		} else {
			fprintf(stderr,
			        "portcullis bench --all: what is \"%s\"? See portcullis bench --all --help\n",
			        argv[i]);
			return 2;
		}
	}
	documents = json ? json_object() : NULL;
	well = run_each(programs, documents);
	if (json && print_json(machine_json(load_before, (double)(loop_now() - begun) / 1e9), documents) != 0)
		return 1;
	return well ? 0 : 1;
}
