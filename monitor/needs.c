#include "monitor/needs.h"

#include "policy/class.h"

#define BOTH 3u

size_t needs_list(const struct subjects *s, struct need needs[static MAX_NEEDS])
{
	size_t n = 0;

	needs[n++] = (struct need){s->client, s->service, CHANNEL_CONNECT, BOTH, 0, false};
	needs[n++] = (struct need){s->server, s->client, CHANNEL_ACCEPT, BOTH, 0, false};
	for (uint8_t flow = 0; flow < 2; flow++) {
		policy_sid from = flow == 0 ? s->client : s->server;
		policy_sid to = flow == 0 ? s->server : s->client;
		uint8_t bit = (uint8_t)(1u << flow);

		needs[n++] = (struct need){from, to, CHANNEL_SEND, bit, 0, false};
		needs[n++] = (struct need){to, from, CHANNEL_RECV, bit, 0, false};
		needs[n++] = (struct need){to, from, CHANNEL_FLOWCTL, 0, bit, false};
	}
	if (s->relay != SID_NONE)
		needs[n++] = (struct need){s->relay, s->client, CHANNEL_SPECIFY_CLIENT, BOTH, 0, false};
	return n;
}

bool needs_judge(const struct subjects *subjects, bool enforcing, decision_lookup_fn *lookup, void *opaque,
                 struct verdict *verdict)
{
	struct need needs[MAX_NEEDS];
	size_t n_needs = needs_list(subjects, needs);
	unsigned lost = 0, lost_flowctl = 0;

	*verdict = (struct verdict){0};
	for (size_t i = 0; i < n_needs; i++) {
		struct avc_key key = {needs[i].source, needs[i].target, CLASS_CHANNEL};
		struct decision decision;

		if (!lookup(opaque, key, &decision))
			return false;
		if (decision.allowed & needs[i].permission)
			continue;
		needs[i].masked = !enforcing || decision.permissive;
		verdict->missing[verdict->n_missing++] = needs[i];
		if (needs[i].masked)
			continue;
		lost |= needs[i].flows;
		lost_flowctl |= needs[i].flowctl;
	}
	for (unsigned flow = 0; flow < 2; flow++) {
		verdict->open[flow] = !(lost & 1u << flow);
		verdict->flowctl[flow] = !(lost_flowctl & 1u << flow);
	}
	return true;
}

const struct need *verdict_missing(const struct verdict *verdict, unsigned flow)
{
	const struct need *back_pressure = NULL;

	for (size_t i = 0; i < verdict->n_missing; i++) {
		const struct need *need = &verdict->missing[i];

		if (need->masked)
			continue;
		if (need->flows & 1u << flow)
			return need;
		if (!back_pressure && need->flowctl & 1u << flow)
			back_pressure = need;
	}
	return back_pressure;
}
