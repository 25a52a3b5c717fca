/*
 * From the entry point to main and out again; assertions; names of results.
 */
#include "guest/lib/domain.h"

_Noreturn void domain_start(const struct boot_record *boot);

void domain_start(const struct boot_record *boot)
{
	static char *argv[MAX_ARGUMENTS + 2];

	if (boot->magic != BOOT_MAGIC)
		domain_exit(STATUS_ASSERTION); /* library and VMM are of different versions */
	argv[0] = (char *)boot->name;
	for (uint32_t i = 0; i < boot->n_arguments && i < MAX_ARGUMENTS; i++)
		argv[i + 1] = (char *)boot->text + boot->argument[i];
	heap_start();
	channels_start();
	spin_start();
	domain_exit(main((int)boot->n_arguments + 1, argv));
}

void domain_exit(int status)
{
	for (;;)
		(void)system_call(SYS_EXIT, (uint32_t)status & 0xff, 0);
}

void domain_yield(void)
{
	(void)system_call(SYS_YIELD, 0, 0);
}

bool domain_shares_vcpu(void)
{
	return (DOMAIN_BOOT->flags & BOOT_SHARED_VCPU) != 0;
}

void domain_assertion_failed(const char *file, int line, const char *condition)
{
	log_line("%s:%d: assertion failed: %s", file, line, condition);
	domain_exit(STATUS_ASSERTION);
}

const char *call_error(int64_t result)
{
	static const char *const names[] = {
		[-CALL_BAD_ARGUMENT] = "bad argument",
		[-CALL_NO_CALL] = "no such call",
		[-CALL_DENIED] = "denied",
		[-CALL_REVOKED] = "revoked",
		[-CALL_PEER_CLOSED] = "peer closed",
		[-CALL_PEER_DIED] = "peer died",
		[-CALL_TIMED_OUT] = "timed out",
		[-CALL_NO_SERVICE] = "no such service",
		[-CALL_NO_SLOT] = "no free slot",
		[-CALL_BUSY] = "busy",
		[-CALL_AGAIN] = "not now",
		[-CALL_PENDING] = "pending",
		[-CALL_TOO_LONG] = "message too long",
		[-CALL_NOT_OPEN] = "not open",
		[-CALL_BROKEN] = "broken by the peer",
		[-CALL_QUARANTINED] = "quarantined",
	};

	if (result >= 0)
		return "ok";
	if (result < -(int64_t)(sizeof names / sizeof *names) + 1)
		return "unknown error";
	return names[-result];
}
