#include "tests/monitor/world_annex.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "monitor/guest.h"
#include "tests/monitor/world_faults.h"

static const char text[] = "name = \"other\"; vcpus = 1;\n"
			   "domains = (\n"
			   "{ name = \"five\"; program = \"" TEST_DOMAINS "t_actor.elf\"; "
			   "context = \"system_u:system_r:three_t:s0\"; },\n"
			   "{ name = \"six\"; program = \"" TEST_DOMAINS "t_actor.elf\"; "
			   "context = \"system_u:system_r:four_t:s0\"; offers = ( \"sub\" ); } );\n";

static struct manifest *load(const char *manifest_text)
{
	const struct manifest_options options = {.policies = POLICY_OPEN, .n_policies = 3, .directory = "./"};
	struct manifest *manifest;
	char why[WHY_BYTES];

	cr_assert_eq(manifest_parse("annex", manifest_text, strlen(manifest_text), &options, &manifest, why),
	             0, "%s", why);
	return manifest;
}

static bool is_up(struct world *world, void *opaque)
{
	const struct guest *guest = opaque;

	for (uint32_t d = 0; d < guest->n_domains; d++)
		if (MAILBOX_LOAD(world_mailbox(world, guest->domains[d].name)->ready) != MAILBOX_READY)
			return false;
	return true;
}

struct guest *annex_open_as(struct world *world, const char *manifest_text, const char *kernel)
{
	struct manifest *manifest = load(manifest_text); /* lives as long as the monitor */
	struct guest *guest;
	char why[WHY_BYTES];

	fault_kernel(kernel);
	cr_assert_eq(guest_create(world->monitor, &manifest->guests[0], &guest, why), 0, "%s", why);
	fault_kernel(NULL);
	cr_assert_eq(machine_start(guest->machine, why), 0, "%s", why);
	if (!kernel)
		world_until(world, is_up, guest, "the other guest is up");
	return guest;
}

struct guest *annex_open(struct world *world, const char *kernel)
{
	return annex_open_as(world, text, kernel);
}

struct channel *annex_channel(struct world *world, const char *client, const char *server)
{
	const struct verdict all = {.open = {true, true}, .flowctl = {true, true}};
	struct domain *from = world_domain(world, client), *to = world_domain(world, server);
	struct registry *registry = registry_lock(world->monitor);
	struct channel *channel = NULL;

	cr_assert_gt(to->n_services, 0);
	cr_assert_eq(channel_create(registry, from, &to->services[0], NULL, &all,
	                            world->monitor->posture->policy_number, &channel),
	             CALL_OK);
	cr_assert_eq(channel_accept(registry, to), channel);
	registry_unlock(registry);
	return channel;
}

bool annex_can_read(const void *address)
{
	uint64_t word;
	struct iovec to = {&word, sizeof(word)}, from = {(void *)address, sizeof(word)};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)sizeof(word);
}
