/* I3: answers that can not be. A fake server sends what a policy that took over its process could send. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "policy/protocol.h"
#include "tests/policy/harness.h"

#define A "u:r:a_t:s0"

/* A fake server: the test itself holds the other end. */
struct fake {
	struct harness harness; /* without launcher and process */
	int fd;
	struct packet packet;
	int status;
	unsigned n_answers;
	int image_fd;
};

static void fake_open(struct fake *fake)
{
	int pair[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fake->fd = pair[1];
	fake->harness.server = server_open(pair[0], -1);
	fake->status = 1;
	fake->n_answers = 0;
	fake->image_fd = -1;
}

static void fake_close(struct fake *fake)
{
	server_close(fake->harness.server);
	close(fake->fd);
}

/* Takes the question that is under way, and begins its answer. */
static void fake_receive(struct fake *fake, enum protocol_kind kind)
{
	cr_assert_eq(packet_receive(fake->fd, &fake->packet, 0), 1);
	cr_assert_eq(fake->packet.kind, kind);
	if (fake->packet.fd >= 0)
		close(fake->packet.fd);
	packet_begin(&fake->packet, kind, fake->packet.id);
}

static void fake_send(struct fake *fake)
{
	cr_assert_eq(packet_send(fake->fd, &fake->packet, 0), 0);
	server_dispatch(fake->harness.server);
}

static void fake_loaded(void *opaque, int status, const struct server_policy *policy, const char *why)
{
	struct fake *fake = opaque;

	cr_assert_not_null(why);
	fake->status = status;
	fake->n_answers++;
	fake->image_fd = policy ? policy->image_fd : -1;
}

/* Asks for a load and answers all but its last packet. */
static void fake_begin_load(struct fake *fake)
{
	struct policy_source source = {"x.cil", harness_memfd("x", 1), 1};

	cr_assert_eq(
		server_load(fake->harness.server, &source, 1, NULL, 0, harness_deadline(), fake_loaded, fake),
		0);
	close(source.fd);
	fake_receive(fake, PROTOCOL_SOURCE);
	fake_send(fake);
	fake_receive(fake, PROTOCOL_LOAD);
}

/* The fields of a good answer to a load; a test spoils one. */
struct loaded {
	uint32_t refused;
	const char *text;
	uint32_t n_booleans;
	uint32_t mls;
	uint32_t image_bytes;
	const char *operator_context;
	int image_fd;
};

static void fake_answer_load(struct fake *fake, const struct loaded *loaded)
{
	packet_put(&fake->packet, loaded->refused);
	packet_put_text(&fake->packet, loaded->text);
	packet_put(&fake->packet, 3);
	packet_put(&fake->packet, 4);
	packet_put(&fake->packet, loaded->n_booleans);
	packet_put(&fake->packet, loaded->mls);
	packet_put(&fake->packet, loaded->image_bytes);
	packet_put_text(&fake->packet, loaded->operator_context);
	fake->packet.fd = loaded->image_fd;
}

static void fake_load(struct fake *fake)
{
	struct loaded good = {0, "", 2, 1, 5, "u:r:operator_t:s0", harness_memfd("image", 5)};

	fake_open(fake);
	fake_begin_load(fake);
	fake_answer_load(fake, &good);
	fake_send(fake);
	cr_assert_eq(fake->status, 0);
	cr_assert_geq(fake->image_fd, 0);
	close(fake->image_fd);
	close(good.image_fd);
}

static size_t count_fds(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

Test(fake_server, garbled_load)
{
	static const char not_sealed[] = "image";
	static struct fake fake;
	int sealed = harness_memfd("image", 5);
	int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const struct loaded bad[] = {
		{2, "", 0, 1, 5, A, sealed},
		{1, "", 0, 1, 5, A, -1},
		{0, "", PROTOCOL_MAX_BOOLEANS + 1, 1, 5, A, sealed},
		{0, "", 0, 2, 5, A, sealed},
		{0, "", 0, 1, 4, A, sealed},
		{0, "", 0, 1, 6, A, sealed},
		{0, "", 0, 1, 0, A, sealed},
		{0, "", 0, 1, UINT32_MAX, A, sealed},
		{0, "", 0, 1, 5, "", sealed},
		{0, "", 0, 1, 5, A, -1},
		{0, "", 0, 1, 5, A, unsealed},
		{0, "", 0, 1, 5, A, STDIN_FILENO},
	};
	size_t n_fds = count_fds();

	cr_assert_eq(write(unsealed, not_sealed, 5), 5);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fake_open(&fake);
		fake_begin_load(&fake);
		fake_answer_load(&fake, &bad[i]);
		fake_send(&fake);
		cr_assert_eq(fake.status, -EPROTO, "%zu", i);
		cr_assert_eq(fake.n_answers, 1);
		cr_assert_not(server_alive(fake.harness.server));
		fake_close(&fake);
		cr_assert_eq(count_fds(), n_fds, "no descriptor stays");
	}
}

static void fake_decided(void *opaque, int status, const struct server_decision *decisions,
                         size_t n_decisions)
{
	struct fake *fake = opaque;

	cr_assert_eq(decisions == NULL, status != 0);
	cr_assert_eq(n_decisions, status ? 0 : 2);
	fake->status = status;
	fake->n_answers++;
}

/* Two questions about channels. */
static void fake_ask(struct fake *fake)
{
	static const char *const contexts[] = {A};
	static const struct server_question questions[] = {{0, 0, CLASS_CHANNEL}, {0, 0, CLASS_CHANNEL}};

	fake->status = 1;
	fake->n_answers = 0;
	cr_assert_eq(server_decide(fake->harness.server, contexts, 1, questions, 2, harness_deadline(),
	                           fake_decided, fake),
	             0);
	fake_receive(fake, PROTOCOL_DECIDE);
}

/* Answers with these numbers, as they are. */
static int fake_decide(const uint32_t *numbers, size_t n_numbers)
{
	static struct fake fake;

	fake_load(&fake);
	fake_ask(&fake);
	for (size_t i = 0; i < n_numbers; i++)
		packet_put(&fake.packet, numbers[i]);
	fake_send(&fake);
	cr_assert_eq(fake.n_answers, 1);
	cr_assert_eq(server_alive(fake.harness.server), fake.status == 0);
	fake_close(&fake);
	return fake.status;
}

#define DECIDE(...)                                                                                          \
	fake_decide((uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* Counts as asked, numbers in range. */
Test(fake_server, garbled_decisions)
{
	uint32_t all = class_all_permissions(CLASS_CHANNEL);

	cr_assert_eq(DECIDE(2, all, all, all, PROTOCOL_KNOWN, 0, 0, all, 0), 0);
	cr_assert_eq(DECIDE(2, all, all, all, PROTOCOL_KNOWN | PROTOCOL_PERMISSIVE, 0, 0, all, 0), 0);
	cr_assert_eq(DECIDE(2, all, all, all, PROTOCOL_KNOWN), -EPROTO, "short");
	cr_assert_eq(DECIDE(2, all, all, all, PROTOCOL_KNOWN, 0, 0, all), -EPROTO, "short by one");
	cr_assert_eq(DECIDE(2, all, all, all, PROTOCOL_KNOWN, 0, 0, all, 0, 0), -EPROTO, "long");
	cr_assert_eq(DECIDE(1, all, all, all, PROTOCOL_KNOWN), -EPROTO, "too few");
	cr_assert_eq(DECIDE(3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), -EPROTO, "too many");
	cr_assert_eq(DECIDE(UINT32_MAX, 0, 0, 0, 0, 0, 0, 0, 0), -EPROTO);
	cr_assert_eq(DECIDE(2, all + 1, 0, 0, PROTOCOL_KNOWN, 0, 0, 0, 0), -EPROTO, "no such permission");
	cr_assert_eq(DECIDE(2, 0, all + 1, 0, PROTOCOL_KNOWN, 0, 0, 0, 0), -EPROTO);
	cr_assert_eq(DECIDE(2, 0, 0, UINT32_MAX, PROTOCOL_KNOWN, 0, 0, 0, 0), -EPROTO);
	cr_assert_eq(DECIDE(2, 0, 0, 0, 1u << 7, 0, 0, 0, 0), -EPROTO, "no such flag");
	cr_assert_eq(DECIDE(2, 1, 0, 0, 0, 0, 0, 0, 0), -EPROTO, "unknown, and allowed all the same");
	cr_assert_eq(DECIDE(2, 0, 0, 0, PROTOCOL_PERMISSIVE, 0, 0, 0, 0), -EPROTO);
}

/* Bytes that are no packet, or not the answer that is due. */
Test(fake_server, garbled_packets)
{
	static const uint32_t garbage[][6] = {
		{0},
		{PROTOCOL_DECIDE, 0, 1, 0},
		{PROTOCOL_DECIDE, 8, 3, 0, 0, 0},
		{PROTOCOL_EXPLAIN, 8, 3, 0, 2, 0},
		{0, 8, 3, 0, 2, 0},
		{PROTOCOL_KINDS, 8, 3, 0, 2, 0},
		{PROTOCOL_DECIDE, 7, 3, 0, 2, 0},
		{PROTOCOL_DECIDE, UINT32_MAX, 3, 0, 2, 0},
		{PROTOCOL_DECIDE, 8, 2, 0, 2, 0},
		{PROTOCOL_DECIDE, 8, 4, 0, 2, 0},
		{PROTOCOL_DECIDE, 8, 3, 1, 2, 0},
	};
	static struct fake fake;

	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++)
		for (size_t bytes = 1; bytes <= sizeof(garbage[0]); bytes += i ? 23 : 1) {
			fake_load(&fake);
			fake_ask(&fake);
			cr_assert_eq(fake.packet.id, 3);
			cr_assert_eq(send(fake.fd, garbage[i], bytes, 0), (ssize_t)bytes);
			server_dispatch(fake.harness.server);
			cr_assert_eq(fake.status, -EPROTO, "%zu %zu", i, bytes);
			cr_assert_eq(fake.n_answers, 1);
			fake_close(&fake);
		}
}

Test(fake_server, packet_too_large)
{
	static char large[PROTOCOL_PACKET_BYTES + 64];
	static struct fake fake;

	fake_load(&fake);
	fake_ask(&fake);
	cr_assert_eq(send(fake.fd, large, sizeof(large), 0), (ssize_t)sizeof(large));
	server_dispatch(fake.harness.server);
	cr_assert_eq(fake.status, -EPROTO);
	fake_close(&fake);
}

Test(fake_server, unasked_answer)
{
	static struct fake fake;

	fake_load(&fake);
	packet_begin(&fake.packet, PROTOCOL_LOAD, 2);
	fake_send(&fake);
	cr_assert_not(server_alive(fake.harness.server));
	cr_assert_eq(server_booleans(fake.harness.server, harness_deadline(), NULL, NULL), -ECONNRESET);
	fake_close(&fake);
}

Test(fake_server, end_in_the_middle)
{
	static struct fake fake;

	fake_load(&fake);
	fake_ask(&fake);
	close(fake.fd);
	server_dispatch(fake.harness.server);
	cr_assert_eq(fake.status, -ECONNRESET);
	fake_close(&fake);
}

/* Descriptors that nobody asked for do not pile up. */
Test(fake_server, unasked_descriptors)
{
	static struct fake fake;
	size_t n_fds;
	int many[2] = {STDIN_FILENO, STDERR_FILENO};

	fake_load(&fake);
	fake_ask(&fake);
	n_fds = count_fds();
	packet_put(&fake.packet, 2);
	for (unsigned i = 0; i < 8; i++)
		packet_put(&fake.packet, 0);
	fake.packet.fd = STDIN_FILENO;
	fake_send(&fake);
	cr_assert_eq(fake.status, 0);
	cr_assert_eq(count_fds(), n_fds);
	fake_ask(&fake);
	cr_assert_eq(protocol_send_fds(fake.fd, 0, many, 2), 0);
	server_dispatch(fake.harness.server);
	cr_assert_eq(fake.status, -EPROTO);
	cr_assert_eq(count_fds(), n_fds);
	fake_close(&fake);
}

static void fake_text(void *opaque, int status, const char *text)
{
	struct fake *fake = opaque;

	fake->status = status;
	if (text)
		snprintf(fake->harness.text, sizeof(fake->harness.text), "%s", text);
}

static int fake_explain(struct fake *fake, uint32_t n, const char *bytes, size_t n_bytes)
{
	fake_load(fake);
	server_explain(fake->harness.server, A, A, CLASS_CHANNEL, CHANNEL_SEND, harness_deadline(), fake_text,
	               fake);
	fake_receive(fake, PROTOCOL_EXPLAIN);
	packet_put(&fake->packet, n);
	memcpy(fake->packet.bytes + fake->packet.used, bytes, n_bytes);
	fake->packet.used += n_bytes;
	fake_send(fake);
	fake_close(fake);
	return fake->status;
}

/* Texts end where they say, and carry nothing that a terminal or JSON would choke on. */
Test(fake_server, garbled_texts)
{
	static struct fake fake;

	cr_assert_eq(fake_explain(&fake, 4, "abc", 4), 0);
	cr_assert_str_eq(fake.harness.text, "abc");
	cr_assert_eq(fake_explain(&fake, 4, "abcd", 4), -EPROTO, "no NUL");
	cr_assert_eq(fake_explain(&fake, 4, "a\0c", 4), -EPROTO, "one too early");
	cr_assert_eq(fake_explain(&fake, 3, "abc", 4), -EPROTO);
	cr_assert_eq(fake_explain(&fake, 5, "abc", 4), -EPROTO);
	cr_assert_eq(fake_explain(&fake, 0, "", 0), -EPROTO);
	cr_assert_eq(fake_explain(&fake, UINT32_MAX, "abc", 4), -EPROTO);
	cr_assert_eq(fake_explain(&fake, 1, "", 1), -EPROTO, "an explanation says something");
	cr_assert_eq(fake_explain(&fake, 11, "\x1b[31m\xff\t\xc2\x9b\xc3", 11), 0);
	cr_assert_str_eq(fake.harness.text, "?[31m? ???");
	cr_assert_eq(fake_explain(&fake, 3, "\xc3\xa4", 3), 0);
	cr_assert_str_eq(fake.harness.text, "\xc3\xa4");
}
