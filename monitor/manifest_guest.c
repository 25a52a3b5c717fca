/*
 * The guests of a manifest: one at its top level, or a list.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/manifest_read.h"

#define HOST_NAME "host"      /* ports are domains of it */
#define OWN_NAME "portcullis" /* log lines of the monitor itself begin so */

static int read_uuid(const struct manifest_reader *reader, const config_setting_t *group,
                     struct manifest_guest *guest)
{
	const char *text;

	if (read_member(reader, group, "uuid", NULL, &text))
		return -EINVAL;
	if (!text)
		return 0;
	guest->has_uuid = true;
	if (uuid_parse(text, guest->uuid))
		return 0;
	return read_fail(reader, config_setting_get_member(group, "uuid"),
	                 "uuid \"%.64s\": expected 8-4-4-4-12 hexadecimal digits", text);
}

static int read_identity(const struct manifest_reader *reader, const config_setting_t *group,
                         struct manifest_guest *guest)
{
	const config_setting_t *setting = config_setting_get_member(group, "name");
	const char *name;
	int error = read_member(reader, group, "name", "the guest needs a name: name = \"web\";", &name);

	if (error == 0)
		error = read_name(reader, setting, "guest", name, guest->name);
	if (error == 0 && strcmp(name, OWN_NAME) == 0)
		error = read_fail(reader, setting, "guest name \"%s\" is the monitor's own", name);
	if (error == 0 && strcmp(name, HOST_NAME) == 0)
		error = read_fail(reader, setting, "guest name \"%s\" is that of the host's ports", name);
	if (error == 0)
		error = read_uuid(reader, group, guest);
	return error;
}

static int read_sizes(const struct manifest_reader *reader, const config_setting_t *group,
                      struct manifest_guest *guest)
{
	uint64_t vcpus = 1, bulk = DEFAULT_BULK_BYTES;
	int error = read_number(reader, group, "vcpus", 1, MAX_VCPUS, &vcpus);

	if (error == 0)
		error = read_number(reader, group, "bulk_bytes", 0, MAX_BULK_BYTES, &bulk);
	if (error == 0 && bulk % ABI_PAGE_BYTES)
		error = read_fail(reader, config_setting_get_member(group, "bulk_bytes"),
		                  "bulk_bytes = %llu is no multiple of %u", (unsigned long long)bulk,
		                  ABI_PAGE_BYTES);
	guest->n_vcpus = (uint32_t)vcpus;
	guest->bulk_bytes = bulk;
	return error;
}

/* Those before it in the file have other names and uuids. */
static int check_other(const struct manifest_reader *reader, const config_setting_t *group,
                       const struct manifest *manifest, const struct manifest_guest *guest)
{
	for (uint32_t i = 0; i < manifest->n_guests; i++) {
		const struct manifest_guest *other = &manifest->guests[i];

		if (strcmp(other->name, guest->name) == 0)
			return read_fail(reader, group, "a second guest \"%s\": the first is in line %u",
			                 guest->name, other->line);
		if (other->has_uuid && guest->has_uuid && memcmp(other->uuid, guest->uuid, UUID_BYTES) == 0)
			return read_fail(reader, config_setting_get_member(group, "uuid"),
			                 "guest \"%s\" has this uuid already", other->name);
	}
	return 0;
}

static int read_guest(const struct manifest_reader *reader, const config_setting_t *group,
                      struct manifest *manifest)
{
	struct manifest_guest *guest = &manifest->guests[manifest->n_guests];
	unsigned line = config_setting_source_line(group);
	int error;

	guest->path = manifest->path;
	guest->line = line ? line : 1;
	error = read_identity(reader, group, guest);
	if (error == 0)
		error = check_other(reader, group, manifest, guest);
	if (error == 0)
		error = read_sizes(reader, group, guest);
	if (error == 0)
		error = manifest_read_domains(reader, group, guest);
	if (error < 0)
		manifest_free_guest(guest); /* not counted yet */
	else
		manifest->n_guests++;
	return error;
}

static int read_entry(const struct manifest_reader *reader, const config_setting_t *entry,
                      struct manifest *manifest)
{
	static const char *const keys[] = {"name", "uuid", "vcpus", "bulk_bytes", "domains"};
	int error;

	if (!config_setting_is_group(entry))
		return read_fail(reader, entry, "guests: expected { name = \"...\"; domains = ( ... ); }");
	error = read_check_keys(reader, entry, "a guest", keys, sizeof(keys) / sizeof(keys[0]));
	return error < 0 ? error : read_guest(reader, entry, manifest);
}

int manifest_read_guests(const struct manifest_reader *reader, const config_setting_t *root,
                         struct manifest *manifest)
{
	config_setting_t *list;
	int error = read_list(reader, root, "guests", MAX_GUESTS, &list);
	int n = error == 0 && list ? config_setting_length(list) : 1;

	if (error < 0)
		return error;
	if (n == 0)
		return read_fail(reader, list, "guests: expected one at least");
	manifest->guests = calloc((size_t)n, sizeof(*manifest->guests));
	if (!manifest->guests)
		return read_fail(reader, list, "out of memory");
	if (!list)
		return read_guest(reader, root, manifest);
	for (int i = 0; error == 0 && i < n; i++)
		error = read_entry(reader, config_setting_get_elem(list, (unsigned)i), manifest);
	return error;
}

void manifest_free_guest(struct manifest_guest *guest)
{
	for (uint32_t i = 0; i < guest->n_domains; i++)
		manifest_free_domain(&guest->domains[i]);
	free(guest->domains);
	*guest = (struct manifest_guest){.n_domains = 0};
}
