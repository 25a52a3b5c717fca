/*
 * Hostile clients of the control socket (H7, H8, H11): whatever they send, keep
 * back or break off, they get an error or are dropped, the monitor goes on and keeps nothing of theirs.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monitor/client.h"
#include "monitor/loop.h"
#include "monitor/manifest.h"
#include "tests/monitor/cli_child.h"

#define BASE "policy/base.cil"
#define DEMO "examples/demo/demo.cil"
#define PATIENCE_NS 20000000000ull
#define MOST_FDS 64

struct target {
	struct child child;
	const char *path;
	unsigned n_fds;
};

static unsigned count_fds(pid_t pid)
{
	char path[64];
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void begin_with(struct target *target, const char *manifest)
{
	struct child ask;

	target->path = test_path("s");
	if (manifest)
		target->child = START("serve", manifest, "--programs", "build/domains", "--policy", BASE,
		                      "--policy", DEMO, "--socket", target->path);
	else
		target->child = START("serve", "--policy", BASE, "--policy", DEMO, "--socket", target->path);
	ask = RUN("status", "--until", "running", "--deadline", "30", "--socket", target->path);
	EXPECT(ask, 0, "");
	target->n_fds = count_fds(target->child.pid);
}

static void begin(struct target *target)
{
	begin_with(target, NULL);
}

/* It still serves, in the state that it was in, and has no descriptor more than before. */
static void end(struct target *target)
{
	uint64_t deadline = loop_now() + PATIENCE_NS;
	struct client_reply reply;
	json_t *request = json_pack("{s:s}", "verb", "status"), *body;
	char why[WHY_BYTES];

	do /* what was sent last may still be on its way */
		cr_assert_eq(
			client_call(target->path, request, NULL, 0, loop_now() + PATIENCE_NS, &reply, why), 0,
			"%s", why);
	while (count_fds(target->child.pid) > target->n_fds + 1 && loop_now() < deadline &&
	       (client_reply_clear(&reply), true));
	cr_expect_eq(reply.status, 0);
	cr_expect_leq(count_fds(target->child.pid), target->n_fds + 1);
	body = client_body(&reply);
	cr_expect_eq(json_integer_value(json_object_get(body, "policy_number")), 1);
	json_decref(body);
	json_decref(request);
	client_reply_clear(&reply);
	child_signal(&target->child, SIGTERM);
	child_finish(&target->child);
	EXPECT(target->child, 0, "");
}

static int dial(const struct target *target)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval patience = {20, 0};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, target->path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0, "%m");
	return fd;
}

static bool send_raw(int fd, const void *bytes, size_t n, const int *fds, size_t n_fds)
{
	union {
		char bytes[CMSG_SPACE(MOST_FDS * sizeof(int))];
		struct cmsghdr align;
	} ancillary = {{0}};
	struct iovec part = {(void *)bytes, n};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

	if (n_fds) {
		ancillary.align.cmsg_level = SOL_SOCKET;
		ancillary.align.cmsg_type = SCM_RIGHTS;
		ancillary.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(&ancillary.align), fds, n_fds * sizeof(int));
		header.msg_control = ancillary.bytes;
		header.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	}
	return sendmsg(fd, &header, MSG_NOSIGNAL) == (ssize_t)n;
}

/* Sends it on a connection of its own; the reply must be an error that holds the text. */
static void refused(const struct target *target, const void *bytes, size_t n, const int *fds, size_t n_fds,
                    const char *error)
{
	struct client_reply reply;
	char why[WHY_BYTES];
	int fd = dial(target);

	cr_assert(send_raw(fd, bytes, n, fds, n_fds), "%m");
	cr_assert_eq(client_receive(fd, loop_now() + PATIENCE_NS, &reply, why), 0, "%s: %s", error, why);
	cr_expect_eq(reply.status, 1);
	cr_expect(strstr(reply.error, error), "expected \"%s\": %s", error, reply.error);
	cr_expect_eq(reply.body_fd, -1);
	client_reply_clear(&reply);
}

#define REFUSED(target, text, fds, n_fds, error) refused(target, text, strlen(text), fds, n_fds, error)

static void refused_text(const struct target *target, const char *text, const char *error)
{
	refused(target, text, strlen(text), NULL, 0, error);
}

/* ---- requests that are none ---- */

