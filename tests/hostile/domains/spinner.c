/*
 * spinner [SERVICE]
 *
 * Spins for ever and makes no call; with SERVICE it connects and sends one message first.
 *
 * Survival: a stop still ends within its deadline (the vCPU is in ring 3), and the other
 * domains of the vCPU get their turns. P1, P3, I2.
 */
#include "tests/hostile/domains/hostile.h"

int main(int argc, char **argv)
{
	uint64_t message = 1;

	if (argc > 1)
		(void)channel_send(connect_or_exit(argv[1]), &message, sizeof message, 0);
	log_line("spinning");
	for (;;)
		spin_pause();
}
