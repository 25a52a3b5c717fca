#include "monitor/commit.h"

#include "guest/abi/record.h"
#include "monitor/channel_memory.h"
#include "monitor/guest.h"
#include "monitor/port.h"
#include "vmm/check.h"

static void raise_number(struct registry *registry, struct monitor *monitor, struct commit *commit)
{
	struct posture *posture = monitor->posture;

	avc_raise(posture->avc, commit->policy_number);
	posture->policy_number = commit->policy_number;
	if (commit->candidate) {
		commit->old = posture_switch(monitor, commit->candidate);
		posture->switched_at = commit->policy_number;
		posture->n_judged = (policy_sid)commit->n_known;
	}
	posture->enforcing = commit->proposal->enforcing;
	overlay_copy(&posture->overlay, &commit->proposal->overlay);
	proposal_enact(registry, commit->proposal);
	posture->operator_sid = commit->operator_sid;
	for (size_t i = 0; i < commit->n_known; i++)
		sid_set_known(posture->sids, (policy_sid)i + 1, commit->known[i]);
	members_clear(posture->members);
	decisions_cache(commit->decisions, posture->avc, posture->members);
	for (uint32_t g = 0; g < registry->n_guests; g++) {
		struct guest *guest = registry->guests[g];

		for (uint32_t d = 0; d < guest->n_domains; d++)
			__atomic_store_n(&machine_domain_page(guest->machine, d)->policy_number,
			                 commit->policy_number, __ATOMIC_RELEASE);
	}
}

static void mark(struct registry *registry, struct plan *plan)
{
	for (size_t i = 0; i < plan->n_cuts; i++) {
		struct plan_flow *cut = &plan->cuts[i];

		cut->done = !cut->channel->dead && flow_live(&cut->channel->flow[cut->side]);
		if (!cut->done)
			continue;
		cut->channel->flow[cut->side].state = FLOW_CUT;
		registry->counters.cuts++;
	}
}

/* Records and headers of thousands of channels are in no cache: the next ones are fetched meanwhile. */
#define CUTS_AHEAD 16u

static void fetch_ahead(const struct plan *plan, size_t i, void (*fetch)(const struct channel *channel))
{
	if (i + CUTS_AHEAD < plan->n_cuts)
		fetch(plan->cuts[i + CUTS_AHEAD].channel);
}

static void patch(struct registry *registry, struct plan *plan)
{
	const struct channel *last = NULL;

	/* The flows of a channel stand beside each other, and all states are set: once says all. */
	for (size_t i = 0; i < plan->n_cuts; i++) {
		struct channel *channel = plan->cuts[i].channel;

		fetch_ahead(plan, i, channel_fetch_records);
		if (plan->cuts[i].done && channel != last)
			channel_publish_cut(registry, channel);
		last = plan->cuts[i].done ? channel : last;
	}
}

/*
 * Zero pages over a short gap of tombstones cost less than one more mapping. Over a long one they take page
 * tables away too, and those are freed only when every core has been interrupted.
 */
#define MAX_GAP_SLOTS 8u

/* Neighbouring slots that become tombstones together. */
struct run {
	struct guest *guest;
	uint32_t first, n;
	uint32_t n_mappings; /* of the host, at most, that stand there now */
	const struct guest *peer;
	uint32_t next_slot, next_peer; /* an end there would be in the same mapping as the last one */
};

static void sever_run(struct registry *registry, struct run *run)
{
	if (run->n && window_sever_run(run->guest->machine, run->first, run->n, run->n_mappings) < 0)
		guest_lose(registry, run->guest,
		           "the host refused to take a mapping away (vm.max_map_count)");
	run->n = 0;
}

/* Zero pages over tombstones change nothing. */
static bool is_next(const struct run *run, const struct endpoint *end)
{
	uint32_t next = run->first + run->n;

	if (run->guest != end->domain->guest || end->slot < next || end->slot - next > MAX_GAP_SLOTS)
		return false;
	for (uint32_t slot = next; slot < end->slot; slot++)
		if (run->guest->shown[slot] != WINDOW_NONE)
			return false;
	return true;
}

static void run_add(struct run *run, const struct endpoint *end, const struct endpoint *peer,
                    enum window_part shown)
{
	bool is_neighbour = run->n && run->next_slot == end->slot;
	bool merges = is_neighbour && run->peer == peer->domain->guest && run->next_peer == peer->slot;