Test(control, what_is_no_request_is_refused)
{
	static char large[MAX_CONTROL_REQUEST_BYTES + 1];
	struct target target;

	begin(&target);
	refused_text(&target, "hello", "bad request: no JSON");
	refused_text(&target, "{", "bad request: no JSON");
	refused_text(&target, "[]", "a request is a JSON object");
	refused_text(&target, "{}", "the request has no verb");
	refused_text(&target, "{\"verb\": 5}", "the request has no verb");
	refused_text(&target, "{\"verb\": \"statsu\"}", "did you mean \"status\"?");
	refused_text(&target, "{\"verb\": \"status\", \"verb\": \"status\"}", "bad request: no JSON");
	refused_text(&target, "{\"verb\": \"status\", \"extra\": 1}", "bad request: status: ");
	refused_text(&target, "{\"verb\": \"audit\", \"lines\": -1}", "audit: lines is 0 to 4096");
	refused_text(&target, "{\"verb\": \"audit\", \"lines\": 1e99}", "bad request: audit");
	refused_text(&target, "{\"verb\": \"audit\", \"after\": -9223372036854775808}",
	             "after a serial number");
	refused_text(&target, "{\"verb\": \"guest stop\"}", "bad request: guest stop");
	refused_text(&target, "{\"verb\": \"guest stop\", \"guest\": \"\\u0000\"}", "bad request");
	refused_text(
		&target,
		"{\"verb\": \"policy query\", \"source\": \"a\", \"target\": \"b\", \"class\": \"channel\"}",
		"\"a\" is neither a context");
	refused_text(&target,
	             "{\"verb\": \"policy explain\", \"source\": \"a:b\", \"target\": \"b:c\", \"class\": "
	             "\"channel\"}",
	             "which permission");
	refused(&target, "\0\1\2\3\377", 5, NULL, 0, "bad request: no JSON");
	memset(large, '[', sizeof(large));
	refused(&target, large, 60000, NULL, 0, "bad request: no JSON");
	memset(large, ' ', sizeof(large));
	refused(&target, large, sizeof(large), NULL, 0, "a request has at most 65536 bytes");
	end(&target);
}

/* Mutations of a good request, reproducible: an error or an answer, and the monitor goes on. */
Test(control, mutated_requests)
{
	static const char good[] =
		"{\"verb\": \"policy query\", \"source\": \"a:b:c:s0\", \"target\": \"a:b:d:s0\", "
		"\"class\": \"channel\", \"permission\": \"send\"}";
	uint64_t random = 1;
	struct target target;

	begin(&target);
	for (unsigned round = 0; round < 500; round++) {
		struct client_reply reply;
		char text[sizeof(good)], why[WHY_BYTES];
		int fd = dial(&target);

		memcpy(text, good, sizeof(good));
		for (unsigned i = 0; i <= round % 4; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			text[(random >> 33) % (sizeof(good) - 1)] = (char)(random >> 56);
		}
		cr_assert(send_raw(fd, text, sizeof(good) - 1, NULL, 0));
		cr_expect_eq(client_receive(fd, loop_now() + PATIENCE_NS, &reply, why), 0, "%s: %s", text,
		             why);
		client_reply_clear(&reply);
	}
	end(&target);
}

/* ---- descriptors ---- */

#define PUSH "{\"verb\": \"policy push\", \"files\": [\"x.cil\"]}"

static int memory_file(unsigned seals, const char *text)
{
	int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

Test(control, descriptors_that_are_no_sealed_files)
{
	const unsigned all = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	struct target target;
	int ends[2], many[MAX_POLICY_FILES + 1], fd;

	begin(&target);
	cr_assert_eq(pipe(ends), 0);
	REFUSED(&target, PUSH, &ends[0], 1, "descriptor 1 is not a memfd sealed");
	REFUSED(&target, PUSH, &ends[1], 1, "descriptor 1 is not a memfd sealed");
	fd = open(BASE, O_RDONLY);
	REFUSED(&target, PUSH, &fd, 1, "descriptor 1 is not a memfd sealed");
	fd = memory_file(0, "(block)");
	REFUSED(&target, PUSH, &fd, 1, "descriptor 1 is not a memfd sealed");
	fd = memory_file(F_SEAL_WRITE | F_SEAL_GROW, "(block)");
	REFUSED(&target, PUSH, &fd, 1, "descriptor 1 is not a memfd sealed");
	fd = memory_file(all, "");
	REFUSED(&target, PUSH, &fd, 1, "descriptor 1 holds 0 bytes");
	refused_text(&target, PUSH, "files has one name for each descriptor");
	fd = memory_file(all, "(block)");
	for (unsigned i = 0; i <= MAX_POLICY_FILES; i++)
		many[i] = fd;
	REFUSED(&target, PUSH, many, 2, "files has one name for each descriptor");
	REFUSED(&target, PUSH, many, MAX_POLICY_FILES + 1, "at most 32 descriptors");
	REFUSED(&target, "{\"verb\": \"status\"}", many, 1, "status takes at most 0 descriptors");
	REFUSED(&target, "{\"verb\": \"policy push\", \"files\": [5]}", many, 1, "files has names");
	REFUSED(&target, "{\"verb\": \"policy push\", \"files\": [\"x\"], \"stop\": \"some\"}", many, 1,
	        "stop mode \"some\"");
	end(&target);
}

Test(control, a_huge_policy_is_refused_by_its_size)
{
	const unsigned all = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	struct target target;
	int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	begin(&target);
	cr_assert_eq(ftruncate(fd, (off_t)MAX_POLICY_BYTES + 1), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, all), 0);
	REFUSED(&target, PUSH, &fd, 1, "descriptor 1 holds 67108865 bytes");
	end(&target);
}

