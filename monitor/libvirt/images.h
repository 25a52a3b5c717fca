/*
 * Files that clients of libvirt may name: those beneath one directory, given at start.
 *
 * A name is relative to that directory; no part of it may be a link or lead out (openat2 with
 * RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS). A program without a slash is NAME.elf there. Only regular files.
 * No state; any thread.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_IMAGES_H
#define PORTCULLIS_MONITOR_LIBVIRT_IMAGES_H

#include "monitor/manifest.h"

/* A manifest_open_fn; opaque points to the directory's descriptor. */
int images_open(void *directory_fd, enum manifest_file what, const char *name, size_t most_bytes,
                size_t *bytes, char why[static WHY_BYTES]);

/* The guests of a manifest beneath the directory. */
int images_load(int directory_fd, const char *name, struct manifest **manifest, char why[static WHY_BYTES]);

#endif
