/*
 * Messages of real clients (virsh, python3-libvirt, collectd), and what becomes of them when bytes change:
 * the decoder reads nothing beyond a message and believes nothing that is none (H8, H11). The same corpus
 * is what `make fuzz` begins with.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/libvirt/fuzz/decode.h"

#define MOST_BYTES 8192
#define ROUNDS 400

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* A few bytes, a number, or the length. */
static size_t mutate(uint8_t *bytes, size_t n, uint32_t *random)
{
	static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff};

	for (uint32_t i = next_random(random) % 4; i > 0 && n > 0; i--)
		bytes[next_random(random) % n] = (uint8_t)next_random(random);
	if (n > 4 && next_random(random) % 2) {
		size_t at = next_random(random) % (n / 4) * 4;

		for (size_t k = 0; k < 4 && at + k < n; k++)
			bytes[at + k] = edges[next_random(random) % sizeof(edges)];
	}
	return next_random(random) % 3 || n == 0 ? n : next_random(random) % n;
}

/* A copy of exactly its size: whoever reads beyond is caught under a sanitizer. */
static void decode_copy(int (*decode)(const uint8_t *bytes, size_t n), const uint8_t *bytes, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	cr_assert_not_null(copy);
	memcpy(copy, bytes, n);
	decode(copy, n);
	free(copy);
}

static void replay(const char *folder, int (*decode)(const uint8_t *bytes, size_t n))
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	uint32_t random = 1;
	size_t n_files = 0;

	cr_assert_not_null(dir, "%s", folder);
	while ((entry = readdir(dir))) {
		uint8_t original[MOST_BYTES], bytes[MOST_BYTES];
		int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, original, sizeof(original));

		close(fd);
		if (n <= 0)
			continue;
		n_files++;
		decode_copy(decode, original, (size_t)n);
		for (int round = 0; round < ROUNDS; round++) {
			memcpy(bytes, original, (size_t)n);
			decode_copy(decode, bytes, mutate(bytes, (size_t)n, &random));
		}
	}
	closedir(dir);
	cr_expect_gt(n_files, 3u, "%s", folder);
}

Test(libvirt_corpus, messages)
{
	replay("tests/libvirt/corpus/rpc", decode_message);
}

Test(libvirt_corpus, documents)
{
	replay("tests/libvirt/corpus/xml", decode_document);
}

/* The corpus is of use: what real clients send is in its form. */
Test(libvirt_corpus, every_recorded_call_that_is_served_is_understood)
{
	DIR *dir = opendir("tests/libvirt/corpus/rpc");
	const struct dirent *entry;
	size_t n_served = 0;

	cr_assert_not_null(dir);
	while ((entry = readdir(dir))) {
		uint8_t bytes[MOST_BYTES];
		int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, bytes, sizeof(bytes));
		int outcome;

		close(fd);
		if (n <= 0)
			continue;
		outcome = decode_message(bytes, (size_t)n);
		cr_expect_neq(outcome, DECODE_MALFORMED, "%s", entry->d_name);
		n_served += outcome == DECODE_GOOD;
	}
	closedir(dir);
	cr_expect_geq(n_served, 35u, "only %zu", n_served);
}
