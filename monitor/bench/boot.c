#include "monitor/bench/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor/bench/figures.h"
#include "monitor/bench/first.h"
#include "monitor/bench/memory.h"
#include "monitor/bench/progress.h"
#include "monitor/bench/qemu.h"
#include "monitor/bench/scene.h"
#include "monitor/bench/shape.h"
#include "monitor/loop.h"

#define VERB "boot"

static const char help[] =
	"usage: portcullis bench boot [--runs N] [--json]\n"
	"\n"
	"How long a guest with two domains on two vCPUs takes:\n"
	"\n"
	"  first-instruction       from the start of a process of this program (`portcullis run`, files and\n"
	"                          all) until the first system call of a domain is heard; 64 MiB of memory\n"
	"  qemu-first-instruction  a baseline, if it is installed: from the start of qemu-system-x86_64\n"
	"                          -M microvm with as many vCPUs and as much memory until a byte from its\n"
	"                          guest's first instructions is heard; no kernel is booted\n"
	"  boot      without a process: from its text to both domains at rest, one connected with the other\n"
	"  build     of that: policy compiled by a security server of its own, memory laid out, vCPUs made\n"
	"  run       of that: from the first instruction on\n"
	"  end       to take it down again\n"
	"  kvm-vm    a baseline: an empty virtual machine with two vCPUs, made and closed\n"
	"  process   a baseline: this program as a process that prints its version and ends\n"
	"\n"
	"The ratio of the first two is the median of the ratios of the runs, in each of which one follows "
	"the\n"
	"other. And what stays in memory with an idle guest: monitor, launcher and security server; one\n"
	"channel more.\n"
	"\n"
	"  --runs      30 if not given\n"
	"  --programs  the folder of the domain programs, if it is not beside this program\n";

enum {
	FIRST,
	QEMU,
	BOOT,
	BUILD,
	RUN,
	END,
	KVM_VM,
	PROCESS,
	N_NAMES
};

static const char *const names[N_NAMES] = {
	"first-instruction", "qemu-first-instruction", "boot", "build", "run", "end", "kvm-vm", "process",
};

struct bench {
	struct figure_options options;
	struct scene_options scene;
	struct first *first;
	double *values;          /* n_runs of each name, one name after the other */
	double *ratios;          /* n_runs: to QEMU */
	char no_qemu[WHY_BYTES]; /* why there is no peer; empty: there is */
};

static double us_since(uint64_t begun)
{
	return (double)(loop_now() - begun) / 1000.0;
}

static bool connected(struct scene *scene, void *opaque)
{
	struct registry *registry = registry_lock(scene_stage(scene)->monitor);
	uint32_t n = registry->n_channels;

	(void)opaque;
	registry_unlock(registry);
	return n == 1 && scene_all_blocked(scene);
}

static int boot_once(const struct scene_options *options, double values[N_NAMES], char why[static WHY_BYTES])
{
	uint64_t begun = loop_now();
	struct scene *scene;
	int error = scene_open(options, &scene, why);

	if (error < 0)
		return error;
	values[BUILD] = us_since(begun);
	error = scene_until(scene, connected, NULL, "the domains are connected", why);
	values[BOOT] = us_since(begun);
	values[RUN] = values[BOOT] - values[BUILD];
	begun = loop_now();
	scene_close(scene);
	values[END] = us_since(begun);
	return error;
}

/* -errno */
static int vm_once(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int vm = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);
	int error = vm < 0 ? -errno : 0;

	for (unsigned long i = 0; i < 2 && error == 0; i++) {
		int vcpu = ioctl(vm, KVM_CREATE_VCPU, i);

		if (vcpu < 0)
			error = -errno;
		else
			close(vcpu);
	}
	if (vm >= 0)
		close(vm);
	if (kvm >= 0)
		close(kvm);
	return error;
}

