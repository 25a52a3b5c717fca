/*
 * Reading settings of a manifest, each checked, each error with its line.
 *
 * Internal to manifest*.c. The functions return 0 or -EINVAL (or -errno of a
 * file) with "FILE:LINE: message" in the reader's why.
 */
#ifndef PORTCULLIS_MONITOR_MANIFEST_READ_H
#define PORTCULLIS_MONITOR_MANIFEST_READ_H

#include <libconfig.h>
#include <stdbool.h>
#include <stdint.h>

#include "monitor/manifest.h"

struct manifest_reader {
	const char *path;
	char *directory; /* of the manifest, with its slash; "" for the working directory */
	const struct manifest_options *options;
	bool is_later; /* of several files: another one says what concerns the monitor */
	char *why;     /* WHY_BYTES */
};

/* Writes the line; returns -EINVAL. setting NULL: the file as a whole. */
__attribute__((format(printf, 3, 4))) int read_fail(const struct manifest_reader *reader,
                                                    const config_setting_t *setting, const char *format, ...);

/* Every key of the group is one of these; `where` is "a manifest", "a domain". */
int read_check_keys(const struct manifest_reader *reader, const config_setting_t *group, const char *where,
                    const char *const *keys, size_t n_keys);

/* The text of a setting that must be a non-empty string. */
int read_string(const struct manifest_reader *reader, const config_setting_t *setting, const char **text);

/* A member that is a string; `needed` says what for ("a domain needs ..."); NULL: may be absent, then *text
 * is NULL. */
int read_member(const struct manifest_reader *reader, const config_setting_t *group, const char *key,
                const char *needed, const char **text);

/* A member that is a number between least and most; absent: *number stays. */
int read_number(const struct manifest_reader *reader, const config_setting_t *group, const char *key,
                uint64_t least, uint64_t most, uint64_t *number);

/* A name of guest, domain or service: [a-z0-9_-], short enough. */
int read_name(const struct manifest_reader *reader, const config_setting_t *setting, const char *what,
              const char *text, char name[static MAX_NAME_BYTES]);

/* A context's form; whether the policy knows it is not looked at here. */
int read_context(const struct manifest_reader *reader, const config_setting_t *setting, const char *text,
                 char context[static MAX_CONTEXT_BYTES]);

/* A member that is a list of at most `most`; absent: *list is NULL. */
int read_list(const struct manifest_reader *reader, const config_setting_t *group, const char *key,
              unsigned most, config_setting_t **list);

/* A path as the manifest means it (malloc); NULL when memory is short. */
char *read_path(const struct manifest_reader *reader, const char *path);

/*
 * Opens what the manifest or (MANIFEST_GIVEN) an option names: a sealed memfd and its name for messages
 * (malloc). Or -errno and a line without a place in why.
 */
int read_open(const struct manifest_reader *reader, enum manifest_file what, const char *name,
              size_t most_bytes, size_t *bytes, char **found, char why[static WHY_BYTES]);

/* manifest_guest.c: the guest of the top level, or the list "guests". */
int manifest_read_guests(const struct manifest_reader *reader, const config_setting_t *root,
                         struct manifest *manifest);
void manifest_free_guest(struct manifest_guest *guest);

/* manifest_port.c: the list of ports, which may be missing. */
int manifest_read_ports(const struct manifest_reader *reader, const config_setting_t *root,
                        struct manifest *manifest);
void manifest_free_ports(struct manifest *manifest);

/* The list "clients" of the group: { uid, context }. An array by malloc, also when it fails. */
int manifest_read_clients(const struct manifest_reader *reader, const config_setting_t *group,
                          struct manifest_client **clients, size_t *n_clients);

/* manifest_domain.c: a service that is offered: a name, or { name; context; per_client }. */
int manifest_read_service(const struct manifest_reader *reader, const config_setting_t *entry,
                          struct manifest_service *service);

/* manifest_domain.c: the list of domains. */
int manifest_read_domains(const struct manifest_reader *reader, const config_setting_t *group,
                          struct manifest_guest *guest);
void manifest_free_domain(struct manifest_domain *domain);

/* manifest.c: the first policies of a monitor without a manifest. */
int manifest_read_given_policies(const struct manifest_reader *reader, struct manifest *manifest);

/* manifest.c: all that stands in a file. */
int manifest_read_root(const struct manifest_reader *reader, const config_setting_t *root,
                       struct manifest *manifest);

/* manifest_agree.c: a later file says nothing else than the first of what concerns the monitor, and its
 * guests are others than those before. -EINVAL and why. */
int manifest_agrees(struct manifest *const *manifests, size_t later, char why[static WHY_BYTES]);

/* Whether a "[GUEST/]DOMAIN=FILE" means this domain. */
bool manifest_data_is_for(const char *given, const char *guest, const char *domain);

/* Each given data file means exactly one domain of all these. -EINVAL and why. */
int manifest_check_data(struct manifest *const *manifests, size_t n_manifests,
                        const struct manifest_options *options, char why[static WHY_BYTES]);

#define DEFAULT_DEADLINE_SECONDS 10.0

#endif
