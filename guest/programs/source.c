/*
 * source SERVICE
 *
 * Streams its data file over one channel, then closes it in order.
 *
 * Status: 0 all of it was sent, 1 no data file, no connection or cut before the end, 2 wrong arguments.
 */
#include <portcullis.h>

#define CONNECT_TIMEOUT SECONDS(30)
#define RETRY MILLISECONDS(50)

/* The server may still be starting, or busy. */
static int connect(const char *service, struct channel **channel)
{
	uint64_t end = time_now() + CONNECT_TIMEOUT;
	int result;

	for (;;) {
		result = channel_connect(service, CONNECT_TIMEOUT, channel);
		if ((result != CALL_BUSY && result != CALL_NO_SLOT) || time_now() > end)
			return result;
		time_wait(RETRY);
	}
}

int main(int argc, char **argv)
{
	struct channel *channel;
	const void *data;
	size_t bytes, sent;
	int result;

	if (argc != 2) {
		log_line("usage: source SERVICE; what it sends is the data file of this domain");
		return STATUS_USAGE;
	}
	data = data_file(&bytes);
	if (data == NULL) {
		log_line("no data file: give this domain one in the manifest");
		return STATUS_FAILED;
	}
	result = connect(argv[1], &channel);
	if (result != CALL_OK) {
		log_line("%s: %s", argv[1], call_error(result));
		return STATUS_FAILED;
	}
	result = channel_stream(channel, data, bytes, FOREVER, &sent);
	(void)channel_close(channel);
	log_line("%s: %zu of %zu bytes", result == CALL_OK ? "sent" : call_error(result), sent, bytes);
	return result == CALL_OK ? STATUS_OK : STATUS_FAILED;
}
