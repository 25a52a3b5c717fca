/*
 * The library's private declarations: system calls, the domain's pages, channels.
 * It includes portcullis.h and guest/abi/call.h, which define the same CALL_
 * numbers: the compiler refuses a difference.
 */
#ifndef PORTCULLIS_LIB_DOMAIN_H
#define PORTCULLIS_LIB_DOMAIN_H

#include "guest/lib/include/portcullis.h"

#include "guest/abi/boot.h"
#include "guest/abi/call.h"
#include "guest/abi/memory.h"
#include "guest/abi/record.h"
#include "guest/lib/ring.h"

#define DOMAIN_BOOT ((const struct boot_record *)VA_BOOT)
#define DOMAIN_CALL ((struct call_page *)VA_CALL)
#define DOMAIN_PAGE ((const struct domain_page *)VA_RECORD)

struct channel {
	struct ring ring;
	const struct slot_record *record;
	uint32_t slot; /* of the guest */
	bool open;
};

static inline int64_t system_call(uint64_t number, uint64_t a0, uint64_t a1)
{
	int64_t result;

	asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a0), "S"(a1) : "rcx", "r11", "memory");
	return result;
}

/* The domain's event count: read it before the last look, give it to wait_events. */
static inline uint64_t events_seen(void)
{
	return __atomic_load_n(&DOMAIN_CALL->events, __ATOMIC_ACQUIRE) +
	       __atomic_load_n(&DOMAIN_PAGE->host_events, __ATOMIC_ACQUIRE);
}

static inline void spin_pause(void)
{
	asm volatile("pause");
}

static inline uint64_t tsc_now(void)
{
	uint32_t low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/*
 * Looking for a while before a wait. For as long as a wait and its wake-up take, so that
 * a peer that sleeps and answers is not slept for in turn: spin_start measures a system call. Not
 * at all where the peer may need this vCPU.
 */
struct spin {
	uint64_t until; /* TSC */
	uint32_t n;
};
extern uint64_t spin_ticks;

static inline struct spin spin_begin(void)
{
	return (struct spin){.until = spin_ticks != 0 ? tsc_now() + spin_ticks : 0};
}

/* Once more? The clock is read at each sixteenth look. */
static inline bool spin_more(struct spin *spin)
{
	spin_pause();
	return spin->n++ % 16 != 0 || (spin->until != 0 && tsc_now() < spin->until);
}

static inline void channel_notify(const struct channel *channel)
{
	(void)system_call(SYS_NOTIFY, channel->slot, 0);
}

/* When a time-out that begins now ends, in time_now(); FOREVER stays FOREVER. */
uint64_t deadline_after(uint64_t timeout_ns);

/*
 * Sleeps while the event count equals seen. False: the deadline has passed. May
 * wake for nothing: the caller looks again in both cases.
 */
bool wait_events(uint64_t seen, uint64_t deadline);

/* start.c, before main. */
void channels_start(void);
void heap_start(void);
void spin_start(void);

#endif
