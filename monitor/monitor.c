#include "monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "monitor/audit.h"
#include "monitor/bells.h"
#include "monitor/change.h"
#include "monitor/denials.h"
#include "monitor/guest.h"
#include "monitor/lifecycle.h"
#include "monitor/loop.h"
#include "monitor/mediation.h"
#include "monitor/port.h"
#include "monitor/posture.h"
#include "monitor/registry.h"
#include "vmm/check.h"
#include "vmm/machine.h"
#include "vmm/priority.h"

#define SHUTDOWN_NS 1000000000ull

/* ---- what the loop hears ---- */

static void on_kick(void *opaque, uint32_t events)
{
	struct monitor *monitor = opaque;
	uint64_t count;
	ssize_t n = read(monitor->registry->kick_fd, &count, sizeof(count));
	bool over;

	(void)n;
	(void)events;
	mediation_pump(monitor);
	denials_pump(monitor);
	bells_settle(monitor);
	lifecycle_settle(monitor, &over);
	if (over && !monitor->serve && !ports_are_busy(monitor))
		monitor_end(monitor, lifecycle_exit_status(monitor));
}

static void on_signal(void *opaque, uint32_t events)
{
	struct monitor *monitor = opaque;
	struct signalfd_siginfo info;
	bool over;

	(void)events;
	if (read(monitor->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	lifecycle_settle(monitor, &over);
	monitor_end(monitor, lifecycle_exit_status(monitor));
}

/* ---- set-up, in the order of the struct ---- */

static int open_audit(struct monitor *monitor, const struct monitor_options *options)
{
	const char *path = options->manifests[0]->audit_path;
	struct audit_options audit = {.file_fd = -1,
	                              .log_fd = options->quiet ? -1 : STDERR_FILENO,
	                              .on_log = options->on_log,
	                              .on_log_opaque = options->on_log_opaque};

	if (path) {
		audit.file_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (audit.file_fd < 0)
			return -errno;
	}
	return audit_start(&audit, &monitor->audit);
}

/* Blocked in all threads that are started from here; the loop reads them. */
static int open_signals(struct monitor *monitor)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* RLIMIT_FSIZE: a write fails, and guests live on */
	monitor->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (monitor->signal_fd < 0)
		return -errno;
	return loop_add(monitor->loop, monitor->signal_fd, EPOLLIN, on_signal, monitor);
}

static int create_parts(struct monitor *monitor, const struct monitor_options *options,
                        char why[static WHY_BYTES], char **lines)
{
	int error;

	snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
	monitor->loop = loop_create();
	monitor->registry = registry_create();
	monitor->denials = denials_create();
	if (!monitor->loop || !monitor->registry || !monitor->denials)
		return -ENOMEM;
	monitor->lifecycle = lifecycle_create(monitor);
	if (!monitor->lifecycle)
		return -ENOMEM;
	error = open_signals(monitor);
	if (error == 0)
		error = open_audit(monitor, options);
	if (error < 0) {
		snprintf(why, WHY_BYTES, "%s: %s",
		         monitor->manifest->audit_path ? monitor->manifest->audit_path : "audit",
		         strerror(-error));
		return error;
	}
	error = posture_create(monitor);
	if (error == 0) {
		lifecycle_boot(monitor, options->manifests, options->n_manifests);
		error = posture_load(monitor, lines);
	}
	if (error == 0)
		error = posture_learn(monitor, options->manifests, options->n_manifests, why);
	if (error == 0)
		error = lifecycle_booted(monitor, why);
	if (error == 0)
		error = ports_create(monitor, options->manifests, options->n_manifests, why);
	if (error == 0)
		error = loop_add(monitor->loop, monitor->registry->kick_fd, EPOLLIN, on_kick, monitor);
	if (error == 0)
		posture_watch(monitor);
	return error;
}

/* A guest is a dozen descriptors, and each pair of guests that talk two more. */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit); /* with fewer, some doorbells are slower (bells.h) */
}

