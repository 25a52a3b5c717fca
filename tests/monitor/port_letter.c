/*
 * The example: a letter in, a signed letter out, through ports, two guests and three domains; and what
 * cutting it in the middle does. The signature is verified by the host's own libsodium.
 */
#include <criterion/criterion.h>
#include <fcntl.h>

#include <sodium.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "monitor/loop.h"
#include "tests/monitor/cli_child.h"

#define SEAL "\n-----BEGIN ED25519PH SIGNATURE-----\n"
#define LETTER_LINES 200000u
#define LINE_BYTES 16u

/* `portcullis run examples/sign.conf <IN >OUT 2>ERR`, by a shell. */
static struct child start_signing(const char *in, const char *out, const char *sock)
{
	char line[1024], program[512];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	cr_assert_gt(n, 0);
	program[n] = '\0';
	*strrchr(program, '/') = '\0';
	snprintf(line, sizeof(line), "exec %s/../portcullis run examples/sign.conf --socket %s <%s >%s",
	         program, sock, in, out);
	return child_start_program("sh", (const char *const[]){"-c", line, NULL});
}

static char *file_text(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "re");
	char *text;

	cr_assert_not_null(file, "%s", path);
	fseek(file, 0, SEEK_END);
	*bytes = (size_t)ftell(file);
	rewind(file);
	text = calloc(1, *bytes + 1);
	cr_assert_eq(fread(text, 1, *bytes, file), *bytes);
	fclose(file);
	return text;
}

/* What sign/demo.key makes of it. */
static void demo_key(unsigned char public_key[static crypto_sign_ed25519_PUBLICKEYBYTES])
{
	unsigned char secret[crypto_sign_ed25519_SECRETKEYBYTES], seed[crypto_sign_ed25519_SEEDBYTES];
	size_t bytes;
	char *text = file_text("examples/sign/demo.key", &bytes);

	cr_assert_eq(sodium_hex2bin(seed, sizeof(seed), text, 64, NULL, NULL, NULL), 0);
	crypto_sign_ed25519_seed_keypair(public_key, secret, seed);
	free(text);
}

/* The letter is that one, and signed by that key. */
static void verify(const char *path, const char *letter, size_t n_letter)
{
	unsigned char key[crypto_sign_ed25519_PUBLICKEYBYTES], signature[crypto_sign_ed25519_BYTES],
		expected[crypto_sign_ed25519_PUBLICKEYBYTES];
	crypto_sign_ed25519ph_state state;
	size_t bytes;
	char *text = file_text(path, &bytes);
	const char *seal = text + n_letter;

	cr_assert_gt(bytes, n_letter + strlen(SEAL) + 64 + 1 + 128);
	cr_assert_eq(memcmp(text, letter, n_letter), 0, "another letter came out");
	cr_assert_eq(memcmp(seal, SEAL, strlen(SEAL)), 0);
	seal += strlen(SEAL);
	cr_assert_eq(sodium_hex2bin(key, sizeof(key), seal, 64, NULL, NULL, NULL), 0);
	cr_assert_eq(sodium_hex2bin(signature, sizeof(signature), seal + 65, 128, NULL, NULL, NULL), 0);
	demo_key(expected);
	cr_expect_eq(memcmp(key, expected, sizeof(key)), 0, "signed by another key");
	crypto_sign_ed25519ph_init(&state);
	crypto_sign_ed25519ph_update(&state, (const unsigned char *)letter, n_letter);
	cr_expect_eq(crypto_sign_ed25519ph_final_verify(&state, signature, expected), 0,
	             "the signature is wrong");
	free(text);
}

static char *long_letter(size_t *bytes)
{
	char *text = malloc(LETTER_LINES * LINE_BYTES + 1);

	cr_assert_not_null(text);
	for (unsigned i = 0; i < LETTER_LINES; i++)
		snprintf(text + (size_t)i * LINE_BYTES, LINE_BYTES + 1, "line %010u\n", i);
	*bytes = LETTER_LINES * LINE_BYTES;
	return text;
}

/* Standard input and output are files: no descriptor that can be waited for. */
Test(port_letter, is_signed)
{
	size_t bytes;
	char *letter = long_letter(&bytes);
	const char *in, *out = test_path("signed");
	struct child child;

	need_kvm();
	in = test_file("letter", letter);
	child = start_signing(in, out, test_path("s"));
	child_finish(&child);
	EXPECT(child, 0, "vault/vault: signed");
	verify(out, letter, bytes);
	free(letter);
}

