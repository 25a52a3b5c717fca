/*
 * formatter: writes the letter, and below it the signature, to the port "out".
 *
 * It hears of a letter from the vault alone, so what it writes has been signed, or says nothing of a
 * signature.
 */
#include "letter.h"

static void write_out(struct channel *out, const void *bytes, size_t n)
{
	int result = channel_stream(out, bytes, n, FOREVER, NULL);

	if (result < 0)
		give_up("standard output", result);
}

static size_t hex(char *text, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
	return 2 * n;
}

static void write_seal(struct channel *out, const struct seal *seal)
{
	static const char begin[] = "\n-----BEGIN ED25519PH SIGNATURE-----\n";
	static const char end[] = "\n-----END ED25519PH SIGNATURE-----\n";
	char text[256];
	size_t n = hex(text, seal->public_key, sizeof(seal->public_key));

	text[n++] = '\n';
	n += hex(text + n, seal->signature, sizeof(seal->signature));
	write_out(out, begin, sizeof(begin) - 1);
	write_out(out, text, n);
	write_out(out, end, sizeof(end) - 1);
}

static int64_t receive(struct channel *vault, void *buffer, size_t size)
{
	int64_t n = channel_receive(vault, buffer, size, FOREVER);

	if (n < 0)
		give_up("no signature from the vault", n);
	return n;
}

int main(int argc, char **argv)
{
	size_t size = channel_max_bytes();
	uint8_t *buffer = buffer_of(size);
	struct channel *vault, *out;
	struct seal seal;
	int64_t n;
	int result;

	(void)argc;
	(void)argv;
	result = channel_accept(FOREVER, &vault);
	if (result < 0)
		give_up("accept", result);
	result = channel_connect("host/out", SECONDS(60), &out);
	if (result < 0)
		give_up("standard output", result);
	while ((n = receive(vault, buffer, size)) > 0)
		write_out(out, buffer, (size_t)n);
	if (receive(vault, &seal, sizeof(seal)) != sizeof(seal)) {
		log_line("what the vault sends is no signature");
		return STATUS_FAILED;
	}
	write_seal(out, &seal);
	return STATUS_OK;
}
