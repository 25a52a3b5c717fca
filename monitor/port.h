/*
 * Ports: labelled endpoints on the host (docs/ports.md; design: 7, "Host ports").
 *
 * A port is a domain of the guest "host" (host.h). What a domain's thread does for a domain, the loop does
 * here for a port: it connects and accepts as any domain (mediation.h), and copies between rings and
 * descriptors with the domain library's own ring code (guest/lib/ring.h). Each turn moves a bounded number of
 * bytes; what is left waits for the next, so no client and no peer holds up the loop, another port, or a
 * change. Bytes stay private: one message of a connection at most is in the monitor.
 *
 * Stream sockets carry chunks, seqpacket sockets one message a packet; an empty message ends its direction,
 * both ways. After a cut nothing is written: the loop is the only writer, it is the one that commits, and it
 * looks at the record before each write. Loop thread, all of it.
 */
#ifndef PORTCULLIS_MONITOR_PORT_H
#define PORTCULLIS_MONITOR_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/channel.h"
#include "monitor/manifest.h"
#include "monitor/monitor.h"

struct ports;

/*
 * Opens what the manifests' ports name: after the guests exist, before the process is confined. Nothing is
 * accepted yet. Without ports nothing happens. -errno and a line in why; then nothing is left.
 */
int ports_create(struct monitor *monitor, struct manifest *const *manifests, size_t n_manifests,
                 char why[static WHY_BYTES]);

/* Lets clients in, connects ports that begin themselves. */
void ports_start(struct monitor *monitor);

/* Whether what domains have sent is still on its way to a descriptor. When that ends, the registry is kicked.
 */
bool ports_are_busy(struct monitor *monitor);

/* The commit of a change, registry lock: flow[side] of the channel leads to a port and is cut. Adds what the
 * monitor drops, and says what the host had been handed. */
void ports_inspect(struct monitor *monitor, const struct channel *channel, enum channel_side side,
                   struct flow_loss *loss);

/* After a change: closes what it cut on the host's side, at once. */
void ports_follow(struct monitor *monitor);

/* Closes every connection and socket; socket files go. */
void ports_stop(struct monitor *monitor);
/* After the guests. */
void ports_destroy(struct monitor *monitor);

#endif
