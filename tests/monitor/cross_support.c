#include "tests/monitor/cross_support.h"

#include <stdio.h>
#include <string.h>

#include "vmm/machine_state.h"

static const struct cross_domain usual[] = {
	{"test", "one", 0, "one_t:s0", NULL, NULL},     {"test", "two", 1, "two_t:s0", "svc", NULL},
	{"test", "three", 0, "three_t:s0", NULL, NULL}, {"test", "four", 1, "four_t:s0", "aux", NULL},
	{"other", "five", 0, "three_t:s0", NULL, NULL}, {"other", "six", 0, "four_t:s0", "sub", NULL},
};

static bool begins_guest(const struct cross_domain *domains, size_t i)
{
	return i == 0 || strcmp(domains[i].guest, domains[i - 1].guest) != 0;
}

static unsigned n_vcpus(const struct cross_domain *domains, size_t i, size_t n)
{
	unsigned most = domains[i].vcpu;

	for (i++; i < n && !begins_guest(domains, i); i++)
		most = domains[i].vcpu > most ? domains[i].vcpu : most;
	return most + 1;
}

const char *cross_manifest(const struct cross_domain *domains, size_t n)
{
	static char text[64 << 10];
	FILE *to = fmemopen(text, sizeof(text), "w");

	cr_assert_not_null(to);
	fprintf(to, "guests = (");
	for (size_t i = 0; i < n; i++) {
		const struct cross_domain *domain = &domains[i];

		if (begins_guest(domains, i))
			fprintf(to, "%s{ name = \"%s\"; vcpus = %u; %s domains = (", i ? ") }, " : "",
			        domain->guest, n_vcpus(domains, i, n), domain->more ? domain->more : "");
		fprintf(to,
		        "%s{ name = \"%s\"; program = \"" TEST_DOMAINS "t_actor.elf\"; vcpu = %u; "
		        "context = \"system_u:system_r:%s\";",
		        begins_guest(domains, i) ? "" : ", ", domain->name, domain->vcpu, domain->context);
		if (domain->offers)
			fprintf(to, " offers = ( \"%s\" );", domain->offers);
		fprintf(to, " }");
	}
	fprintf(to, ") } );\n");
	cr_assert_eq(fclose(to), 0);
	return text;
}

void cross_open(struct world *world)
{
	world_open(world, &(struct world_options){.manifest = CROSS_MANIFEST(usual)});
}

struct guest *cross_guest(struct world *world, const char *name)
{
	const struct registry *registry = world->monitor->registry;

	for (uint32_t g = 0; g < registry->n_guests; g++)
		if (strcmp(registry->guests[g]->name, name) == 0)
			return registry->guests[g];
	cr_assert_fail("no guest \"%s\"", name);
	return NULL;
}

uint64_t cross_word(const struct endpoint *end)
{
	return __atomic_load_n(&machine_record(end->domain->guest->machine, end->slot)->word,
	                       __ATOMIC_SEQ_CST);
}

uint64_t cross_events(struct world *world, const char *name)
{
	const struct domain *domain = world_domain(world, name);
	const struct machine *machine = domain->guest->machine;
	const struct call_page *page =
		(const struct call_page *)(machine->ram + machine->layout.domain[domain->index].call.gpa);

	return __atomic_load_n(&page->events, __ATOMIC_SEQ_CST);
}

static bool is_over(struct world *world, void *opaque)
{
	const struct guest *guest = opaque;
	struct registry *registry = registry_lock(world->monitor);
	bool over = guest->ended;

	registry_unlock(registry);
	return over;
}

void cross_until_over(struct world *world, struct guest *guest)
{
	world_until(world, is_over, guest, "the guest is over");
}

static bool is_settled(struct world *world, void *opaque)
{
	struct registry *registry = registry_lock(world->monitor);
	bool settled = !registry->idle_bells;

	(void)opaque;
	registry_unlock(registry);
	return settled;
}

void cross_until_settled(struct world *world)
{
	world_until(world, is_settled, NULL, "doorbells are unbound");
}
