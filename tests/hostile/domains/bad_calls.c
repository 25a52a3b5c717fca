/*
 * bad_calls
 *
 * Every system call, known or not, with arguments at every border. Says how many were made, and
 * "unexpected" with number and arguments where one that cannot succeed did.
 *
 * Survival: each returns an error (or, where it may, CALL_OK); the domain itself
 * lives on and ends with 0; nothing changed for anyone. H8, I7.
 */
#include "tests/hostile/domains/hostile.h"

static const uint64_t values[] = {
	0,
	1,
	2,
	MAX_NAME_BYTES,
	MAX_LOG_BYTES,
	MAX_LOG_BYTES + 1,
	MAX_SLOTS - 1,
	MAX_SLOTS,
	MAX_SLOTS + 1,
	0x7fffffff,
	0x80000000,
	UINT32_MAX,
	1ull << 32,
	1ull << 63,
	UINT64_MAX - 1,
	UINT64_MAX,
	VA_KERNEL,
	VA_KERNEL_CPU,
	VA_CALL,
};
#define N_VALUES (sizeof values / sizeof *values)

static const uint64_t numbers[] = {
	0,           1,
	60,          231,
	0xfff,       SYS_CONNECT,
	SYS_ACCEPT,  SYS_CLOSE,
	SYS_WAIT,    SYS_NOTIFY,
	SYS_INFO,    SYS_LOG,
	SYS_YIELD,   SYS_CONNECT_FOR,
	0x100a,      0x1fff,
	0x80001000u, 1ull << 32 | SYS_EXIT,
	UINT64_MAX,
};
#define N_NUMBERS (sizeof numbers / sizeof *numbers)

static bool may_succeed(uint64_t number)
{
	return number == SYS_YIELD || number == SYS_LOG || number == SYS_WAIT;
}

/* A wait for ever is no error: here the time-out is cut short. */
static int64_t call(uint64_t number, uint64_t a0, uint64_t a1)
{
	if (number == SYS_WAIT)
		a1 = a1 < 1000 ? a1 : 0;
	memset(DOMAIN_CALL->text, 0xff, sizeof DOMAIN_CALL->text);
	return system_call(number, a0, a1);
}

int main(int argc, char **argv)
{
	uint64_t made = 0;

	(void)argc;
	(void)argv;
	for (size_t n = 0; n < N_NUMBERS; n++) {
		for (size_t i = 0; i < N_VALUES; i++) {
			for (size_t j = 0; j < N_VALUES; j += numbers[n] == SYS_CONNECT_FOR ? 1 : 6) {
				int64_t result = call(numbers[n], values[i], values[j]);

				made++;
				if (result >= 0 && !may_succeed(numbers[n]) && numbers[n] != SYS_CONNECT &&
				    numbers[n] != SYS_CONNECT_FOR)
					log_line("unexpected: call %llx (%llx, %llx) gave %lld",
					         (unsigned long long)numbers[n],
					         (unsigned long long)values[i], (unsigned long long)values[j],
					         (long long)result);
			}
		}
	}
	log_line("%llu bad calls", (unsigned long long)made);
	return STATUS_OK;
}
