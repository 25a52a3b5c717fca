/*
 * The verb doctor: can guests run here, and if not, what is to be done.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monitor/cli.h"
#include "monitor/cli_output.h"
#include "policy/launcher.h"
#include "policy/server.h"
#include "vmm/machine.h"
#include "vmm/oracle.h"

#define ORACLE_ROUNDS 200u
#define CONTROL_ROUNDS 20u
#define LEAST_MAPPINGS 16384 /* a few guests with hundreds of open channels each */

enum verdict_kind {
	VERDICT_OK,
	VERDICT_NOTE, /* guests run; something is slower */
	VERDICT_FAIL,
};

struct doctor {
	const struct cli_call *call;
	json_t *findings;
	int kvm_fd;
	bool failed;
};

/* One requirement: a line, or an element of the document. */
__attribute__((format(printf, 4, 5))) static void say(struct doctor *doctor, enum verdict_kind kind,
                                                      const char *name, const char *format, ...)
{
	static const char *const words[] = {"ok", "note", "FAIL"};
	static const enum cli_colour colours[] = {COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED};
	char text[2 * WHY_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	doctor->failed = doctor->failed || kind == VERDICT_FAIL;
	if (doctor->call->json) {
		json_array_append_new(doctor->findings,
		                      json_pack("{s:s s:s s:s}", "requirement", name, "verdict",
		                                kind == VERDICT_FAIL ? "fail" : words[kind], "text", text));
		return;
	}
	printf("%s%-4s%s  %-15s  %s\n", cli_colour(colours[kind]), words[kind], cli_plain(), name, text);
	fflush(stdout);
}

/* ---- KVM ---- */

static void check_kvm(struct doctor *doctor)
{
	const char *path = cli_value(doctor->call, "--kvm");
	char why[WHY_BYTES];

	if (path) {
		doctor->kvm_fd = open(path, O_RDWR | O_CLOEXEC);
		snprintf(why, sizeof(why), "%s: %s", path, strerror(errno));
	} else {
		doctor->kvm_fd = machine_open_kvm(why);
	}
	if (doctor->kvm_fd < 0) {
		say(doctor, VERDICT_FAIL, "kvm", "%s", why);
		return;
	}
	say(doctor, VERDICT_OK, "kvm", "%s can be opened", path ? path : "/dev/kvm");
	if (machine_check_kvm(doctor->kvm_fd, why) < 0) {
		say(doctor, VERDICT_FAIL, "kvm-features", "%s", why);
		close(doctor->kvm_fd);
		doctor->kvm_fd = -1;
		return;
	}
	say(doctor, VERDICT_OK, "kvm-features", "API version 12 and every capability that is needed");
}

/* ---- the kernel ---- */

static void check_mappings(struct doctor *doctor)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	long count = 0;

	if (file && fscanf(file, "%ld", &count) != 1)
		count = 0;
	if (file)
		fclose(file);
	if (count >= LEAST_MAPPINGS)
		say(doctor, VERDICT_OK, "mappings", "vm.max_map_count is %ld", count);
	else
		say(doctor, VERDICT_FAIL, "mappings",
		    "vm.max_map_count is %ld; each open flow can need one: sysctl -w vm.max_map_count=65530",
		    count);
}

