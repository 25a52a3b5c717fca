/*
 * The examples of docs/ports.md do what the page says: its shell blocks are taken from there.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/monitor/cli_child.h"

#define PAGE "docs/ports.md"
#define BEGIN "\n```sh\n"
#define PROGRAM "build/portcullis"
#define NOTES "examples/ports/notes.log"

/* One block at a time: their sockets have one place. Nothing is left behind, and the first command that fails
 * ends it. */
#define PROLOGUE                                                                                             \
	"set -e; exec 9>build/port_example.lock; flock -w 300 9\n"                                           \
	"trap 'kill $(jobs -p) 2>/dev/null || :; wait' EXIT; rm -f examples/ports/db.sock\n"

static char *read_all(const char *path)
{
	static char text[64u << 10];
	FILE *file = fopen(path, "re");
	size_t n;

	cr_assert_not_null(file, "%s", path);
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	return text;
}

/* With the program that belongs to this test. */
static void append_line(char *script, size_t bytes, const char *line, size_t length)
{
	char program[512];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	size_t at = strlen(script);
	bool ours = strncmp(line, PROGRAM, strlen(PROGRAM)) == 0;

	cr_assert_gt(n, 0);
	program[n] = '\0';
	*strrchr(program, '/') = '\0';
	if (ours)
		at += (size_t)snprintf(script + at, bytes - at, "%s/../portcullis", program);
	line += ours ? strlen(PROGRAM) : 0;
	length -= ours ? strlen(PROGRAM) : 0;
	cr_assert_lt(at + length, bytes);
	snprintf(script + at, bytes - at, "%.*s", (int)length, line);
}

/* The block of the page that has this text. */
static const char *block(const char *having)
{
	static char script[8192];

	for (const char *at = strstr(read_all(PAGE), BEGIN); at; at = strstr(at, BEGIN)) {
		const char *line = at + strlen(BEGIN), *end = strstr(line, "```");

		cr_assert_not_null(end);
		at = end;
		snprintf(script, sizeof(script), PROLOGUE);
		while (line < end) {
			size_t length = strcspn(line, "\n") + 1;

			append_line(script, sizeof(script), line, length);
			line += length;
		}
		if (strstr(script, having))
			return script;
	}
	cr_assert_fail("%s has no block with %s", PAGE, having);
	return NULL;
}

static void expect_printed(const char *having, const char *printed)
{
	struct child child;

	need_kvm();
	setenv("PORTCULLIS_SOCKET", test_path("control"), 1);
	child = child_start_program("sh", (const char *const[]){"-c", block(having), NULL});
	child_finish(&child);
	cr_expect_str_eq(child.out, printed, "%s%s", child.out, child.err);
	EXPECT(child, 0, "");
}

Test(port_example, listen)
{
	expect_printed("listen.conf", "hello\n");
}

Test(port_example, seqpacket)
{
	expect_printed("seqpacket.conf", "one\ntwo\nthree\n");
}

Test(port_example, connect)
{
	expect_printed("connect.conf", "");
}

/* A server of the host that closes in between: the domain connects anew, and goes on where it was. */
Test(port_example, a_server_that_closes)
{
	const char *script, *server;
	struct child child;
	char *closing;

	need_kvm();
	setenv("PORTCULLIS_SOCKET", test_path("control"), 1);
	script = block("EXEC:cat");
	server = strstr(script, "EXEC:cat");
	cr_assert_gt(asprintf(&closing, "%.*sEXEC:'dd bs=32 count=3 status=none'%s", (int)(server - script),
	                      script, server + strlen("EXEC:cat")),
	             0);
	child = child_start_program("sh", (const char *const[]){"-c", closing, NULL});
	child_finish(&child);
	cr_expect(strstr(child.err, "peer closed after 3 messages"), "%s", child.err);
	EXPECT(child, 0, "asker/asker: 5 messages");
	free(closing);
}

Test(port_example, append)
{
	char *once, *twice;

	unlink(NOTES);
	once = strdup(read_all("examples/ports/ports.cil"));
	expect_printed("append.conf", once);
	cr_assert_gt(asprintf(&twice, "%s%s", once, once), 0);
	expect_printed("append.conf", twice);
	unlink(NOTES);
	free(once);
	free(twice);
}

/* One message to a port, as `append` has it; more: the port's keys. */
static const char *one_message(const char *more)
{
	char text[2048], folder[512];

	cr_assert_not_null(getcwd(folder, sizeof(folder)));
	snprintf(text, sizeof(text),
	         "name = \"writer\"; policy = ( \"%s/policy/base.cil\", \"%s/examples/ports/ports.cil\" );\n"
	         "domains = ( { name = \"writer\"; program = \"source\"; args = ( \"notes\" ); context = "
	         "\"system_u:system_r:writer_t:s0\"; data = \"%s/examples/ports/ports.cil\"; } );\n"
	         "ports = ( { name = \"notes\"; context = \"system_u:system_r:notes_t:s0\"; %s } );",
	         folder, folder, folder, more);
	return test_file("m.conf", text);
}

static struct child run_limited(const char *before, const char *manifest, const char *after)
{
	char program[512], line[1024];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	cr_assert_gt(n, 0);
	program[n] = '\0';
	*strrchr(program, '/') = '\0';
	snprintf(line, sizeof(line), "%s exec %s/../portcullis run %s --socket %s %s", before, program,
	         manifest, test_path("control"), after);
	return child_start_program("sh", (const char *const[]){"-c", line, NULL});
}

/* The last bytes of all are as little lost in silence as others. */
Test(port_example, a_last_write_that_fails)
{
	struct child child;

	need_kvm();
	child = run_limited("", one_message("kind = \"stdio\"; streams = \"out\";"), ">/dev/full");
	child_finish(&child);
	EXPECT(child, 1, "domain=\"notes\" No space left on device");
}

/* A limit on the size of files is an error of the port, not the end of all guests by a signal. */
Test(port_example, a_file_past_a_limit)
{
	const off_t limit = 64ll << 30; /* above what guests' memory takes */
	const char *path = test_path("notes.log");
	char keys[512], before[64];
	struct child child;
	int fd;

	need_kvm();
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (ftruncate(fd, limit))
		cr_skip_test("no file can be as large here");
	close(fd);
	snprintf(keys, sizeof(keys), "kind = \"file\"; access = \"append\"; file = \"%s\";", path);
	snprintf(before, sizeof(before), "ulimit -f %lld;", (long long)limit / 512);
	child = run_limited(before, one_message(keys), "");
	child_finish(&child);
	EXPECT(child, 1, "notes.log: File too large");
}

Test(port_example, each_is_well_formed)
{
	static const char *const manifests[] = {"listen", "seqpacket", "connect", "append"};

	for (size_t i = 0; i < sizeof(manifests) / sizeof(manifests[0]); i++) {
		char path[128];
		struct child child;

		snprintf(path, sizeof(path), "examples/ports/%s.conf", manifests[i]);
		child = RUN("check", path);
		EXPECT(child, 0, "");
	}
}