/* -errno */
static int process_once(void)
{
	static char *const argv[] = {(char *)"portcullis", (char *)"version", NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int error, status;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	error = -posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (error == 0 && waitpid(pid, &status, 0) < 0)
		error = -errno;
	return error;
}

/* One beside the other; without QEMU it is said once, and goes on. */
static int first_once(struct bench *bench, double values[N_NAMES], char why[static WHY_BYTES])
{
	int error = first_instruction(bench->first, &values[FIRST], why);

	if (error < 0 || bench->no_qemu[0])
		return error;
	error = qemu_first_instruction(FIRST_VCPUS, FIRST_MIB, &values[QEMU], why);
	if (error != -ENOENT)
		return error;
	snprintf(bench->no_qemu, sizeof(bench->no_qemu), "%s", why);
	return 0;
}

static int baselines_once(double values[N_NAMES], char why[static WHY_BYTES])
{
	uint64_t begun = loop_now();
	int error = vm_once();

	values[KVM_VM] = us_since(begun);
	begun = loop_now();
	if (error == 0)
		error = process_once();
	values[PROCESS] = us_since(begun);
	if (error < 0)
		snprintf(why, WHY_BYTES, "baselines: %s", strerror(-error));
	return error;
}

static int measure(struct bench *bench, char why[static WHY_BYTES])
{
	uint32_t n_runs = bench->options.n_runs;
	struct progress progress;
	int error = 0;

	progress_begin(&progress, n_runs);
	for (uint32_t run = 0; run < n_runs && error == 0; run++) {
		double once[N_NAMES] = {0};

		progress_step(&progress, "run %u of %u", run + 1, n_runs);
		error = first_once(bench, once, why);
		if (error == 0)
			error = boot_once(&bench->scene, once, why);
		if (error == 0)
			error = baselines_once(once, why);
		for (unsigned i = 0; i < N_NAMES; i++)
			bench->values[i * n_runs + run] = once[i];
		bench->ratios[run] = once[QEMU] > 0 ? once[FIRST] / once[QEMU] : 0;
	}
	progress_end(&progress);
	return error;
}

/* ---- what is printed ---- */

static json_t *members(const struct bench *bench, const struct memory_figures *memory,
                       const struct stats *ratio)
{
	json_t *json =
		json_pack("{s:{s:I s:I s:I s:I}}", "memory", "monitor_resident", (json_int_t)memory->monitor,
	                  "launcher_and_server_resident", (json_int_t)memory->others, "all_proportional",
	                  (json_int_t)memory->all, "heap_per_channel", (json_int_t)memory->per_channel);

	if (bench->no_qemu[0])
		json_object_set_new(json, "no_qemu", json_string(bench->no_qemu));
	else
		json_object_set_new(json, "first_instruction_to_qemu", stats_json(ratio));
	return json;
}

static void print_rest(const struct bench *bench, const struct memory_figures *memory,
                       const struct stats *ratio)
{
	if (bench->no_qemu[0])
		printf("\nNo QEMU beside it: %s.\n", bench->no_qemu);
	else
		printf("\nTo the first instruction: %.3f of QEMU's time.\n", ratio->median);
	printf("\nMemory with an idle guest: monitor %.1f MiB, launcher and security server %.1f MiB;\n"
	       "what they share counted once, %.1f MiB. A channel more takes %llu bytes of heap.\n",
	       (double)memory->monitor / 1048576, (double)memory->others / 1048576,
	       (double)memory->all / 1048576, (unsigned long long)memory->per_channel);
}

static int print(struct bench *bench, const struct memory_figures *memory)
{
	uint32_t n_runs = bench->options.n_runs;
	bool json = bench->options.json;
	struct stats ratio = stats_of(bench->ratios, n_runs);
	struct figures figures = {0};
	int status;

	for (unsigned i = 0; i < N_NAMES; i++)
		if (i != QEMU || !bench->no_qemu[0])
			figures_add(&figures, names[i], bench->values + (size_t)i * n_runs, n_runs);
	status = figures_print_with(&figures, VERB, "Starting a guest.", json,
	                            json ? members(bench, memory, &ratio) : NULL);
	if (!json)
		print_rest(bench, memory, &ratio);
	return status;
}

/* -errno and a line, printed then. */
static int run(struct bench *bench, struct memory_figures *memory, char why[static WHY_BYTES])
{
	int error = first_create(bench->options.program_dir, &bench->first, why);

	if (error == 0)
		error = memory_measure(bench->scene.launcher, bench->options.program_dir, memory, why);
	return error == 0 ? measure(bench, why) : error;
}

int boot_main(int argc, char **argv, struct launcher *launcher)
{
	struct bench bench = {.options.n_runs = STATS_P99_RUNS};
	int status = figure_options_parse(VERB, help, argc, argv, &bench.options);
	char why[WHY_BYTES];
	struct memory_figures memory;
	char *manifest, *policy;

	if (status >= 0)
		return status;
	manifest = shape_manifest(SHAPE_CHAIN, 1, 1, 2);
	policy = shape_policy(SHAPE_CHAIN, 1, 1, 1);
	bench.values = calloc((size_t)bench.options.n_runs * N_NAMES, sizeof(*bench.values));
	bench.ratios = calloc(bench.options.n_runs, sizeof(*bench.ratios));
	bench.scene = (struct scene_options){.launcher = launcher,
	                                     .manifest = manifest,
	                                     .policy = policy,
	                                     .program_dir = bench.options.program_dir};
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (!manifest || !policy || !bench.values || !bench.ratios || run(&bench, &memory, why) < 0) {
		fprintf(stderr, "portcullis bench boot: %s\n", why);
		status = 1;
	} else {
		status = print(&bench, &memory);
	}
	first_destroy(bench.first);
	free(bench.ratios);
	free(bench.values);
	free(manifest);
	free(policy);
	return status;
}
