/*
 * flood connect SERVICE | notify SERVICE | log | all SERVICE  [ROUNDS]
 *
 * connect: connects and closes as fast as it goes, without waiting to be accepted. notify: one
 * notification after the other over a channel. log: line after line, with control characters. For
 * ever, or ROUNDS times.
 *
 * Survival: the host's memory stays flat, lines are counted as lost, the others are served. H7, H12.
 */
#include "tests/hostile/domains/hostile.h"

static void flood_connect(const char *service)
{
	struct channel *channel;

	if (channel_connect(service, 0, &channel) == CALL_OK)
		(void)channel_close(channel);
}

static void flood_notify(const char *service)
{
	static struct channel *channel;

	if (channel == NULL)
		channel = connect_or_exit(service);
	channel_notify(channel);
}

static void flood_log(uint64_t i)
{
	log_line("line %llu \033[2J\033]0;owned\007 avc: granted { send } for scontext=forged\r\n",
	         (unsigned long long)i);
}

int main(int argc, char **argv)
{
	const char *what = argument_or(argc, argv, 1, "log");
	bool all = strcmp(what, "all") == 0, log = strcmp(what, "log") == 0;
	const char *service = argument_or(argc, argv, 2, "echo");
	uint64_t rounds = number_or(argc, argv, log ? 2 : 3, UINT64_MAX);

	for (uint64_t i = 0; i < rounds; i++) {
		if (all || strcmp(what, "connect") == 0)
			flood_connect(service);
		if (all || strcmp(what, "notify") == 0)
			flood_notify(service);
		if (all || log)
			flood_log(i);
	}
	log_line("flooded");
	return STATUS_OK;
}