	if (!run->n)
		*run = (struct run){.guest = end->domain->guest, .first = end->slot};
	else
		run->n_mappings += !is_neighbour;
	run->n_mappings += !merges + (shown == WINDOW_HEADER);
	run->n = end->slot + 1 - run->first;
	run->peer = shown == WINDOW_ALL ? peer->domain->guest : NULL;
	run->next_slot = end->slot + 1;
	run->next_peer = peer->slot + 1;
}

static void sever_end(struct registry *registry, struct run *run, struct channel *channel,
                      enum channel_side side)
{
	struct endpoint *end = &channel->end[side], *peer = &channel->end[1 - side];
	enum window_part part = channel_part(channel, side), shown = end->part;

	if (channel->dead || shown == part || end->domain->guest->lost)
		return;
	channel_shows(end, part);
	if (part != WINDOW_NONE) {
		if (window_set(end->domain->guest->machine, end->slot, peer->domain->guest->machine,
		               peer->slot, part) < 0)
			guest_lose(registry, end->domain->guest, "the host refused to take a mapping away");
		return;
	}
	if (run->n && !is_next(run, end))
		sever_run(registry, run);
	run_add(run, end, peer, shown);
}

static void sever(struct registry *registry, struct plan *plan)
{
	struct run run = {0};

	for (size_t i = 0; i < plan->n_ends; i++)
		sever_end(registry, &run, plan->ends[i].channel, plan->ends[i].side);
	sever_run(registry, &run);
}

static void inspect(struct monitor *monitor, struct plan *plan)
{
	for (size_t i = 0; i < plan->n_cuts; i++) {
		struct plan_flow *cut = &plan->cuts[i];

		fetch_ahead(plan, i, channel_fetch_headers);
		if (!cut->done)
			continue;
		cut->loss = channel_inspect(cut->channel, cut->side);
		ports_inspect(monitor, cut->channel, cut->side, &cut->loss);
	}
}

static void sweep(struct registry *registry, const struct plan *plan)
{
	for (size_t i = 0; i < plan->n_cuts; i++)
		if (plan->cuts[i].done && plan->cuts[i].channel->cut_waiting)
			channel_sweep(registry, plan->cuts[i].channel);
}

/* First every count, then one interrupt for each vCPU: a domain that is looked at has its count already. */
static void wake(struct plan *plan)
{
	for (size_t i = 0; i < plan->n_wakes; i++) {
		struct domain *domain = plan->wakes[i];
		struct domain_page *page;

		if (domain->guest->gone)
			continue;
		page = machine_domain_page(domain->guest->machine, domain->index);
		__atomic_fetch_add(&page->host_events, 1, __ATOMIC_SEQ_CST);
	}
	for (size_t i = 0; i < plan->n_wakes; i++) {
		struct domain *domain = plan->wakes[i];
		bool told = false;

		for (size_t j = 0; j < i && !told; j++)
			told = plan->wakes[j]->guest == domain->guest && plan->wakes[j]->vcpu == domain->vcpu;
		if (!told && !domain->guest->gone)
			machine_wake(domain->guest->machine, domain->vcpu);
	}
}

static void verify(struct registry *registry, const struct commit *commit)
{
	struct judging judging = judging_begin(registry, commit->proposal, commit->decisions);

	for (struct channel *channel = registry->first; channel; channel = channel_next(channel)) {
		struct judgement own;
		const struct judgement *judgement = proposal_judge(&judging, channel, &own);

		CHECK(judgement);
		for (unsigned side = 0; side < N_SIDES; side++) {
			const struct flow *flow = &channel->flow[side];

			CHECK(!flow_live(flow) ||
			      (judgement->open[side] && (!flow->flowctl || judgement->flowctl[side])));
			CHECK(channel->end[side].part <= channel_part(channel, (enum channel_side)side) ||
			      channel->end[side].domain->guest->lost);
		}
	}
}

static void take_away(struct registry *registry, struct monitor *monitor, struct commit *commit)
{
#ifdef CONTROL_SKIP_CUT /* a control build of the tests: they must notice that nothing was taken away */
	(void)registry, (void)monitor, (void)commit, (void)patch, (void)sever, (void)inspect, (void)verify;
#else
	patch(registry, commit->plan);
	sever(registry, commit->plan);
	inspect(monitor, commit->plan);
	verify(registry, commit);
#endif
}

void commit_apply(struct registry *registry, struct monitor *monitor, struct commit *commit)
{
	CHECK(registry->held && registry->gate_closed);
	raise_number(registry, monitor, commit);
	mark(registry, commit->plan);
	take_away(registry, monitor, commit);
	wake(commit->plan);
	sweep(registry, commit->plan);
}
