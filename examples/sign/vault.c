/*
 * vault: holds the key, signs what the parser sends, passes text and signature on to the formatter.
 *
 * Its data file is the key: 64 hexadecimal digits, the seed of an Ed25519 key pair. It is in the memory of
 * this domain's guest alone, and in no other guest is anybody who could read it.
 */
#include "letter.h"
#include "sodium.h"

struct key {
	uint8_t public_key[crypto_sign_ed25519_PUBLICKEYBYTES];
	uint8_t secret[crypto_sign_ed25519_SECRETKEYBYTES];
};

static int digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void key_read(struct key *key)
{
	uint8_t seed[crypto_sign_ed25519_SEEDBYTES];
	size_t bytes;
	const uint8_t *text = data_file(&bytes);

	for (size_t i = 0; i < sizeof(seed); i++) {
		int high = 2 * i + 1 < bytes ? digit(text[2 * i]) : -1;
		int low = high >= 0 ? digit(text[2 * i + 1]) : -1;

		if (high < 0 || low < 0) {
			log_line("no key: its data file must begin with 64 digits 0-9 a-f");
			domain_exit(STATUS_USAGE);
		}
		seed[i] = (uint8_t)(high << 4 | low);
	}
	crypto_sign_ed25519_seed_keypair(key->public_key, key->secret, seed);
	memset(seed, 0, sizeof(seed));
}

static void send_on(struct channel *formatter, const void *bytes, size_t n)
{
	int result = n == 0 ? channel_send(formatter, bytes, 0, FOREVER)
	                    : channel_stream(formatter, bytes, n, FOREVER, NULL);

	if (result < 0)
		give_up("formatter", result);
}

static void sign(struct channel *parser, struct channel *formatter, const struct key *key)
{
	size_t size = channel_max_bytes();
	uint8_t *buffer = buffer_of(size);
	crypto_sign_ed25519ph_state state;
	struct seal seal;
	int64_t n;

	crypto_sign_ed25519ph_init(&state);
	do {
		n = channel_receive(parser, buffer, size, FOREVER);
		if (n < 0) {
			log_line("the parser %s in the middle of a letter: no signature",
			         n == CALL_REVOKED ? "was cut off" : "went away");
			domain_exit(STATUS_FAILED);
		}
		crypto_sign_ed25519ph_update(&state, buffer, (unsigned long long)n);
		send_on(formatter, buffer, (size_t)n);
	} while (n > 0);
	memcpy(seal.public_key, key->public_key, sizeof(seal.public_key));
	crypto_sign_ed25519ph_final_create(&state, seal.signature, NULL, key->secret);
	send_on(formatter, &seal, sizeof(seal));
}

int main(int argc, char **argv)
{
	struct channel *parser, *formatter;
	struct key key;
	int result;

	(void)argc;
	(void)argv;
	key_read(&key);
	result = channel_accept(FOREVER, &parser);
	if (result < 0)
		give_up("accept", result);
	result = channel_connect("desk/signed", SECONDS(60), &formatter);
	if (result == CALL_OK) /* so that it learns of a letter that is not signed */
		result = channel_await(formatter, SECONDS(60));
	if (result < 0)
		give_up("formatter", result);
	sign(parser, formatter, &key);
	log_line("signed");
	return STATUS_OK;
}
