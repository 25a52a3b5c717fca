/*
 * futex(2) with absolute CLOCK_MONOTONIC deadlines. Any thread. A wait may end
 * early for no reason: callers look at the word again.
 */
#ifndef PORTCULLIS_VMM_FUTEX_H
#define PORTCULLIS_VMM_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sleeps while *word is seen. 0, or -ETIMEDOUT at deadline_ns. */
static inline int futex_wait(uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	struct timespec deadline = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};

	if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, &deadline, NULL,
	            FUTEX_BITSET_MATCH_ANY) < 0 &&
	    errno == ETIMEDOUT)
		return -ETIMEDOUT;
	return 0;
}

static inline void futex_wake_all(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#endif
