/*
 * The manifest: what an operator wants run (libconfig syntax; docs/manifest.md).
 *
 * Read before the sandbox closes: every file that it names is opened here, and
 * nothing later is opened by path. Each error is one line "FILE:LINE: message".
 * An unknown key is an error. Relative paths are relative to the manifest.
 * A program without a slash is looked for beside the executable
 * (DIR/domains/NAME.elf) and in the installed library folder.
 */
#ifndef PORTCULLIS_MONITOR_MANIFEST_H
#define PORTCULLIS_MONITOR_MANIFEST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/abi/limits.h"

enum stop_mode {
	STOP_ALL,      /* all vCPUs of all guests: one instant for all cuts */
	STOP_AFFECTED, /* those of guests that hold an end of a cut flow */
	STOP_NONE,     /* none */
};

const char *stop_mode_name(enum stop_mode mode);
/* -1 if it is none of all, affected, none. */
int stop_mode_find(const char *name);

struct manifest_service {
	char name[MAX_NAME_BYTES];
	char context[MAX_CONTEXT_BYTES]; /* "": its domain's */
};

struct manifest_domain {
	char name[MAX_NAME_BYTES];
	char context[MAX_CONTEXT_BYTES];
	char *program; /* path as found, for messages */
	void *image;
	size_t image_bytes;
	char **arguments; /* argument 0 is the domain's name */
	uint32_t n_arguments;
	uint32_t vcpu;
	uint32_t n_slots;
	uint64_t heap_bytes;
	uint64_t stack_bytes;
	int data_fd; /* sealed memfd copy; -1: none */
	uint64_t data_bytes;
	struct manifest_service services[MAX_SERVICES];
	uint32_t n_services;
	unsigned line;
};

/* Who may use the control socket, and as what. */
struct manifest_client {
	uid_t uid;
	unsigned line;
	char context[MAX_CONTEXT_BYTES];
};

/* A policy source: a sealed memfd and the name that the user gave it. */
struct manifest_policy {
	char *name;
	int fd;
	size_t bytes;
};

struct manifest {
	char *path;
	char name[MAX_NAME_BYTES];
	uint32_t n_vcpus;
	uint64_t bulk_bytes;
	enum stop_mode stop;
	double deadline_seconds; /* of the stop; 10 by default */
	struct manifest_policy *policies;
	size_t n_policies;
	struct manifest_domain *domains;
	uint32_t n_domains;
	struct manifest_client *clients;
	size_t n_clients;
	char *audit_path; /* NULL: none */
};

struct manifest_options {
	const char *const *policies; /* replace the manifest's; NULL: keep them */
	size_t n_policies;
	const char *const *data; /* "DOMAIN=FILE": replace that domain's data file */
	size_t n_data;
	const char *program_dir; /* where programs without a slash are; NULL: as above */
	const char *directory;   /* where relative paths start, with its slash; NULL: at the manifest */
};

/* 0, or -EINVAL, -errno with one line in why; then nothing is left behind. */
int manifest_load(const char *path, const struct manifest_options *options, struct manifest **manifest,
                  char why[static WHY_BYTES]);

/* One that names policies alone (options->policies), for a monitor that starts without a guest. As above. */
int manifest_without_guest(const struct manifest_options *options, struct manifest **manifest,
                           char why[static WHY_BYTES]);

/* NULL is allowed. */
void manifest_free(struct manifest *manifest);

/*
 * Reads a file into a sealed memfd (write, grow, shrink); refuses what is no
 * regular file or pipe, and what is longer than most_bytes. Returns the descriptor.
 */
int file_seal(const char *path, size_t most_bytes, size_t *bytes, char why[static WHY_BYTES]);

#endif
