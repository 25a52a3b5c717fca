/*
 * The examples of docs/ports.md do what the page says: its shell blocks are taken from there.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/monitor/cli_child.h"

#define PAGE "docs/ports.md"
#define BEGIN "\n```sh\n"
#define PROGRAM "build/portcullis"
#define NOTES "examples/ports/notes.log"

/* Nothing is left behind, and the first command that fails ends it. */
#define PROLOGUE "set -e; trap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n"

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
