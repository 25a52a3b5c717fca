/*
 * Ports in manifests: each mistake is one line that says where and what; a port that cannot be opened ends
 * the start.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "monitor/manifest.h"
#include "tests/monitor/port_support.h"

#define HEAD                                                                                                 \
	"name = \"g\"; policy = ( \"p.cil\" );\n"                                                            \
	"domains = ( { name = \"a\"; program = \"echo\"; context = \"u:r:t:s0\"; } );\n"                     \
	"ports = (\n"
#define NAME_OF_90                                                                                           \
	"012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
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
	{PORT("connect", "socket = \"/" NAME_OF_90 "\";"), "the name of a socket to connect to has at most"},
	{PORT("listen", "socket = \"s\"; to = \"s\"; }, { name = \"y\"; kind = \"listen\"; context = "
                        "\"u:r:t:s0\"; to = \"s\"; socket = \"s\";"),
         "port \"x\" in line 4 listens there already"},
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
	refused(&world, WEB("%s", "stream", ""), test_path("none/web.sock"),
	        "none/web.sock: there is no folder ");
	refused(&world, WEB("%s", "stream", ""), test_path("web.sock/x"), "web.sock is no folder");
	refused(&world, FILE_PORT, test_path("none"), "No such file");
	refused(&world, FILE_PORT, test_folder(), "is no regular file");
	fd = client_open(path, SOCK_STREAM); /* the first is still there */
	port_accept(&world, "two");
	close(fd);
	world_close(&world);
}

/* ---- check ---- */

#define CHECKED                                                                                              \
	"name = \"g\";\ndomains = ( { name = \"a\"; program = \"echo\"; offers = ( \"shop\" ); context = "   \
	"\"system_u:system_r:server_t:s0\"; } );\nports = (\n{ name = \"p\"; context = "                     \
	"\"system_u:system_r:client_t:s0\"; %s } );"
#define LISTEN(path) "kind = \"listen\"; to = \"shop\"; socket = \"" path "\";"
#define CONNECT(path) "kind = \"connect\"; socket = \"" path "\";"
#define READ(path) "kind = \"file\"; file = \"" path "\";"
#define APPEND(path) READ(path) " access = \"append\";"

/* In a folder with: a file, a folder, a symbolic link, a pipe, a socket that somebody serves. */
static const struct {
	const char *port, *says; /* says: ""; "warning: ..."; an error */
} places[] = {
	{LISTEN("new.sock"), ""},
	{LISTEN("none/new.sock"), "none/new.sock: its folder "},
	{LISTEN("file/new.sock"), "file is no folder"},
	{LISTEN("file"), "file: exists and is no socket"},
	{LISTEN("link"), "link: exists and is no socket"},
	{LISTEN("served.sock"), "warning: "},
	{CONNECT("served.sock"), ""},
	{CONNECT("none.sock"), "warning: "},
	{CONNECT("file"), "warning: "},
	{CONNECT("none/none.sock"), "none/none.sock: its folder "},
	{READ("file"), ""},
	{READ("none"), "none: No such file"},
	{READ("folder"), "is no regular file"},
	{READ("link"), "is no regular file"},
	{READ("pipe"), "is no regular file"},
	{READ("served.sock"), "is no regular file"},
	{READ("/dev/zero"), "is no regular file"},
	{APPEND("file"), ""},
	{APPEND("none"), ""},
	{APPEND("none/none"), "none/none: its folder "},
	{APPEND("folder"), "is no regular file"},
};

/* As what run would say of each, which is told too: nothing but run makes or opens anything. */
static void expect_place(size_t i, bool run)
{
	char text[1024];
	struct child child;
	bool warns = strncmp(places[i].says, "warning: ", 9) == 0, wrong = *places[i].says && !warns;
	const char *manifest;

	snprintf(text, sizeof(text), CHECKED, places[i].port);
	manifest = test_file("m.conf", text);
	child = RUN("check", manifest, "--programs", "build/domains", "--policy", "policy/base.cil",
	            "--policy", "examples/demo/demo.cil");
	cr_expect(!*places[i].says == !*child.err, "%s: %s", places[i].port, child.err);
	cr_expect(!*places[i].says || strstr(child.err, "m.conf:4: port \"p\": "), "%s: %s", places[i].port,
	          child.err);
	EXPECT(child, wrong, places[i].says);
	if (!run || !wrong)
		return;
	child = RUN("run", manifest, "--programs", "build/domains", "--policy", "policy/base.cil", "--policy",
	            "examples/demo/demo.cil", "--socket", test_path("s"));
	EXPECT(child, 1, "m.conf:4: port \"p\": ");
}

Test(port_manifest, check_finds_what_run_refuses)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat status;
	bool kvm = access("/dev/kvm", R_OK | W_OK) == 0;

	test_file("file", "kept");
	cr_assert_eq(mkdir(test_path("folder"), 0700), 0);
	cr_assert_eq(symlink("file", test_path("link")), 0);
	cr_assert_eq(mkfifo(test_path("pipe"), 0600), 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", test_path("served.sock"));
	cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		expect_place(i, kvm);
	cr_expect_eq(stat(test_path("file"), &status), 0);
	cr_expect_eq(status.st_size, 4);
	cr_expect_lt(access(test_path("none"), F_OK), 0, "check makes nothing");
	cr_expect_lt(access(test_path("new.sock.lock"), F_OK), 0);
	cr_expect_lt(accept4(fd, NULL, NULL, SOCK_CLOEXEC), 0, "check connects to nobody");
	close(fd);
}
