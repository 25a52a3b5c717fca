/* What the test domains share: where their mailbox and their slots stand. */
#ifndef PORTCULLIS_TESTS_T_DOMAIN_H
#define PORTCULLIS_TESTS_T_DOMAIN_H

#include <portcullis.h>

#include "guest/lib/domain.h"
#include "tests/hostile/domains/t_mailbox.h"

static inline uint64_t t_slot_offset(uint64_t slot)
{
	return (DOMAIN_BOOT->first_slot + slot) * DOMAIN_BOOT->slot_stride;
}

static inline struct mailbox *t_mailbox(void)
{
	return (struct mailbox *)(VA_OUTBOX + t_slot_offset(DOMAIN_BOOT->n_slots - 1) + SLOT_BULK_OFFSET);
}

/* Once the service has accepted, or nothing is left open. */
static inline int t_accepted(int result, uint64_t timeout, struct channel *channel)
{
	if (result != CALL_OK)
		return result;
	result = channel_await(channel, timeout);
	if (result == CALL_AGAIN)
		result = CALL_TIMED_OUT;
	if (result != CALL_OK)
		(void)channel_close(channel);
	return result;
}

#endif
