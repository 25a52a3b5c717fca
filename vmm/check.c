#include "vmm/check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic(void (*)(void)) dump_state;

void check_set_dump(void (*dump)(void))
{
	atomic_store(&dump_state, dump);
}

_Noreturn void check_failed(const char *file, int line, const char *condition)
{
	/* Taken out, so that a check inside the dump does not start it again. */
	void (*dump)(void) = atomic_exchange(&dump_state, NULL);

	fprintf(stderr, "portcullis: bug at %s:%d: check failed: %s\n", file, line, condition);
	if (dump != NULL)
		dump();
	fflush(NULL);
	abort();
}
