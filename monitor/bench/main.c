#include "monitor/bench/bench.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "monitor/bench/ipc.h"
#include "monitor/bench/revoke.h"
#include "policy/launcher.h"

static const char help[] =
	"usage: portcullis bench revoke [options]   how long does it take to revoke every connection?\n"
	"       portcullis bench ipc [options]      what does a message cost, beside what the host can do "
	"itself?\n"
	"\n"
	"Each starts guests of its own in this process, measures, and checks that what it measured\n"
	"happened. Nothing that runs on this host under another monitor is touched, but it takes two cores\n"
	"and so should have them to itself: figures of a busy machine are those of a busy machine.\n"
	"\n"
	"  portcullis bench revoke                         the paper's table, beside the paper's numbers\n"
	"  portcullis bench revoke --shape fan --connections 16,256,1024\n"
	"  portcullis bench revoke --stop none             the same without stopping anybody\n"
	"  portcullis bench ipc --json >ipc.json\n"
	"\n"
	"`portcullis bench revoke --help` and `portcullis bench ipc --help` list the options;\n"
	"docs/performance.md says how each figure is made and what limits it.\n";

static int measure(const char *name, int argc, char **argv)
{
	struct launcher *launcher;
	char why[WHY_BYTES];
	int status;

	if (launcher_start(&launcher, why) < 0) {
		fprintf(stderr, "portcullis bench: %s\n", why);
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	status =
		strcmp(name, "ipc") == 0 ? ipc_main(argc, argv, launcher) : revoke_main(argc, argv, launcher);
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
	if (strcmp(name, "revoke") == 0 || strcmp(name, "ipc") == 0)
		return measure(name, argc - 1, argv + 1);
	if (!*name)
		fputs("portcullis bench: what? There are revoke and ipc; see portcullis bench --help\n",
		      stderr);
	else
		fprintf(stderr,
		        "portcullis bench: no measurement is called \"%s\"; there are revoke and ipc\n",
		        name);
	return 2;
}
