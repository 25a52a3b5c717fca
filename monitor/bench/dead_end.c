#include "monitor/bench/dead_end.h"

#include "guest/abi/record.h"

static bool is_zero(const void *memory, size_t bytes)
{
	const uint64_t *words = memory;

	for (size_t i = 0; i < bytes / sizeof(*words); i++)
		if (__atomic_load_n(&words[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

const char *dead_end_fault(const struct channel *channel, enum channel_side side)
{
	const struct endpoint *end = &channel->end[side];
	struct machine *machine = end->domain->guest->machine;
	uint64_t word = __atomic_load_n(&machine_record(machine, end->slot)->word, __ATOMIC_ACQUIRE);

	if (channel->flow[side].state != FLOW_CUT)
		return "the flow from it is not cut";
	if ((word & (RECORD_OUT | RECORD_IN | RECORD_OUT_CUT | RECORD_IN_CUT)) !=
	    (RECORD_OUT_CUT | RECORD_IN_CUT))
		return "its record does not say that both flows were cut";
	if (!is_zero(window_inbox(machine, end->slot), 2 * ABI_PAGE_BYTES))
		return "it still sees its peer's memory";
	return NULL;
}
