/*
 * The control socket: what operators and scripts ask of a running monitor.
 *
 * AF_UNIX, SOCK_SEQPACKET; one request is one datagram of JSON with policy
 * files as sealed memfds, one reply is one datagram with its body as a sealed
 * memfd (docs/control-protocol.md). So nothing here ever waits for a client: one that
 * does not read is dropped. A client is a subject like any other: its
 * kernel-verified uid gives a context, and every verb is one permission that the policy
 * decides (control_verbs.c has the table).
 * Loop thread only.
 */
#ifndef PORTCULLIS_MONITOR_CONTROL_H
#define PORTCULLIS_MONITOR_CONTROL_H

#include <stddef.h>

#include "guest/abi/limits.h"
#include "monitor/monitor.h"

/*
 * Opens the socket and serves it on the monitor's loop; sets monitor->control. A
 * stale socket is taken over. -EADDRINUSE: another monitor serves it;
 * -EEXIST: something else has that path; -EINVAL: a client's context; -errno.
 */
int control_open(struct monitor *monitor, const char *path, char why[static WHY_BYTES]);

/* Drops every client, removes the socket. Nothing happens if there is none. Before monitor_destroy. */
void control_close(struct monitor *monitor);

#endif
