/*
 * The example in docs/control-protocol.md does what the page says.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/monitor/cli_child.h"

#define PAGE "docs/control-protocol.md"

/* The first Python block of the page, as a file. */
static const char *example(void)
{
	static char page[64u << 10];
	FILE *file = fopen(PAGE, "re");
	size_t n = file ? fread(page, 1, sizeof(page) - 1, file) : 0;
	char *start, *end;

	cr_assert(n > 0, "%s", PAGE);
	fclose(file);
	start = strstr(page, "```python\n");
	cr_assert_not_null(start);
	start += strlen("```python\n");
	end = strstr(start, "```");
	cr_assert_not_null(end);
	*end = '\0';
	return test_file("example.py", start);
}

Test(control, the_example_of_the_page_runs)
{
	const char *path = test_path("s");
	struct child server = START("serve", "--policy", "policy/base.cil", "--policy",
	                            "examples/demo/demo.cil", "--socket", path);
	struct child child = RUN("status", "--until", "running", "--deadline", "30", "--socket", path);

	EXPECT(child, 0, "");
	setenv("PORTCULLIS_SOCKET", path, 1);
	child = child_start_program("python3", (const char *const[]){example(), NULL});
	child_finish(&child);
	cr_expect_str_eq(child.out, "policy 1\na push would cut 0 flows\n", "%s%s", child.out, child.err);
	EXPECT(child, 0, "");
	child_signal(&server, SIGTERM);
	child_finish(&server);
	EXPECT(server, 0, "");
}
