#include "monitor/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/posture.h"
#include "monitor/registry.h"

struct peers {
	const struct manifest *manifest;
	policy_sid sids[]; /* of manifest->clients */
};

static int map_clients(struct monitor *monitor, struct peers *peers, char why[static WHY_BYTES])
{
	const struct manifest *manifest = peers->manifest;
	struct registry *registry = registry_lock(monitor);
	int error = 0;

	for (size_t i = 0; error == 0 && i < manifest->n_clients; i++) {
		const struct manifest_client *client = &manifest->clients[i];

		error = sid_intern(monitor->posture->sids, client->context, &peers->sids[i]);
		if (error == 0 && !sid_known(monitor->posture->sids, peers->sids[i]))
			error = -EINVAL;
		if (error < 0)
			snprintf(why, WHY_BYTES, "%s:%u: the policy does not know the context %s of uid %u",
			         manifest->path, client->line, client->context, (unsigned)client->uid);
	}
	registry_unlock(registry);
	return error;
}

int peers_create(struct monitor *monitor, struct peers **peers, char why[static WHY_BYTES])
{
	const struct manifest *manifest = monitor->manifest;
	struct peers *made = calloc(1, sizeof(*made) + manifest->n_clients * sizeof(made->sids[0]));
	int error;

	if (!made) {
		snprintf(why, WHY_BYTES, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	made->manifest = manifest;
	error = map_clients(monitor, made, why);
	if (error < 0)
		free(made);
	else
		*peers = made;
	return error;
}

void peers_destroy(struct peers *peers)
{
	free(peers);
}

bool peers_identify(const struct peers *peers, uid_t uid, policy_sid *sid)
{
	const struct manifest *manifest = peers->manifest;

	*sid = SID_NONE;
	for (size_t i = 0; i < manifest->n_clients; i++) {
		if (manifest->clients[i].uid == uid) {
			*sid = peers->sids[i];
			return true;
		}
	}
	return uid == 0 || uid == getuid();
}

bool peers_any(const struct peers *peers)
{
	return peers->manifest->n_clients > 0;
}

void peers_refuse(uid_t uid, char why[static WHY_BYTES])
{
	snprintf(why, WHY_BYTES,
	         "access denied: uid %u has no context here; the manifest gives it one: clients = ( { uid = "
	         "%u; "
	         "context = \"...\"; } );",
	         (unsigned)uid, (unsigned)uid);
}