/* ---- clients that break off, or never listen ---- */

Test(control, clients_that_break_off)
{
	static const char *const requests[] = {"{\"verb\": \"status\"}", "{\"verb\": \"audit\"}", "garbage",
	                                       "{\"verb\": \"policy query\", \"source\": \"a:b:c:s0\", "
	                                       "\"target\": \"a:b:c:s0\", \"class\": \"channel\"}"};
	struct target target;

	begin(&target);
	for (unsigned i = 0; i < 400; i++) {
		const char *request = requests[i % 4];
		int fd = dial(&target);

		if (i % 5)
			send_raw(fd, request, strlen(request), NULL, 0);
		close(fd);
	}
	end(&target);
}

/* Policies whose pusher has gone: each is dropped in prepare, or was never begun. */
Test(control, a_push_whose_client_has_gone_is_dropped)
{
	const unsigned all = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	struct target target;

	begin(&target);
	for (unsigned i = 0; i < 20; i++) {
		int fd = dial(&target), policy = memory_file(all, "(block nothing_that_is_a_policy)");

		send_raw(fd, PUSH, strlen(PUSH), &policy, 1);
		close(policy);
		close(fd);
	}
	end(&target);
}

Test(control, a_client_that_does_not_read_is_dropped)
{
	struct target target;
	unsigned n = 0;
	int fd;

	begin(&target);
	fd = dial(&target);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (n < 100000 && send_raw(fd, "{\"verb\": \"status\"}", 18, NULL, 0))
		n++;
	cr_expect_lt(n, 100000, "the monitor took everything");
	close(fd);
	end(&target);
}

Test(control, too_many_clients)
{
	int fds[MAX_CONTROL_CLIENTS + 8];
	unsigned n_refused = 0;
	struct target target;

	begin(&target);
	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		char text[512] = "";

		fds[i] = dial(&target);
		if (i < MAX_CONTROL_CLIENTS)
			continue;
		cr_expect_gt(recv(fds[i], text, sizeof(text) - 1, 0), 0, "client %u: %m", i);
		n_refused += strstr(text, "too many clients") != NULL;
	}
	cr_expect_eq(n_refused, 8);
	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		close(fds[i]);
	end(&target);
}

/* ---- who they are ---- */

/* The error that the uid gets; "" if it is served. */
static void ask_as(const struct target *target, uid_t uid, char error[static WHY_BYTES])
{
	int ends[2], status;
	pid_t child;

	cr_assert_eq(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		json_t *request = json_pack("{s:s}", "verb", "status");
		struct client_reply reply = {.error = NULL};
		char why[WHY_BYTES] = "";

		if (setgroups(0, NULL) || setgid(uid) || setuid(uid))
			_exit(1);
		if (client_call(target->path, request, NULL, 0, loop_now() + PATIENCE_NS, &reply, why) == 0)
			snprintf(why, sizeof(why), "%s", reply.error);
		_exit(write(ends[1], why, sizeof(why)) == sizeof(why) ? 0 : 1);
	}
	waitpid(child, &status, 0);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert_eq(read(ends[0], error, WHY_BYTES), WHY_BYTES);
	close(ends[0]);
	close(ends[1]);
}

static void need_root(void)
{
	if (geteuid() != 0)
		cr_skip_test("only root can be somebody else");
}

Test(control, others_cannot_even_connect)
{
	struct target target;
	char error[WHY_BYTES];

	need_root();
	begin(&target);
	cr_assert_eq(chmod(test_folder(), 0755), 0);
	ask_as(&target, 12345, error);
	cr_expect(strstr(error, "access denied"), "%s", error);
	end(&target);
}

Test(control, a_uid_is_what_the_manifest_says)
{
	const char *manifest = test_file(
		"m.conf",
		"name = \"g\";\nclients = ( { uid = 12345; context = \"system_u:system_r:client_t:s0\"; },\n"
		"{ uid = 12346; context = \"system_u:operator_r:operator_t:s0\"; } );\n"
		"domains = ( { name = \"a\"; program = \"echo\"; context = "
		"\"system_u:system_r:server_t:s0\"; } );\n");
	struct target target;
	char error[WHY_BYTES];

	need_root();
	need_kvm();
	begin_with(&target, manifest);
	cr_assert_eq(chmod(test_folder(), 0755), 0);
	ask_as(&target, 12345, error);
	cr_expect(strstr(error, "access denied: system_u:system_r:client_t:s0 lacks"), "%s", error);
	cr_expect(strstr(error, "monitor { getattr }") || strstr(error, "monitor:{ getattr }") ||
	                  strstr(error, "getattr"),
	          "%s", error);
	ask_as(&target, 12346, error);
	cr_expect_str_eq(error, "");
	ask_as(&target, 12347, error);
	cr_expect(strstr(error, "uid 12347 has no context here"), "%s", error);
	end(&target);
}
