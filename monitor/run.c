/*
 * The verbs run and serve: a monitor in this process, from set-up to exit status.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/cli.h"
#include "monitor/cli_manifest.h"
#include "monitor/client.h"
#include "monitor/confine.h"
#include "monitor/control.h"
#include "monitor/libvirt/libvirt.h"
#include "monitor/libvirt/tap.h"
#include "monitor/manifest.h"
#include "monitor/monitor.h"
#include "monitor/run_libvirt.h"
#include "policy/launcher.h"
#include "vmm/check.h"
#include "vmm/machine.h"

#define MAX_DEADLINE_SECONDS 3600.0

/* What is set up, in this order. */
struct service {
	struct manifest *manifests[CLI_MAX_GIVEN];
	size_t n_manifests;
	int kvm_fd;
	struct monitor *monitor;
	struct tap *tap; /* NULL: without memory there are no consoles */
};

static int complain(const char *why)
{
	fprintf(stderr, "portcullis: %s\n", why);
	return CLI_FAILED;
}

/* Lines about a manifest or a policy begin with their place; nothing stands before them. */
static int complain_at(const char *lines)
{
	fprintf(stderr, "%s\n", lines);
	return CLI_FAILED;
}

static int read_manifests(const struct cli_call *call, struct service *service)
{
	char why[WHY_BYTES] = "";
	int status = cli_load_manifests(call, service->manifests, &service->n_manifests, why);

	return status == CLI_FAILED ? complain_at(why) : status;
}

static int open_kvm(const struct cli_call *call, struct service *service)
{
	const char *path = cli_value(call, "--kvm");
	char why[WHY_BYTES];
	bool needed = service->manifests[0]->n_guests > 0;

	/* A monitor without a guest may be given one later, but it need not run where there is no KVM. */
	CHECK(service->n_manifests > 0);
	if (path) {
		service->kvm_fd = open(path, O_RDWR | O_CLOEXEC);
		snprintf(why, sizeof(why), "%s: %s", path, strerror(errno));
	} else {
		service->kvm_fd = machine_open_kvm(why);
	}
	if (service->kvm_fd >= 0 && machine_check_kvm(service->kvm_fd, why) < 0) {
		close(service->kvm_fd);
		service->kvm_fd = -1;
	}
	return service->kvm_fd < 0 && needed ? complain(why) : CLI_DONE;
}

static int create_monitor(const struct cli_call *call, bool serve, struct service *service)
{
	CHECK(service->n_manifests > 0);
	struct monitor_options options = {
		.launcher = call->launcher,
		.manifests = service->manifests,
		.n_manifests = service->n_manifests,
		.kvm_fd = service->kvm_fd,
		.stop = service->manifests[0]->stop,
		.quiet = cli_has(call, "--quiet"),
		.serve = serve,
		.on_log = service->tap ? tap_heard : NULL,
		.on_log_opaque = service->tap,
	};
	char *why;
	int mode, status = CLI_DONE;

	if (!cli_stop_mode(call, &mode) ||
	    !cli_seconds(call, "--deadline", MAX_DEADLINE_SECONDS, service->manifests[0]->deadline_seconds,
	                 &options.deadline_seconds))
		return CLI_USAGE;
	if (mode >= 0)
		options.stop = (enum stop_mode)mode;
	if (monitor_create(&options, &service->monitor, &why) < 0) {
		service->monitor = NULL;
		status = complain_at(why ? why : strerror(ENOMEM));
		free(why);
	}
	return status;
}

/* Clients can connect before the first domain runs. */
static int open_control(const struct cli_call *call, struct service *service)
{
	const char *given = cli_value(call, "--socket");
	char path[SOCKET_PATH_BYTES], why[WHY_BYTES];
	int error = 0;

	if (!given)
		error = client_default_path(true, path, why);
	if (error == 0)
		error = control_open(service->monitor, given ? given : path, why);
	if (error == -EADDRINUSE) {
		fprintf(stderr, "portcullis: %s; --socket PATH gives this one another\n", why);
		return CLI_FAILED;
	}
	return error < 0 ? complain(why) : CLI_DONE;
}

static int start_and_serve(struct service *service)
{
	char why[WHY_BYTES];

	if (confine_process(run_libvirt_images(service->monitor), why) < 0)
		return complain(why);
	if (monitor_start(service->monitor, why) < 0)
		return complain(why);
	return monitor_run(service->monitor);
}

static int serve(const struct cli_call *call, bool for_ever)
{
	struct service service = {.kvm_fd = -1};
	char why[WHY_BYTES];
	int status;

	/* What comes up to create_monitor needs no time: the security server's process starts meanwhile. */
	launcher_prepare(call->launcher);
	status = read_manifests(call, &service);
	if (status == CLI_DONE)
		status = open_kvm(call, &service);
	if (status == CLI_DONE && confine_prepare(why) < 0)
		status = complain(why);
	if (status == CLI_DONE)
		service.tap = tap_create();
	if (status == CLI_DONE)
		status = create_monitor(call, for_ever, &service);
	if (status == CLI_DONE)
		status = open_control(call, &service);
	if (status == CLI_DONE)
		status = run_libvirt_open(call, service.monitor, service.tap, for_ever);
	if (status == CLI_DONE)
		status = start_and_serve(&service);
	if (service.monitor) {
		libvirt_close(service.monitor);
		control_close(service.monitor);
	}
	monitor_destroy(service.monitor);
	tap_destroy(service.tap);
	if (service.kvm_fd >= 0)
		close(service.kvm_fd);
	while (service.n_manifests > 0)
		manifest_free(service.manifests[--service.n_manifests]);
	return status;
}

int cli_run(const struct cli_call *call)
{
	return serve(call, false);
}

int cli_serve(const struct cli_call *call)
{
	return serve(call, true);
}
