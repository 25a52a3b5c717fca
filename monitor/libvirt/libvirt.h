/*
 * libvirt's front door: an unmodified virsh manages guests (docs/libvirt.md).
 *
 * Serves libvirt's remote protocol on stream sockets; libvirt itself is not linked. Guests live behind
 * lifecycle.h; what libvirt calls a domain is a guest here. Every call is a permission of the peer's context,
 * as on the control socket. Nothing waits for a client: what it may hold is bounded, and one
 * that does not read is dropped. Loop thread only, but for tap.h.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_LIBVIRT_H
#define PORTCULLIS_MONITOR_LIBVIRT_LIBVIRT_H

#include "guest/abi/limits.h"
#include "monitor/monitor.h"

struct tap;

/* Where `virsh -c portcullis:///system` looks; read-only clients look at the same name with "-ro". */
#define LIBVIRT_SYSTEM_SOCKET "/run/libvirt/virtportcullisd-sock"

struct libvirt_options {
	const char *path; /* PATH and PATH-ro are made */
	const char *
		images; /* beneath it stand the manifests that clients define; NULL: nothing can be defined */
	struct tap *tap; /* not taken; hears the guests' log lines; NULL: no consoles */
};

/* Opens both sockets and serves them; sets monitor->libvirt. Errors as control_open. */
int libvirt_open(struct monitor *monitor, const struct libvirt_options *options, char why[static WHY_BYTES]);

/* The descriptor of the directory of images; -1: none. */
int libvirt_images(const struct monitor *monitor);

/* Drops every client, removes the sockets. Nothing happens if there are none. Before monitor_destroy. */
void libvirt_close(struct monitor *monitor);

#endif
