/*
 * The manifest: what an operator wants run (libconfig syntax; docs/manifest.md).
 *
 * One file holds what concerns the monitor (policy, clients, stop, deadline, audit) and
 * one guest or several. Read before the sandbox closes: every file that it names is opened
 * here, through an opener, and nothing later is opened by path. Each error is one line
 * "FILE:LINE: message". An unknown key is an error. One thread.
 */
#ifndef PORTCULLIS_MONITOR_MANIFEST_H
#define PORTCULLIS_MONITOR_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/abi/limits.h"
#include "monitor/uuid.h"

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
	uint32_t per_client;             /* channels that one client may have here; 0: no limit */
};

enum port_kind {
	PORT_LISTEN,
	PORT_CONNECT,
	PORT_STDIO,
	PORT_FILE,
};

/* Who may use the control socket, and as what. */
struct manifest_client {
	uid_t uid;
	unsigned line;
	char context[MAX_CONTEXT_BYTES];
};

/* A labelled endpoint of the host (docs/ports.md). */
struct manifest_port {
	const char *manifest; /* path, for messages */
	unsigned line;
	char name[MAX_NAME_BYTES];
	char context[MAX_CONTEXT_BYTES];
	enum port_kind kind;
	bool reads, writes;              /* STDIO: standard input, output; FILE: read, or append */
	bool seqpacket;                  /* LISTEN, CONNECT; else a stream */
	char to[MAX_PATH_BYTES];         /* the service that the port connects to; "": it offers one ... */
	struct manifest_service offers;  /* ... this */
	char *path;                      /* of the socket or the file; NULL: STDIO */
	unsigned mode;                   /* LISTEN: of the socket's file */
	uint32_t connections;            /* at one time */
	uint32_t per_client;             /* LISTEN: of them for one uid */
	struct manifest_client *clients; /* LISTEN: contexts of uids; others have the port's */
	size_t n_clients;
};

struct manifest_domain {
	char name[MAX_NAME_BYTES];
	char context[MAX_CONTEXT_BYTES];
	char *program; /* path as found, for messages */
	void *image;   /* mapped */
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

/* One guest of the file. */
struct manifest_guest {
	const char *path; /* the manifest's, for messages */
	unsigned line;
	char name[MAX_NAME_BYTES];
	bool has_uuid;
	uint8_t uuid[UUID_BYTES];
	uint32_t n_vcpus;
	uint64_t bulk_bytes;
	struct manifest_domain *domains;
	uint32_t n_domains;
};

/* A policy source: a sealed memfd and the name that the user gave it. */
struct manifest_policy {
	char *name;
	int fd;
	size_t bytes;
};

struct manifest {
	uint32_t references; /* manifest_hold, manifest_free */
	char *path;

	/* What concerns the monitor. */
	struct manifest_policy *policies;
	size_t n_policies;
	struct manifest_client *clients;
	size_t n_clients;
	char *audit_path; /* NULL: none */
	enum stop_mode stop;
	double deadline_seconds;           /* of the stop; 10 by default */
	unsigned stop_line, deadline_line; /* 0: not said, the default holds */

	/* What runs. */
	struct manifest_guest *guests;
	uint32_t n_guests;
	struct manifest_port *ports;
	uint32_t n_ports;
};

/* What a file that a manifest names is for; it says where a name without a place leads. */
enum manifest_file {
	MANIFEST_POLICY,
	MANIFEST_PROGRAM, /* without a slash: beside the executable, or in the installed library folder */
	MANIFEST_DATA,
	MANIFEST_GIVEN, /* policy or data named by options, not by the manifest */
};

/* Opens it: a sealed memfd of at most most_bytes, which is the caller's; -errno and a line. */
typedef int manifest_open_fn(void *opaque, enum manifest_file what, const char *name, size_t most_bytes,
                             size_t *bytes, char why[static WHY_BYTES]);

/* Hears what was opened by path, under the name that the manifest or an option has for it; fd is not taken.
 */
typedef void manifest_opened_fn(void *opaque, enum manifest_file what, const char *name, int fd);

struct manifest_options {
	const char *const *policies; /* replace the manifest's; NULL: keep them */
	size_t n_policies;
	const char *const *data; /* "DOMAIN=FILE", "GUEST/DOMAIN=FILE": replace that domain's data file */
	size_t n_data;
	const char *program_dir;    /* where programs without a slash are; NULL: as above */
	const char *directory;      /* where relative paths start, with its slash; NULL: at the manifest */
	bool guests_only;           /* what concerns the monitor is not looked at: it runs already */
	manifest_open_fn *open;     /* gets each name as it stands there; NULL: paths are opened as above */
	manifest_opened_fn *opened; /* NULL: nobody hears */
	void *open_opaque;          /* of both */
};

/* 0, or -EINVAL, -errno with one line in why; then nothing is left behind. */
int manifest_load(const char *path, const struct manifest_options *options, struct manifest **manifest,
                  char why[static WHY_BYTES]);

/* The same from memory; path is for messages, and relative paths start at it. */
int manifest_parse(const char *path, const char *text, size_t bytes, const struct manifest_options *options,
                   struct manifest **manifest, char why[static WHY_BYTES]);

/*
 * Several files for one monitor. What concerns the monitor is the first one's: a later one that says
 * something else of it is an error, and so is a guest's name (or uuid) that occurs twice. On failure none is
 * left.
 */
int manifest_load_all(const char *const *paths, size_t n_paths, const struct manifest_options *options,
                      struct manifest **manifests, char why[static WHY_BYTES]);

/* One that names policies alone (options->policies), for a monitor that starts without a guest. As above. */
int manifest_without_guest(const struct manifest_options *options, struct manifest **manifest,
                           char why[static WHY_BYTES]);

/* Another owner: it goes with the last manifest_free. Returns it. */
struct manifest *manifest_hold(struct manifest *manifest);

/* NULL is allowed. */
void manifest_free(struct manifest *manifest);

/*
 * Reads a file into a sealed memfd (write, grow, shrink); refuses what is no
 * regular file or pipe, and what is longer than most_bytes. Returns the descriptor.
 */
int file_seal(const char *path, size_t most_bytes, size_t *bytes, char why[static WHY_BYTES]);

/* The same of an open descriptor, which is not consumed; path is for messages. */
int file_seal_from(int from, const char *path, size_t most_bytes, size_t *bytes, char why[static WHY_BYTES]);

#endif