Test(port_letter, an_empty_one_too)
{
	const char *out = test_path("signed");
	struct child child;

	need_kvm();
	child = start_signing("/dev/null", out, test_path("s"));
	child_finish(&child);
	EXPECT(child, 0, "0 bytes of text");
	verify(out, "", 0);
}

/* A disk that is full: whoever reads the exit status learns that the letter is not there. */
Test(port_letter, that_cannot_be_written_is_a_failure)
{
	struct child child;

	need_kvm();
	child = start_signing(test_file("letter", "Dear reader,\n"), "/dev/full", test_path("s"));
	child_finish(&child);
	EXPECT(child, 1, "port out: bytes are missing");
}

/* I6, H11: a closed standard descriptor is refused, never a place where a socket of the monitor's own comes
 * to stand. */
Test(port_letter, closed_streams_are_refused)
{
	const char *in = test_file("letter", "Dear reader,\n"), *out = test_path("signed");
	struct child child;

	need_kvm();
	child = start_signing("&-", out, test_path("s"));
	child_finish(&child);
	EXPECT(child, 1, "standard input: is closed");
	child = start_signing(in, "&-", test_path("s"));
	child_finish(&child);
	EXPECT(child, 1, "standard output: is closed");
}

Test(port_letter, is_signed_though_nobody_hears_what_is_logged)
{
	const char *in = test_file("letter", "Dear reader,\n"), *out = test_path("signed");
	struct child child;

	need_kvm();
	child = start_signing(in, test_path("signed 2>&-"), test_path("s"));
	child_finish(&child);
	EXPECT(child, 0, "");
	verify(out, "Dear reader,\n", strlen("Dear reader,\n"));
}

Test(port_letter, what_is_no_text_is_not_signed)
{
	const char *in = test_file("letter", "good, then \x1b[31m"), *out = test_path("signed");
	struct child child;
	size_t bytes;
	char *text;

	need_kvm();
	child = start_signing(in, out, test_path("s"));
	child_finish(&child);
	EXPECT(child, 1, "byte 12 of the letter is no text");
	text = file_text(out, &bytes);
	cr_expect_null(strstr(text, SEAL));
	free(text);
}

/* Pipes. The letter is under way, and its writer still writes, when the parser is cut from the vault (I1,
 * R2). */
Test(port_letter, is_cut_in_the_middle)
{
	const char *in = test_path("in"), *out = test_path("signed"), *sock = test_path("s");
	size_t bytes, n;
	char *letter = long_letter(&bytes), *text;
	struct child child, push;
	int fd;

	need_kvm();
	cr_assert_eq(mkfifo(in, 0600), 0);
	child = start_signing(in, out, sock);
	fd = open(in, O_WRONLY | O_CLOEXEC); /* when the shell has opened it */
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, letter, bytes / 2), (ssize_t)(bytes / 2));
	push = RUN("policy", "push", "policy/base.cil", "examples/lockdown.cil", "--socket", sock);
	cr_expect(strstr(push.out, "desk/parser --> vault/vault"), "%s", push.out);
	EXPECT(push, 0, "");
	/* Its reader is gone by now, or takes a little more before it sees that it was cut. */
	signal(SIGPIPE, SIG_IGN);
	(void)!write(fd, letter, 1000);
	close(fd);
	child_finish(&child);
	cr_expect(strstr(child.err, "vault/vault: the parser was cut off in the middle of a letter"), "%s",
	          child.err);
	EXPECT(child, 1, "desk/parser: cut off from the vault after");
	text = file_text(out, &n);
	cr_expect_null(strstr(text, SEAL));
	cr_expect_leq(n, bytes / 2, "nothing that was sent after the cut was handed on");
	cr_expect_eq(memcmp(text, letter, n), 0);
	free(text);
	free(letter);
}

/* A broken pipe behind standard output ends the run with 1, and not by SIGPIPE. */
Test(port_letter, nobody_reads_it)
{
	struct child child;
	size_t bytes;
	char *letter = long_letter(&bytes), line[600];
	const char *in;

	need_kvm();
	in = test_file("letter", letter);
	snprintf(line, sizeof(line), "%s", test_path("signed"));
	cr_assert_eq(mkfifo(line, 0600), 0);
	child = start_signing(in, line, test_path("s"));
	close(open(line, O_RDONLY | O_CLOEXEC));
	child_finish(&child);
	EXPECT(child, 1, "domain=\"out\" Broken pipe");
	free(letter);
}
