/*
 * Clocks from the TSC, waiting on the event count, and random bytes.
 */
#include "guest/lib/domain.h"

uint64_t spin_ticks;

/* A wait and its wake-up cross the ring about four times. Between 10 and 300 us whatever was measured. */
void spin_start(void)
{
	uint64_t least = UINT64_MAX, ticks_per_us = DOMAIN_BOOT->tsc_khz / 1000, begin, ticks;

	if (domain_shares_vcpu())
		return;
	for (int i = 0; i < 3; i++) {
		begin = tsc_now();
		(void)system_call(SYS_YIELD, 0, 0);
		ticks = tsc_now() - begin;
		least = ticks < least ? ticks : least;
	}
	spin_ticks = 4 * least;
	if (spin_ticks < 10 * ticks_per_us)
		spin_ticks = 10 * ticks_per_us;
	if (spin_ticks > 300 * ticks_per_us)
		spin_ticks = 300 * ticks_per_us;
}

/* ticks * 1e6 / kHz with a product of 128 bits; the quotient fits for 500 years. */
uint64_t time_now(void)
{
	uint64_t ticks = tsc_now() - DOMAIN_BOOT->start_tsc, high, ns;

	asm("mulq %3" : "=a"(ns), "=d"(high) : "0"(ticks), "r"(UINT64_C(1000000)) : "cc");
	asm("divq %4" : "=a"(ns), "=d"(high) : "0"(ns), "1"(high), "r"(DOMAIN_BOOT->tsc_khz) : "cc");
	return ns;
}

uint64_t time_unix(void)
{
	return DOMAIN_BOOT->start_unix_ns + time_now();
}

uint64_t deadline_after(uint64_t timeout_ns)
{
	uint64_t now;

	if (timeout_ns == FOREVER)
		return FOREVER;
	now = time_now();
	return timeout_ns < FOREVER - now ? now + timeout_ns : FOREVER;
}

bool wait_events(uint64_t seen, uint64_t deadline)
{
	uint64_t now, timeout = FOREVER;

	if (deadline != FOREVER) {
		now = time_now();
		if (now >= deadline)
			return false;
		timeout = deadline - now;
	}
	return system_call(SYS_WAIT, seen, timeout) != CALL_TIMED_OUT;
}

void time_wait(uint64_t ns)
{
	uint64_t deadline = deadline_after(ns);

	while (wait_events(events_seen(), deadline))
		continue;
}

/* ---- random bytes: RFC 8439's ChaCha20 block, keyed with the host's 32 bytes, counted from 0 ---- */

static uint32_t rotate(uint32_t value, int bits)
{
	return value << bits | value >> (32 - bits);
}

static void quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
	*a += *b, *d = rotate(*d ^ *a, 16);
	*c += *d, *b = rotate(*b ^ *c, 12);
	*a += *b, *d = rotate(*d ^ *a, 8);
	*c += *d, *b = rotate(*b ^ *c, 7);
}

static void chacha_block(const uint32_t input[16], uint32_t output[16])
{
	uint32_t x[16];

	memcpy(x, input, sizeof x);
	for (int i = 0; i < 10; i++) {
		for (int j = 0; j < 4; j++)
			quarter(&x[j], &x[4 + j], &x[8 + j], &x[12 + j]);
		for (int j = 0; j < 4; j++)
			quarter(&x[j], &x[4 + (j + 1) % 4], &x[8 + (j + 2) % 4], &x[12 + (j + 3) % 4]);
	}
	for (int i = 0; i < 16; i++)
		output[i] = x[i] + input[i];
}

void random_bytes(void *buffer, size_t bytes)
{
	static uint32_t state[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
	static bool seeded;
	uint32_t block[16];
	uint8_t *to = buffer;

	if (!seeded)
		memcpy(&state[4], DOMAIN_BOOT->random, sizeof DOMAIN_BOOT->random);
	seeded = true;
	while (bytes > 0) {
		size_t n = bytes < sizeof block ? bytes : sizeof block;

		chacha_block(state, block);
		if (++state[12] == 0)
			state[13]++;
		memcpy(to, block, n);
		to += n;
		bytes -= n;
	}
}
