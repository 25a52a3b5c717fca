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
	"  boot      from its text to both domains at rest, one connected with the other\n"
	"  build     of that: policy compiled by a security server of its own, memory laid out, vCPUs made\n"
	"  run       of that: from the first instruction on\n"
	"  end       to take it down again\n"
	"  kvm-vm    a baseline: an empty virtual machine with two vCPUs, made and closed\n"
	"  process   a baseline: this program as a process that prints its version and ends\n"
	"  qemu      a baseline, if it is installed: qemu-system-x86_64 -M microvm with two vCPUs, from the "
	"start\n"
	"            of its process until it says over QMP that it is there; no kernel is booted\n"
	"\n"
	"And what stays in memory with an idle guest: monitor, launcher and security server; one channel "
	"more.\n"
	"\n"
	"  --runs      30 if not given\n"
	"  --programs  the folder of the domain programs, if it is not beside this program\n";

enum {
	BOOT,
	BUILD,
	RUN,
	END,
	KVM_VM,
	PROCESS,
	QEMU,
	N_NAMES
};

static const char *const names[N_NAMES] = {"boot", "build", "run", "end", "kvm-vm", "process", "qemu"};

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

/* -errno and a line; 0 and nothing measured without QEMU. */
static int qemu_once(double *us, char why[static WHY_BYTES])
{
	uint64_t begun = loop_now();
	struct qemu *qemu = NULL;
	int error = qemu_open(2, &qemu, why);

	*us = error == 0 ? us_since(begun) : 0;
	qemu_close(qemu);
	return error == -ENOENT ? 0 : error;
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
	if (error == 0)
		return qemu_once(&values[QEMU], why);
	snprintf(why, WHY_BYTES, "baselines: %s", strerror(-error));
	return error;
}

/* values: n_runs of each name, one name after the other. */
static int measure(const struct figure_options *options, const struct scene_options *from, double *values,
                   char why[static WHY_BYTES])
{
	struct progress progress;
	int error = 0;

	progress_begin(&progress, options->n_runs);
	for (uint32_t run = 0; run < options->n_runs && error == 0; run++) {
		double once[N_NAMES] = {0};

		progress_step(&progress, "run %u of %u", run + 1, options->n_runs);
		error = boot_once(from, once, why);
		if (error == 0)
			error = baselines_once(once, why);
		for (unsigned i = 0; i < N_NAMES; i++)
			values[i * options->n_runs + run] = once[i];
	}
	progress_end(&progress);
	return error;
}

static json_t *memory_json(const struct memory_figures *memory)
{
	return json_pack("{s:{s:I s:I s:I s:I}}", "memory", "monitor_resident", (json_int_t)memory->monitor,
	                 "launcher_and_server_resident", (json_int_t)memory->others, "all_proportional",
	                 (json_int_t)memory->all, "heap_per_channel", (json_int_t)memory->per_channel);
}

static void print_memory(const struct memory_figures *memory)
{
	printf("\nMemory with an idle guest: monitor %.1f MiB, launcher and security server %.1f MiB;\n"
	       "what they share counted once, %.1f MiB. A channel more takes %llu bytes of heap.\n",
	       (double)memory->monitor / 1048576, (double)memory->others / 1048576,
	       (double)memory->all / 1048576, (unsigned long long)memory->per_channel);
}

int boot_main(int argc, char **argv, struct launcher *launcher)
{
	struct figure_options options = {.n_runs = STATS_P99_RUNS};
	int status = figure_options_parse(VERB, help, argc, argv, &options);
	struct figures figures = {0};
	char why[WHY_BYTES];
	struct memory_figures memory;
	char *manifest, *policy;
	double *values;

	if (status >= 0)
		return status;
	manifest = shape_manifest(SHAPE_CHAIN, 1, 1, 2);
	policy = shape_policy(SHAPE_CHAIN, 1, 1, 1);
	values = calloc((size_t)options.n_runs * N_NAMES, sizeof(*values));
	struct scene_options from = {.launcher = launcher,
	                             .manifest = manifest,
	                             .policy = policy,
	                             .program_dir = options.program_dir};
	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	if (!manifest || !policy || !values ||
	    memory_measure(launcher, options.program_dir, &memory, why) < 0 ||
	    measure(&options, &from, values, why) < 0) {
		fprintf(stderr, "portcullis bench boot: %s\n", why);
		status = 1;
	} else {
		for (unsigned i = 0; i < N_NAMES; i++)
			if (i != QEMU || values[(size_t)i * options.n_runs] > 0)
				figures_add(&figures, names[i], values + (size_t)i * options.n_runs,
				            options.n_runs);
		status = figures_print_with(&figures, VERB, "Starting a guest.", options.json,
		                            options.json ? memory_json(&memory) : NULL);
		if (!options.json)
			print_memory(&memory);
	}
	free(values);
	free(manifest);
	free(policy);
	return status;
}
