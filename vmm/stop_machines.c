/* Stops of machines: of their groups (stop_word.h). */
#include "vmm/check.h"
#include "vmm/machine_state.h"
#include "vmm/stop.h"

static void groups_of(struct machine *const *machines, size_t n, struct stop_group **groups)
{
	CHECK(n <= MAX_GUESTS);
	for (size_t i = 0; i < n; i++)
		groups[i] = &machines[i]->group;
}

int stop_machines(struct machine *const *machines, size_t n_machines, uint64_t deadline_ns,
                  struct stop_report *report, bool *late, char why[static WHY_BYTES])
{
	struct stop_group *groups[MAX_GUESTS];

	groups_of(machines, n_machines, groups);
	return stop_groups(groups, n_machines, deadline_ns, report, late, why);
}

int resume_machines(struct machine *const *machines, size_t n_machines, uint64_t deadline_ns,
                    char why[static WHY_BYTES])
{
	struct stop_group *groups[MAX_GUESTS];

	groups_of(machines, n_machines, groups);
	return resume_groups(groups, n_machines, deadline_ns, why);
}

uint32_t machine_stop_count(const struct machine *machine)
{
	struct stop_group *group = (struct stop_group *)&machine->group;

	pthread_mutex_lock(&group->lock);
	uint32_t count = group->count;
	pthread_mutex_unlock(&group->lock);
	return count;
}

bool machine_stands(const struct machine *machine)
{
	struct stop_group *group = (struct stop_group *)&machine->group;
	bool stands;

	pthread_mutex_lock(&group->lock);
	stands = group->count > 0 && group->n_vcpus > 0;
	for (uint32_t i = 0; i < group->n_vcpus && stands; i++)
		stands = stop_arrived(stop_state_of(group->vcpu[i]));
	pthread_mutex_unlock(&group->lock);
	return stands;
}

uint64_t machine_stop_requests(const struct machine *machine)
{
	return __atomic_load_n(&machine->group.requests, __ATOMIC_RELAXED);
}
