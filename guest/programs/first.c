/*
 * A domain whose first instructions make it heard, for `portcullis bench boot`: from its entry point, before
 * the library has set itself up, it writes a line and enters the kernel. It does nothing more.
 */
#include "guest/lib/domain.h"

/* In the place of the library's (crt0.S), which then is not linked in. */
_Noreturn void _start(void);

_Noreturn void _start(void)
{
	static const char text[] = "first instruction";

	for (size_t i = 0; i < sizeof text; i++)
		DOMAIN_CALL->text[i] = text[i];
	(void)system_call(SYS_LOG, sizeof text - 1, 0);
	for (;;)
		(void)system_call(SYS_WAIT, events_seen(), UINT64_MAX);
}
