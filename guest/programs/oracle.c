/*
 * The reader of the cut oracle (`portcullis doctor`; vmm/oracle.c): spins on
 * words of an inbox slot and reports what it sees. It uses no channel and asks for nothing.
 */
#include "guest/abi/boot.h"
#include "guest/abi/memory.h"
#include "guest/abi/oracle.h"

int main(int argc, char **argv);

static void publish(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

int main(int argc, char **argv)
{
	const struct boot_record *boot = (const struct boot_record *)VA_BOOT;
	const char *inbox =
		(const char *)VA_INBOX + (boot->first_slot + ORACLE_READER_SLOT) * boot->slot_stride;
	struct oracle_report *report =
		(void *)(VA_OUTBOX + (boot->first_slot + ORACLE_REPORT_SLOT) * boot->slot_stride);
	uint64_t highest = 0;

	(void)argc;
	(void)argv;
	for (uint64_t reading = 1;; reading++) {
		uint64_t seen = 0;

		for (uint32_t i = 0; i < ORACLE_PLACES; i++) {
			uint64_t word = __atomic_load_n((const uint64_t *)(inbox + oracle_place[i]),
			                                __ATOMIC_ACQUIRE);

			seen |= word;
			highest = word > highest ? word : highest;
		}
		publish(&report->seen, seen);
		publish(&report->highest, highest);
		if (seen != 0)
			publish(&report->last_nonzero, reading);
		publish(&report->readings, reading);
	}
}
