/*
 * The host as a guest: its domains are the manifests' ports (port.h).
 *
 * Its machine has windows and records and no vCPUs, so that an end of a channel which a port holds is like
 * any other: service lookup, needs, plan, commit, relabel, quarantine, lists and audit know no ports. Nothing
 * of it ever runs, so a stop finds nobody there. Loop thread.
 */
#ifndef PORTCULLIS_MONITOR_HOST_H
#define PORTCULLIS_MONITOR_HOST_H

#include "monitor/manifest.h"
#include "monitor/registry.h"

#define HOST_NAME "host"

/*
 * Domain i is ports[i]. Enters it in the registry. Its slots are as large as the largest of any guest that is
 * there, at least as the default, so that a port makes no message smaller. Errors as guest_create.
 */
int host_create(struct monitor *monitor, const struct manifest_port *const *ports, uint32_t n_ports,
                struct guest **host, char why[static WHY_BYTES]);

#endif
