/*
 * window_writer [inbox | record] [STORES]
 *
 * Stores into its read-only windows: the first page of its inbox window or its record
 * window, 16,384 times or STORES.
 *
 * Survival: the first store faults in ring 3 (the domain's page tables are read-only there) and
 * ends this domain with vector 14; nothing is written; the rest goes on. I6, H13.
 */
#include "tests/hostile/domains/hostile.h"

int main(int argc, char **argv)
{
	bool record = strcmp(argument_or(argc, argv, 1, "inbox"), "record") == 0;
	uint64_t inbox = VA_INBOX + DOMAIN_BOOT->first_slot * DOMAIN_BOOT->slot_stride;
	volatile uint64_t *window = (volatile uint64_t *)(record ? VA_RECORD : inbox);
	uint64_t stores = number_or(argc, argv, 2, 16384);

	log_line("writing into the %s window", record ? "record" : "inbox");
	for (uint64_t i = 0; i < stores; i++)
		window[i % 512] = UINT64_MAX;
	log_line("wrote %llu words", (unsigned long long)stores);
	return STATUS_OK;
}
