/*
 * How often a test repeats what must hold every time.
 */
#ifndef PORTCULLIS_TESTS_SUPPORT_ROUNDS_H
#define PORTCULLIS_TESTS_SUPPORT_ROUNDS_H

/* Under a sanitizer a fifth: there the memory accesses are checked, and each is the same in every round. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SAMPLED(n) ((n) / 5)
#else
#define SAMPLED(n) (n)
#endif

#endif
