#include "monitor/guest.h"

#include <stdio.h>

#include "monitor/audit.h"
#include "monitor/channel.h"
#include "vmm/check.h"
#include "vmm/stop.h"

/* ---- ends ---- */

/* Of a killed guest, which may still run, also those that its domains had closed, and a peer still reads. */
static void end_channels(struct registry *registry, struct domain *domain, enum end_fate fate)
{
	bool all = machine_state(domain->guest->machine) == MACHINE_KILLED;

	for (uint32_t i = 0; i < domain->n_slots; i++) {
		struct channel *channel = domain->slots[i].channel;
		enum channel_side side = (enum channel_side)domain->slots[i].side;

		if (channel &&
		    (all || channel->end[side].fate == END_HELD || channel->end[side].fate == END_NEW))
			channel_end(registry, channel, side, fate);
	}
}

void domain_end(struct registry *registry, struct domain *domain, bool failed, int exit_status)
{
	if (domain->life != LIFE_RUNNING)
		return;
	domain->life = failed ? LIFE_FAILED : LIFE_EXITED;
	domain->exit_status = exit_status;
	domain->pending.active = false;
	end_channels(registry, domain, failed ? END_DIED : END_CLOSED);
}

void guest_lose(struct registry *registry, struct guest *guest, const char *why)
{
	CHECK(registry->held);
	if (guest->lost)
		return;
	guest->lost = true;
	snprintf(guest->crash, sizeof(guest->crash), "%s", why);
	machine_kill(guest->machine);
	audit_notice(guest->monitor->audit, "PORTCULLIS_KILL", "guest=\"%s\" %s", guest->name, why);
	registry_kick(registry);
}

void guest_reap(struct registry *registry, struct guest *guest)
{
	CHECK(registry->held && guest->lost);
	for (uint32_t d = 0; d < guest->n_domains; d++) {
		struct domain *domain = &guest->domains[d];

		if (domain->life == LIFE_RUNNING)
			domain_end(registry, domain, true, 0);
		else
			end_channels(registry, domain, END_DIED);
	}
}

bool guest_is_over(struct registry *registry, const struct guest *guest)
{
	CHECK(registry->held);
	if (guest->lost)
		return true;
	for (uint32_t d = 0; d < guest->n_domains; d++)
		if (guest->domains[d].life == LIFE_RUNNING)
			return false;
	return true;
}

int guest_exit_status(struct registry *registry, const struct guest *guest)
{
	CHECK(registry->held);
	if (guest->lost)
		return 1;
	for (uint32_t d = 0; d < guest->n_domains; d++)
		if (guest->domains[d].life == LIFE_FAILED || guest->domains[d].exit_status != 0)
			return 1;
	return 0;
}

const char *guest_state_name(const struct guest *guest)
{
	enum machine_state state = machine_state(guest->machine);

	if (state == MACHINE_CRASHED)
		return "crashed";
	if (state == MACHINE_KILLED || guest->lost)
		return "killed";
	if (state == MACHINE_ENDED)
		return "stopped";
	return machine_stop_count(guest->machine) > 0 ? "suspended" : "running";
}

const char *domain_state_name(const struct domain *domain)
{
	if (domain->life != LIFE_RUNNING)
		return domain->life == LIFE_EXITED ? "exited" : "failed";
	if (domain->quarantined)
		return "quarantined";
	if (machine_domain_state(domain->guest->machine, domain->index) == DOMAIN_BLOCKED)
		return "blocked";
	return "running";
}
