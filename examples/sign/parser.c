/*
 * parser: takes a letter from outside, lets nothing but text pass, hands it to the vault.
 *
 * The one domain that sees untrusted input. Whoever takes it over can sign what he likes for as long as the
 * policy lets it talk to the vault, and can never see the key, or write a byte to standard output.
 */
#include "letter.h"

/* Of UTF-8 without control characters but line ends and tabs; across messages. */
struct text {
	uint32_t more;  /* bytes of a character that are to come */
	uint32_t least; /* what the character must be at least: no overlong forms */
	uint32_t character;
	uint64_t n_bytes;
};

static bool is_allowed(uint32_t character)
{
	if (character < 0x20)
		return character == '\n' || character == '\t' || character == '\r';
	return character < 0x7f ||
	       (character >= 0xa0 && (character < 0xd800 || character > 0xdfff) && character <= 0x10ffff);
}

/* First byte of a character. */
static bool begin(struct text *text, uint8_t byte)
{
	text->more = byte < 0x80 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
	text->least = text->more == 0 ? 0 : text->more == 1 ? 0x80 : text->more == 2 ? 0x800 : 0x10000;
	text->character = text->more == 0 ? byte : byte & (0x3fu >> text->more);
	return byte < 0x80 || (byte >= 0xc2 && byte <= 0xf4);
}

static bool take(struct text *text, uint8_t byte)
{
	text->n_bytes++;
	if (text->more == 0) {
		if (!begin(text, byte))
			return false;
	} else {
		text->character = text->character << 6 | (byte & 0x3fu);
		text->more--;
		if ((byte & 0xc0) != 0x80)
			return false;
	}
	return text->more > 0 || (text->character >= text->least && is_allowed(text->character));
}

static void check(struct text *text, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!take(text, bytes[i])) {
			log_line("byte %llu of the letter is no text; nothing is signed",
			         (unsigned long long)text->n_bytes);
			domain_exit(STATUS_FAILED);
		}
}

/* The whole letter, up to the empty message. */
static uint64_t pass(struct channel *in, struct channel *vault)
{
	size_t size = channel_max_bytes();
	uint8_t *buffer = buffer_of(size);
	struct text text = {0};
	int64_t n;
	int sent;

	do {
		n = channel_receive(in, buffer, size, FOREVER);
		if (n < 0)
			give_up("the letter ends before its end", n);
		check(&text, buffer, (size_t)n);
		if (n == 0 && text.more > 0) {
			log_line("the letter ends within a character; nothing is signed");
			domain_exit(STATUS_FAILED);
		}
		sent = n == 0 ? channel_send(vault, buffer, 0, FOREVER)
		              : channel_stream(vault, buffer, (size_t)n, FOREVER, NULL);
		if (sent == CALL_REVOKED)
			log_line("cut off from the vault after %llu bytes; the letter is not signed",
			         (unsigned long long)text.n_bytes);
		if (sent < 0)
			give_up("vault", sent);
	} while (n > 0);
	return text.n_bytes;
}

int main(int argc, char **argv)
{
	struct channel *in, *vault;
	uint64_t n_bytes;
	int64_t result;

	(void)argc;
	(void)argv;
	result = channel_accept(FOREVER, &in);
	if (result < 0)
		give_up("accept", result);
	result = channel_connect("vault/sign", SECONDS(60), &vault);
	if (result == CALL_OK) /* so that it learns of a letter that is none: an empty connect may vanish */
		result = channel_await(vault, SECONDS(60));
	if (result < 0)
		give_up("vault", result);
	n_bytes = pass(in, vault);
	log_line("%llu bytes of text", (unsigned long long)n_bytes);
	return STATUS_OK;
}