int monitor_create(const struct monitor_options *options, struct monitor **out, char **lines)
{
	struct monitor *monitor = calloc(1, sizeof(*monitor));
	char why[WHY_BYTES];
	int error;

	*lines = NULL;
	if (!monitor)
		return -ENOMEM;
	allow_descriptors();
	monitor->launcher = options->launcher;
	monitor->manifest = manifest_hold(options->manifests[0]);
	monitor->kvm_fd = options->kvm_fd;
	monitor->stop = options->stop;
	monitor->deadline_ns = (uint64_t)(options->deadline_seconds * 1e9);
	monitor->serve = options->serve;
	monitor->started_ns = loop_now();
	monitor->mappings_allowed = guest_mappings_allowed();
	monitor->signal_fd = -1;
	error = create_parts(monitor, options, why, lines);
	if (error < 0) {
		if (!*lines)
			*lines = strdup(why);
		monitor_destroy(monitor);
		return error;
	}
	*out = monitor;
	return 0;
}

int monitor_start(struct monitor *monitor, char why[static WHY_BYTES])
{
	int error;

	monitor->started = true;
	audit_notice(monitor->audit, "PORTCULLIS_START", "policy=1 guests=%u",
	             monitor->registry->n_guests - (monitor->ports ? 1 : 0));
	error = lifecycle_launch(monitor, why);
	for (uint32_t g = 0; g < monitor->registry->n_guests && error == 0; g++)
		if (monitor->registry->guests[g]->is_host)
			error = machine_start(monitor->registry->guests[g]->machine, why);
	if (error == 0)
		ports_start(monitor);
	return error;
}

/* Whoever sees the exit status wants to know whose it is, also with --quiet. */
static void tell_failures(struct monitor *monitor)
{
	struct registry *registry = registry_lock(monitor);

	for (uint32_t g = 0; g < registry->n_guests; g++) {
		const struct guest *guest = registry->guests[g];

		if (guest->lost)
			fprintf(stderr, "portcullis: guest %s is lost: %s\n", guest->name, guest->crash);
		for (uint32_t d = 0; d < guest->n_domains && !guest->lost; d++) {
			const struct domain *domain = &guest->domains[d];

			if (domain->life == LIFE_FAILED)
				fprintf(stderr, "portcullis: %s/%s failed\n", guest->name, domain->name);
			else if (domain->exit_status && guest->is_host)
				fprintf(stderr, "portcullis: port %s: bytes are missing\n", domain->name);
			else if (domain->exit_status)
				fprintf(stderr, "portcullis: %s/%s ended with status %d\n", guest->name,
				        domain->name, domain->exit_status);
		}
	}
	registry_unlock(registry);
}

int monitor_run(struct monitor *monitor)
{
	int status;

	/* A stop that competes with busy vCPUs must win; where that is not allowed it is slower, not wrong.
	 */
	(void)priority_raise();
	registry_kick(monitor->registry);
	status = loop_run(monitor->loop);
	if (status)
		tell_failures(monitor);
	return status;
}

void monitor_end(struct monitor *monitor, int status)
{
	loop_quit(monitor->loop, status);
}

static void shut_down(struct guest *guest)
{
	char why[WHY_BYTES];

	if (machine_shutdown(guest->machine, loop_now() + SHUTDOWN_NS, why) < 0)
		machine_kill(guest->machine);
}

/* Answers that are under way point to guests and to the change: those go when everybody is silent. */
static void end_guests(struct monitor *monitor)
{
	struct registry *registry = monitor->registry;

	lifecycle_end(monitor);
	for (uint32_t g = 0; registry && g < registry->n_guests; g++)
		shut_down(registry->guests[g]);
	posture_silence(monitor);
	change_drop(monitor);
	if (registry && monitor->denials)
		denials_flush(monitor);
	while (registry && registry->n_guests)
		guest_destroy(registry->guests[0]);
	lifecycle_free(monitor);
}

void monitor_destroy(struct monitor *monitor)
{
	if (!monitor)
		return;
	ports_stop(monitor);
	end_guests(monitor);
	ports_destroy(monitor);
	if (monitor->started)
		audit_notice(monitor->audit, "PORTCULLIS_STOP", "orderly");
	posture_destroy(monitor);
	audit_stop(monitor->audit);
	denials_destroy(monitor->denials);
	registry_destroy(monitor->registry);
	if (monitor->signal_fd >= 0)
		close(monitor->signal_fd);
	loop_destroy(monitor->loop);
	manifest_free(monitor->manifest);
	free(monitor);
}
