/*
 * What run would refuse of a port's place on the host, found without a side effect: nothing is opened, made
 * or connected to. What the host looks like now may be otherwise when the port is opened, and port_open.c
 * trusts none of it. Any thread.
 */
#ifndef PORTCULLIS_MONITOR_PORT_CHECK_H
#define PORTCULLIS_MONITOR_PORT_CHECK_H

#include "monitor/manifest.h"

enum port_finding {
	PORT_FINE,
	PORT_LATER, /* run starts; whoever connects finds nobody, unless that changes */
	PORT_WRONG, /* run refuses it */
};

/* As the process's effective user. Not PORT_FINE: what and where, in why. */
enum port_finding port_check(const struct manifest_port *port, char why[static WHY_BYTES]);

#endif
