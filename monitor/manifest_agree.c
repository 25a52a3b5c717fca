/*
 * What several manifests of one monitor are held against: the first of them, and each other.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "monitor/manifest_read.h"
#include "monitor/suggest.h"

static int fail(char why[static WHY_BYTES], const struct manifest *later, unsigned line, const char *what,
                const struct manifest *first)
{
	char at[16] = "";

	if (line)
		snprintf(at, sizeof(at), ":%u", line);
	snprintf(why, WHY_BYTES, "%.150s%s: another %s than in %.150s: that of the first file holds for all",
	         later->path, at, what, first->path);
	return -EINVAL;
}

static bool is_same_policy(const struct manifest_policy *a, const struct manifest_policy *b)
{
	void *left, *right;
	bool same;

	if (a->bytes != b->bytes || a->bytes == 0)
		return a->bytes == b->bytes;
	left = mmap(NULL, a->bytes, PROT_READ, MAP_PRIVATE, a->fd, 0);
	right = mmap(NULL, b->bytes, PROT_READ, MAP_PRIVATE, b->fd, 0);
	same = left != MAP_FAILED && right != MAP_FAILED && memcmp(left, right, a->bytes) == 0;
	if (left != MAP_FAILED)
		munmap(left, a->bytes);
	if (right != MAP_FAILED)
		munmap(right, b->bytes);
	return same;
}

/* The same sources, whatever their paths. */
static bool are_same_policies(const struct manifest *first, const struct manifest *later)
{
	bool same = first->n_policies == later->n_policies;

	for (size_t i = 0; same && i < later->n_policies; i++)
		same = is_same_policy(&first->policies[i], &later->policies[i]);
	return same;
}

static bool has_client(const struct manifest *manifest, const struct manifest_client *client)
{
	for (size_t i = 0; i < manifest->n_clients; i++)
		if (manifest->clients[i].uid == client->uid &&
		    strcmp(manifest->clients[i].context, client->context) == 0)
			return true;
	return false;
}

static unsigned other_client(const struct manifest *first, const struct manifest *later)
{
	for (size_t i = 0; i < later->n_clients; i++)
		if (!has_client(first, &later->clients[i]))
			return later->clients[i].line;
	return later->n_clients && later->n_clients != first->n_clients ? later->clients[0].line : 0;
}

static int check_monitor(const struct manifest *first, const struct manifest *later,
                         char why[static WHY_BYTES])
{
	unsigned client = other_client(first, later);

	if (later->n_policies && !are_same_policies(first, later))
		return fail(why, later, 0, "policy", first);
	if (client)
		return fail(why, later, client, "list of clients", first);
	if (later->audit_path && (!first->audit_path || strcmp(first->audit_path, later->audit_path) != 0))
		return fail(why, later, 0, "audit file", first);
	if (later->stop_line && later->stop != first->stop)
		return fail(why, later, later->stop_line, "stop mode", first);
	if (later->deadline_line && (later->deadline_seconds < first->deadline_seconds ||
	                             later->deadline_seconds > first->deadline_seconds))
		return fail(why, later, later->deadline_line, "deadline", first);
	return 0;
}

static int check_guest(const struct manifest_guest *one, const struct manifest_guest *other,
                       char why[static WHY_BYTES])
{
	bool same_name = strcmp(one->name, other->name) == 0;
	bool same_uuid = one->has_uuid && other->has_uuid && memcmp(one->uuid, other->uuid, UUID_BYTES) == 0;

	if (!same_name && !same_uuid)
		return 0;
	snprintf(why, WHY_BYTES, "%.160s:%u: a second guest %s \"%s\": the first is in %.160s:%u",
	         other->path, other->line, same_name ? "named" : "with the uuid of", one->name, one->path,
	         one->line);
	return -EINVAL;
}

int manifest_agrees(struct manifest *const *manifests, size_t later, char why[static WHY_BYTES])
{
	const struct manifest *manifest = manifests[later];
	uint32_t n = manifest->n_guests;
	int error = check_monitor(manifests[0], manifest, why);

	for (size_t m = 0; m < later && error == 0; m++) {
		n += manifests[m]->n_guests;
		for (uint32_t g = 0; g < manifests[m]->n_guests; g++)
			for (uint32_t i = 0; i < manifest->n_guests && error == 0; i++)
				error = check_guest(&manifests[m]->guests[g], &manifest->guests[i], why);
	}
	if (error == 0 && n > MAX_GUESTS) {
		snprintf(why, WHY_BYTES, "%s: %u guests with those before; at most %u are possible",
		         manifest->path, n, MAX_GUESTS);
		error = -EINVAL;
	}
	return error;
}

/* ---- data files that were given ---- */

bool manifest_data_is_for(const char *given, const char *guest, const char *domain)
{
	size_t length = strcspn(given, "="), of_guest = strlen(guest), of_domain = strlen(domain);

	if (length == of_domain)
		return strncmp(given, domain, length) == 0;
	return length == of_guest + 1 + of_domain && strncmp(given, guest, of_guest) == 0 &&
	       given[of_guest] == '/' && strncmp(given + of_guest + 1, domain, of_domain) == 0;
}

/* How many domains the given one means; names gets those that there are, as far as they fit. */
static unsigned count_meant(struct manifest *const *manifests, size_t n_manifests, const char *given,
                            const char *names[static MAX_DOMAINS], size_t *n_names)
{
	unsigned n = 0;

	*n_names = 0;
	for (size_t m = 0; m < n_manifests; m++)
		for (uint32_t g = 0; g < manifests[m]->n_guests; g++) {
			const struct manifest_guest *guest = &manifests[m]->guests[g];

			for (uint32_t d = 0; d < guest->n_domains; d++) {
				n += manifest_data_is_for(given, guest->name, guest->domains[d].name);
				if (*n_names < MAX_DOMAINS)
					names[(*n_names)++] = guest->domains[d].name;
			}
		}
	return n;
}

int manifest_check_data(struct manifest *const *manifests, size_t n_manifests,
                        const struct manifest_options *options, char why[static WHY_BYTES])
{
	for (size_t i = 0; i < options->n_data; i++) {
		const char *names[MAX_DOMAINS];
		char suggestion[SUGGESTION_BYTES], name[2 * MAX_NAME_BYTES];
		size_t n_names;
		unsigned n = count_meant(manifests, n_manifests, options->data[i], names, &n_names);

		if (n == 1)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(options->data[i], "="), options->data[i]);
		if (n)
			snprintf(why, WHY_BYTES,
			         "%s: data for domain \"%s\": %u guests have one; say GUEST/%s=FILE",
			         manifests[0]->path, name, n, name);
		else
			snprintf(why, WHY_BYTES,
			         "%s: data for domain \"%s\", which the manifest does not have%s",
			         manifests[0]->path, name, suggest_phrase(name, names, n_names, suggestion));
		return -EINVAL;
	}
	return 0;
}
