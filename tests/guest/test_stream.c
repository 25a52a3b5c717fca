/* A file through source, relay and sink arrives as it was; one-way flows; close after the last byte. I4. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tests/guest/world.h"

#define FILE_BYTES (3u * 1024 * 1024 + 77)

static int file_make(uint64_t *digest)
{
	uint8_t *bytes;
	int fd = memfd_create("data", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, FILE_BYTES), 0);
	bytes = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(bytes, MAP_FAILED);
	for (size_t i = 0; i < FILE_BYTES; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	*digest = XXH3_64bits(bytes, FILE_BYTES);
	munmap(bytes, FILE_BYTES);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
	return fd;
}

static void expect_digest(struct world *world, uint32_t sink, uint64_t digest)
{
	char expected[80];

	snprintf(expected, sizeof(expected), "xxh3 %016lx bytes %u", digest, FILE_BYTES);
	world_wait_log(world, sink, expected);
}

Test(stream, a_file_passes_a_relay_unchanged)
{
	static struct world_domain domains[] = {
		{.name = "source", .program = "domains/source", .arguments = {"relay"}},
		{.name = "relay",
	         .program = "domains/relay",
	         .arguments = {"relay", "sink", "--stream"},
	         .service = "relay",
	         .vcpu = 1},
		{.name = "sink", .program = "domains/sink", .arguments = {"sink"}, .service = "sink"},
	};
	struct world *world;
	uint64_t digest;

	if (world_skipped())
		return;
	domains[0].data_fd = file_make(&digest);
	domains[0].data_bytes = FILE_BYTES;
	world = world_start(domains, 3, 2, WORLD_LOSSLESS);
	expect_digest(world, 2, digest);
	for (uint32_t i = 0; i < 3; i++)
		cr_expect_eq(world_wait_exit(world, i), 0);
	world_end(world);
	close(domains[0].data_fd);
}

/* A client cut in the middle of a stream: the sink ends with what it got, and 1; so does the source. */
Test(stream, a_cut_ends_both_ends_with_their_counts)
{
	static struct world_domain domains[] = {
		{.name = "client",
	         .program = "domains/client",
	         .arguments = {"sink", "--bytes", "4096", "--once"}},
		{.name = "sink", .program = "domains/sink", .service = "sink", .vcpu = 1},
	};
	struct world *world;

	if (world_skipped())
		return;
	world = world_start(domains, 2, 2, WORLD_LOSSLESS);
	world_wait_log(world, 0, "connected");
	world_cut(world, 0, 1, true, true);
	world_wait_log(world, 0, "revoked after 0 messages");
	world_wait_log(world, 1, "revoked after");
	cr_expect_eq(world_wait_exit(world, 0), 1);
	cr_expect_eq(world_wait_exit(world, 1), 1);
	world_end(world);
}

/* A flow that nobody answers on: the source never waits, the sink takes what is left and sees the close. */
Test(stream, a_one_way_flow_passes_what_the_reader_can_take)
{
	static struct world_domain domains[] = {
		{.name = "source", .program = "domains/source", .arguments = {"sink"}},
		{.name = "sink", .program = "domains/sink", .service = "sink", .vcpu = 1},
	};
	struct world *world;
	uint64_t digest;

	if (world_skipped())
		return;
	domains[0].data_fd = file_make(&digest);
	domains[0].data_bytes = FILE_BYTES;
	world = world_start(domains, 2, 2, WORLD_DIODE);
	world_wait_log(world, 0, "sent: 3145805 of 3145805 bytes");
	world_wait_log(world, 1, "bytes");
	for (uint32_t i = 0; i < 2; i++)
		cr_expect_eq(world_wait_exit(world, i), 0);
	world_end(world);
	close(domains[0].data_fd);
}
