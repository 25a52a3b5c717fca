/*
 * libsodium in a domain: the static library as the distribution has it, and the few names that it wants of a
 * C library.
 *
 * Its signatures compute; they ask no operating system for anything. What would is never reached, and says so
 * if it is. The stack protector that the library is built with finds its canary (docs/domains.md).
 */
#ifndef PORTCULLIS_EXAMPLES_SODIUM_H
#define PORTCULLIS_EXAMPLES_SODIUM_H

#include <portcullis.h>
#include <sodium/crypto_sign_ed25519.h>

#define UNREACHABLE(name)                                                                                    \
	_Noreturn void unreachable_##name(void) __asm__(#name);                                              \
	_Noreturn void unreachable_##name(void)                                                              \
	{                                                                                                    \
		domain_assertion_failed(__FILE__, __LINE__, #name);                                          \
	}

UNREACHABLE(__stack_chk_fail)
UNREACHABLE(__assert_fail)
UNREACHABLE(__errno_location)
UNREACHABLE(abort)
UNREACHABLE(raise)
UNREACHABLE(malloc)
UNREACHABLE(free)
UNREACHABLE(mmap)
UNREACHABLE(munmap)
UNREACHABLE(mprotect)
UNREACHABLE(madvise)
UNREACHABLE(mlock)
UNREACHABLE(munlock)
UNREACHABLE(sysconf)
UNREACHABLE(open)
UNREACHABLE(close)
UNREACHABLE(read)
UNREACHABLE(poll)
UNREACHABLE(fcntl)
UNREACHABLE(fstat)
UNREACHABLE(getrandom)
UNREACHABLE(pthread_mutex_lock)
UNREACHABLE(pthread_mutex_unlock)

void __explicit_bzero_chk(void *memory, size_t bytes, size_t size);
void __explicit_bzero_chk(void *memory, size_t bytes, size_t size)
{
	(void)size;
	memset(memory, 0, bytes);
	asm volatile("" : : "r"(memory) : "memory");
}

#endif
