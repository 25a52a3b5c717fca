/*
 * Ports in manifests: each mistake is one line that says where and what; a port that cannot be opened ends
 * the start.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/manifest.h"
#include "tests/monitor/port_support.h"

#define HEAD                                                                                                 \
	"name = \"g\"; policy = ( \"p.cil\" );\n"                                                            \
	"domains = ( { name = \"a\"; program = \"echo\"; context = \"u:r:t:s0\"; } );\n"                     \
	"ports = (\n"
#define PORT(kind, more) HEAD "{ name = \"x\"; kind = \"" kind "\"; context = \"u:r:t:s0\"; " more " } );"

static const struct {
	const char *text, *message;
} mistakes[] = {
	{HEAD "5 );", "ports: expected {"},
	{HEAD "{ kind = \"stdio\"; } );", "a port needs a name"},
	{HEAD "{ name = \"x\"; } );", "port \"x\" needs a kind"},
	{HEAD "{ name = \"x\"; kind = \"stdio\"; } );", "port \"x\" needs a context"},
	{PORT("listn", ""), "kind = \"listn\" is not one of listen, connect, stdio, file; did you mean"},
	{PORT("listen", "to = \"s\";"), "port \"x\" needs a socket"},
	{PORT("listen", "socket = \"s\";"), "needs the service that its clients reach"},
	{PORT("listen", "socket = \"s\"; to = \"a b\";"), "service name \"a b\": character 2"},
	{PORT("listen", "socket = \"s\"; to = \"s\"; offers = \"x\";"), "has no key \"offers\""},
	{PORT("listen", "socket = \"s\"; to = \"s\"; type = \"dgram\";"), "is not one of stream, seqpacket"},
	{PORT("listen", "socket = \"s\"; to = \"s\"; mode = \"9\";"), "expected octal digits"},
	{PORT("listen", "socket = \"s\"; to = \"s\"; connections = 0;"), "connections = 0 is out of range"},
	{PORT("listen", "socket = \"s\"; to = \"s\"; connections = 2; per_client = 3;"),
         "per_client = 3 is out of range"},
	{PORT("connect", "socket = \"s\"; to = \"s\";"), "has no key \"to\""},
	{PORT("stdio", "to = \"s\"; offers = \"x\";"), "not both"},
	{PORT("stdio", "streams = \"err\";"), "is not one of both, in, out"},
	{PORT("file", ""), "port \"x\" needs a file"},
	{PORT("file", "file = \"f\"; access = \"write\";"), "is not one of read, append"},
	{PORT("file", "file = \"f\"; connections = 17;"), "connections = 17 is out of range"},
	{PORT("stdio", "}, { name = \"x\"; kind = \"stdio\"; context = \"u:r:t:s0\";"),
         "a second port \"x\""},
};

Test(port_manifest, every_mistake_is_a_line)
{
	struct manifest_options options;

	test_file("echo.elf", "not looked at here");
	test_file("p.cil", "(block)");
	options = (struct manifest_options){.program_dir = test_folder()};
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		const char *path = test_file("m.conf", mistakes[i].text);
		struct manifest *manifest;
		char why[WHY_BYTES] = "", place[256];

		snprintf(place, sizeof(place), "%s:4: ", path);
		cr_expect_lt(manifest_load(path, &options, &manifest, why), 0, "accepted: %s",
		             mistakes[i].text);
		cr_expect_eq(strncmp(why, place, strlen(place)), 0, "%s: %s", mistakes[i].text, why);
		cr_expect(strstr(why, mistakes[i].message), "%s: \"%s\": %s", mistakes[i].text,
		          mistakes[i].message, why);
	}
}

Test(port_manifest, what_is_right_is_read)
{
	struct manifest_options options;
	struct manifest *manifest;
	const char *path;
	char why[WHY_BYTES];

	test_file("echo.elf", "not looked at here");
	test_file("p.cil", "(block)");
	options = (struct manifest_options){.program_dir = test_folder()};
	path = test_file("m.conf",
	                 PORT("listen", "socket = \"s\"; to = \"g/s\"; mode = \"0660\"; per_client = 3;"));
	cr_assert_eq(manifest_load(path, &options, &manifest, why), 0, "%s", why);
	cr_assert_eq(manifest->n_ports, 1);
	cr_expect_eq(manifest->ports[0].kind, PORT_LISTEN);
	cr_expect_str_eq(manifest->ports[0].to, "g/s");
	cr_expect_str_eq(manifest->ports[0].path, test_path("s"), "relative to the manifest");
	cr_expect_eq(manifest->ports[0].mode, 0660);
	cr_expect_eq(manifest->ports[0].connections, 16);
	cr_expect_eq(manifest->ports[0].per_client, 3);
	manifest_free(manifest);
}

/* Whoever starts a second monitor on the same socket, or names what is no file, is told so. */
static void refused(struct world *world, const char *port, const char *path, const char *says)
{
	static char text[8192];
	char filled[1024];
	char *why = NULL;
	struct stage *stage;
	struct stage_options options = {.manifest = text,
	                                .policies = POLICY_OPEN,
	                                .n_policies = 3,
	                                .launcher = world->launcher,
	                                .quiet = true};

	snprintf(filled, sizeof(filled), port, path);
	snprintf(text, sizeof(text), "%s\nports = ( %s );\n", MANIFEST_USUAL, filled);
	cr_assert_lt(stage_open(&options, &stage, &why), 0);
	cr_expect(why && strstr(why, says), "\"%s\" is not in: %s", says, why ? why : "");
	cr_expect(why && strstr(why, "port \""), "it names the port: %s", why ? why : "");
	free(why);
}

#define FILE_PORT "{ name = \"log\"; kind = \"file\"; context = \"" SUBJECT("one_t") "\"; file = \"%s\"; }"

Test(port_manifest, what_cannot_be_opened_ends_the_start)
{
	const char *path = test_path("web.sock");
	struct world world;
	int fd;

	port_open_world(&world, WEB("%s", "stream", ""), path);
	refused(&world, WEB("%s", "stream", ""), path, "serves this socket");
	refused(&world, FILE_PORT, test_path("none"), "No such file");
	refused(&world, FILE_PORT, test_folder(), "is no regular file");
	fd = client_open(path, SOCK_STREAM); /* the first is still there */
	port_accept(&world, "two");
	close(fd);
	world_close(&world);
}
