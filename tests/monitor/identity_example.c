/* examples/store: each client's file arrives at the store of its own level. */
#define XXH_INLINE_ALL
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "tests/monitor/cli_child.h"
#include "tests/monitor/world.h"

/* The line that a sink logs for the file. */
static const char *line_of(const char *store, const char *path)
{
	static char line[128];
	char text[4096];
	FILE *file = fopen(path, "r");
	size_t bytes;

	cr_assert_not_null(file);
	bytes = fread(text, 1, sizeof(text), file);
	fclose(file);
	snprintf(line, sizeof(line), "store/%s: xxh3 %016llx bytes %zu", store,
	         (unsigned long long)XXH3_64bits(text, bytes), bytes);
	return line;
}

Test(identity, example_store)
{
	struct child child;

	need_kvm();
	child = RUN("run", "examples/store/store.conf", "--socket", test_path("store"));
	cr_assert(strstr(child.err, line_of("public-store", "examples/store/public.txt")), "%s", child.err);
	cr_assert(strstr(child.err, line_of("secret-store", "examples/store/secret.txt")), "%s", child.err);
	EXPECT(child, 0, "");
}

Test(identity, example_store_is_well_formed)
{
	struct child child;

	child = RUN("check", "examples/store/store.conf");
	EXPECT(child, 0, "");
}
