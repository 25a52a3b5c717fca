/*
 * oneway write SERVICE [--interval MS]
 * oneway read [--report N]
 *
 * The two ends of a flow that nothing comes back on. write: a numbered message every --interval milliseconds
 * (20), without ever learning whether anybody reads. read: takes them, and every --report (50)
 * says how many it took and how many were overwritten before it came to them. Once for each connection it
 * tries to answer, and says what came of it.
 *
 * Status: 1 the connect failed or the flow was cut, 2 wrong arguments.
 */
#include <portcullis.h>

#define USAGE "usage: oneway write SERVICE [--interval MS] | oneway read [--report N]"

static int write_to(const char *service, uint64_t interval_ms)
{
	struct channel *channel;
	int result = channel_connect(service, FOREVER, &channel);

	if (result == CALL_OK)
		log_line("writing to %s", service);
	for (uint64_t number = 1; result == CALL_OK; number++) {
		result = channel_send(channel, &number, sizeof number, 0);
		time_wait(MILLISECONDS(interval_ms));
	}
	log_line("%s: %s", service, call_error(result));
	return STATUS_FAILED;
}

static void report(const struct channel *channel)
{
	struct channel_info info;

	(void)channel_info(channel, &info);
	log_line("%llu read, %llu lost", (unsigned long long)info.received, (unsigned long long)info.lost);
}

static int read_all(struct channel *channel, uint64_t report_every)
{
	uint64_t number = 0, n = 0;
	int64_t result;

	log_line("answering: %s", call_error(channel_try_send(channel, &number, sizeof number)));
	while ((result = channel_receive(channel, &number, sizeof number, FOREVER)) >= 0)
		if (++n % report_every == 0)
			report(channel);
	return (int)result;
}

static int read_from_anybody(uint64_t report_every)
{
	struct channel *channel;
	int result;

	for (;;) {
		result = channel_accept(FOREVER, &channel);
		if (result != CALL_OK)
			return STATUS_FAILED;
		result = read_all(channel, report_every);
		report(channel);
		log_line("%s", call_error(result));
		(void)channel_close(channel);
	}
}

int main(int argc, char **argv)
{
	uint64_t number;

	if (argc == 3 && strcmp(argv[1], "write") == 0)
		return write_to(argv[2], 20);
	if (argc == 5 && strcmp(argv[1], "write") == 0 && strcmp(argv[3], "--interval") == 0 &&
	    text_number(argv[4], &number))
		return write_to(argv[2], number);
	if (argc == 2 && strcmp(argv[1], "read") == 0)
		return read_from_anybody(50);
	if (argc == 4 && strcmp(argv[1], "read") == 0 && strcmp(argv[2], "--report") == 0 &&
	    text_number(argv[3], &number) && number > 0)
		return read_from_anybody(number);
	log_line(USAGE);
	return STATUS_USAGE;
}