static void check_memfd(struct doctor *doctor)
{
	int fd = memfd_create("portcullis-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char byte = 1;
	bool sealed = fd >= 0 && write(fd, &byte, 1) == 1 &&
	              fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0 &&
	              write(fd, &byte, 1) < 0 && errno == EPERM;

	if (sealed)
		say(doctor, VERDICT_OK, "memfd", "memory files can be sealed");
	else
		say(doctor, VERDICT_FAIL, "memfd", "memfd_create with seals does not work: %s",
		    strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Only tried: this process goes on as it is. */
static void check_priority(struct doctor *doctor)
{
	struct sched_param normal = {0}, first = {.sched_priority = 1};

	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first)) {
		say(doctor, VERDICT_NOTE, "priority",
		    "SCHED_FIFO is not allowed (CAP_SYS_NICE, or ulimit -r 1): a stop takes up to 4 ms "
		    "instead of 0.4, and a resume up to 4 ms for each vCPU that computes, where cores are "
		    "wanted by others too");
		return;
	}
	pthread_setschedparam(pthread_self(), SCHED_OTHER, &normal);
	say(doctor, VERDICT_OK, "priority", "SCHED_FIFO is allowed: stops are short on busy cores too");
}

static void check_cores(struct doctor *doctor)
{
	cpu_set_t cores;
	int n = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;

	if (n > 1)
		say(doctor, VERDICT_OK, "cores", "%d cores for vCPUs", n);
	else
		say(doctor, VERDICT_NOTE, "cores",
		    "one core: vCPUs take turns, and a message between two takes milliseconds");
}

/* ---- the security server ---- */

static void check_server(struct doctor *doctor)
{
	char why[WHY_BYTES];
	int socket_fd, pidfd, error = launcher_spawn(doctor->call->launcher, &socket_fd, &pidfd, why);
	struct server *server;

	if (error < 0) {
		say(doctor, VERDICT_FAIL, "security-server", "%s", why);
		return;
	}
	server = server_open(socket_fd, pidfd);
	if (server && server_alive(server))
		say(doctor, VERDICT_OK, "security-server", "starts in a process of its own");
	else
		say(doctor, VERDICT_FAIL, "security-server", "it starts, but cannot be talked to");
	server_close(server);
}

/* ---- the oracle ---- */

/* A cut must take memory from a running guest at once; and the test must be one that can fail. */
static void check_cuts(struct doctor *doctor, uint32_t rounds)
{
	struct oracle_result cut, control;
	char why[WHY_BYTES];

	if (oracle_run(doctor->kvm_fd, rounds, true, &cut, why) < 0 ||
	    oracle_run(doctor->kvm_fd, CONTROL_ROUNDS, false, &control, why) < 0)
		say(doctor, VERDICT_FAIL, "cuts", "cannot be tried: %s", why);
	else if (cut.escapes)
		say(doctor, VERDICT_FAIL, "cuts",
		    "in %u of %u rounds a guest still read what had been taken from it: this kernel does not "
		    "keep what a cut promises; do not run guests here",
		    cut.escapes, cut.rounds);
	else if (control.escapes != control.rounds)
		say(doctor, VERDICT_FAIL, "cuts",
		    "the control, which does not cut, was noticed in %u of %u rounds only: nothing is proved",
		    control.escapes, control.rounds);
	else
		say(doctor, VERDICT_OK, "cuts",
		    "%u of %u took memory from a running guest at once (the longest: %llu us); the control "
		    "was "
		    "noticed %u of %u times",
		    cut.rounds, cut.rounds, (unsigned long long)(cut.cut_ns_max / 1000), control.escapes,
		    control.rounds);
}

/* ---- the verb ---- */

int cli_doctor(const struct cli_call *call)
{
	struct doctor doctor = {.call = call, .findings = json_array(), .kvm_fd = -1};
	uint64_t rounds;

	if (!cli_number(call, "--rounds", 1u << 20, ORACLE_ROUNDS, &rounds)) {
		json_decref(doctor.findings);
		return CLI_USAGE;
	}
	check_kvm(&doctor);
	check_mappings(&doctor);
	check_memfd(&doctor);
	check_priority(&doctor);
	check_cores(&doctor);
	check_server(&doctor);
	if (doctor.kvm_fd >= 0)
		check_cuts(&doctor, (uint32_t)rounds);
	if (doctor.kvm_fd >= 0)
		close(doctor.kvm_fd);
	if (call->json)
		cli_print_json(json_pack("{s:b s:O}", "ok", !doctor.failed, "findings", doctor.findings));
	else if (doctor.failed)
		fprintf(stderr, "portcullis: guests cannot run here; what FAIL says has to be done first\n");
	json_decref(doctor.findings);
	return doctor.failed ? CLI_FAILED : CLI_DONE;
}
