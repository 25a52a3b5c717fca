/*
 * CHECK: only a bug of ours can break it, never a guest, manifest, policy or
 * client (design: 8, the third kind). Prints file, line and the state that the
 * program registered, then aborts. Any thread.
 */
#ifndef PORTCULLIS_VMM_CHECK_H
#define PORTCULLIS_VMM_CHECK_H

#define CHECK(condition)                                                                                     \
	do {                                                                                                 \
		if (__builtin_expect(!(condition), 0))                                                       \
			check_failed(__FILE__, __LINE__, #condition);                                        \
	} while (0)

_Noreturn void check_failed(const char *file, int line, const char *condition);

/* The dump to print on failure; NULL: none. It must take no lock. */
void check_set_dump(void (*dump)(void));

#endif
