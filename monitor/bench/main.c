#include "monitor/bench/bench.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "monitor/bench/all.h"
#include "monitor/bench/avc.h"
#include "monitor/bench/boot.h"
#include "monitor/bench/connect.h"
#include "monitor/bench/guests.h"
#include "monitor/bench/ipc.h"
#include "monitor/bench/push.h"
#include "monitor/bench/revoke.h"
#include "monitor/bench/stop.h"
#include "policy/launcher.h"

static const char help[] =
	"usage: portcullis bench revoke [options]    how long does it take to revoke every connection?\n"
	"       portcullis bench ipc [options]       what does a message cost, beside what the host can do "
	"itself?\n"
	"       portcullis bench connect [options]   what does it cost to open a channel, or to be refused "
	"one?\n"
	"       portcullis bench avc [options]       what does a decision cost that is cached, or has to be "
	"made?\n"
	"       portcullis bench boot [options]      how long does a guest take to start?\n"
	"       portcullis bench push [options]      what does a change cost before anything is stopped?\n"
	"       portcullis bench stop [options]      how long does it take to stop and resume vCPUs?\n"
	"       portcullis bench guests [options]    how long does a cut across many guests take?\n"
	"       portcullis bench --all [--json]      all of them\n"
	"\n"
	"Each starts guests of its own in this process, measures, and checks that what it measured\n"
	"happened. Nothing that runs on this host under another monitor is touched, but it takes two cores\n"
	"and so should have them to itself: figures of a busy machine are those of a busy machine.\n"
	"\n"
	"  portcullis bench revoke                         the paper's table, beside the paper's numbers\n"
	"  portcullis bench revoke --shape fan --connections 16,256,1024\n"
	"  portcullis bench revoke --stop none             the same without stopping anybody\n"
	"  portcullis bench revoke --load spin             while every vCPU computes\n"
	"  portcullis bench revoke --bystander             what another guest notices of it\n"
	"  portcullis bench ipc --json >ipc.json\n"
	"\n"
	"`portcullis bench NAME --help` lists the options; docs/performance.md says how each figure is\n"
	"made and what limits it.\n";

static const struct measurement {
	const char *name;
	int (*run)(int argc, char **argv, struct launcher *launcher);
} measurements[] = {
	{"revoke", revoke_main}, {"ipc", ipc_main},   {"connect", connect_main}, {"avc", avc_main},
	{"boot", boot_main},     {"push", push_main}, {"stop", bench_stop_main}, {"guests", guests_main},
};

#define NAMES "revoke, ipc, connect, avc, boot, push, stop and guests"

static int measure(const struct measurement *measurement, int argc, char **argv)
{
	struct launcher *launcher;
	char why[WHY_BYTES];
	int status;

	if (launcher_start(&launcher, why) < 0) {
		fprintf(stderr, "portcullis bench: %s\n", why);
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	status = measurement->run(argc, argv, launcher);
	launcher_stop(launcher);
	return status;
}

int bench_main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
		fputs(help, stdout);
		return 0;
	}
	if (strcmp(name, "--all") == 0)
		return all_main(argc - 1, argv + 1);
	for (size_t i = 0; i < sizeof(measurements) / sizeof(measurements[0]); i++)
		if (strcmp(name, measurements[i].name) == 0)
			return measure(&measurements[i], argc - 1, argv + 1);
	if (!*name)
		fputs("portcullis bench: what? There are " NAMES "; see portcullis bench --help\n", stderr);
	else
		fprintf(stderr, "portcullis bench: no measurement is called \"%s\"; there are " NAMES "\n",
		        name);
	return 2;
}
