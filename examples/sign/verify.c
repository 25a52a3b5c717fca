/*
 * verify < letter.signed: whether the signature below a letter is good, by this host's libsodium.
 * Status: 0 good, 1 not. The key is the letter's own: compare the printed one with the one you expect.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char begin[] = "\n-----BEGIN ED25519PH SIGNATURE-----\n";

#define KEY_DIGITS 64
#define SIGNATURE_DIGITS 128

static int fail(const char *why)
{
	fprintf(stderr, "verify: %s\n", why);
	return 1;
}

/* All of standard input; NULL when memory is short. */
static char *read_all(size_t *bytes)
{
	size_t size = 1 << 16, n;
	char *text = malloc(size);

	*bytes = 0;
	while (text && (n = fread(text + *bytes, 1, size - *bytes, stdin)) > 0) {
		*bytes += n;
		if (*bytes == size)
			text = realloc(text, size *= 2);
	}
	return text;
}

/* The last one: a letter may hold such a line itself. */
static const char *find_seal(const char *text, size_t bytes)
{
	const char *found = NULL, *from = text, *next;

	while ((next = memmem(from, bytes - (size_t)(from - text), begin, sizeof(begin) - 1))) {
		found = next;
		from = next + 1;
	}
	return found;
}

int main(void)
{
	unsigned char key[crypto_sign_ed25519_PUBLICKEYBYTES], signature[crypto_sign_ed25519_BYTES];
	crypto_sign_ed25519ph_state state;
	size_t bytes, n;
	char *text = read_all(&bytes);
	const char *seal = text ? find_seal(text, bytes) : NULL, *hex;

	if (sodium_init() < 0 || !text)
		return fail("out of memory");
	if (!seal)
		return fail("there is no signature");
	hex = seal + sizeof(begin) - 1;
	n = bytes - (size_t)(hex - text);
	if (n < KEY_DIGITS + 1 + SIGNATURE_DIGITS || hex[KEY_DIGITS] != '\n' ||
	    sodium_hex2bin(key, sizeof(key), hex, KEY_DIGITS, NULL, NULL, NULL) ||
	    sodium_hex2bin(signature, sizeof(signature), hex + KEY_DIGITS + 1, SIGNATURE_DIGITS, NULL, NULL,
	                   NULL))
		return fail("the signature is no signature");
	crypto_sign_ed25519ph_init(&state);
	crypto_sign_ed25519ph_update(&state, (const unsigned char *)text, (unsigned long long)(seal - text));
	if (crypto_sign_ed25519ph_final_verify(&state, signature, key))
		return fail("the signature is wrong");
	printf("good signature of %zu bytes by %.*s\n", (size_t)(seal - text), KEY_DIGITS, hex);
	free(text);
	return 0;
}
