/*
 * Real clients of libvirt: virsh, python3-libvirt, prometheus-libvirt-exporter and collectd, unmodified, and
 * hostile ones, against the program. What they are to see is in clients.py; here the monitor is started.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/monitor/cli_child.h"

/* uid 65534 may look, and no more. */
static const char looker_policy[] = "(type looker_t)\n"
				    "(roletype system_r looker_t)\n"
				    "(allow looker_t operator_t (guest (getattr)))\n";

static const char *copy_file(const char *from, const char *to, const char *edit)
{
	char command[1024];

	snprintf(command, sizeof(command), "sed '%s' '%s' >'%s'", edit, from, to);
	cr_assert_eq(system(command), 0, "%s", command);
	return to;
}

/* What guests that are defined may name. */
static const char *make_images(void)
{
	const char *folder = test_path("images");
	char command[1024];

	cr_assert_eq(mkdir(folder, 0755), 0);
	snprintf(command, sizeof(command),
	         "ln build/domains/*.elf '%s' 2>/dev/null || cp build/domains/*.elf '%s'", folder, folder);
	cr_assert_eq(system(command), 0);
	copy_file("examples/demo/demo.conf", test_path("images/demo.conf"), "");
	copy_file("examples/demo/demo.conf", test_path("images/two.conf"), "s/\"demo\"/\"two\"/");
	copy_file("examples/demo/demo.conf", test_path("images/stranger.conf"),
	          "s/\"demo\"/\"stranger\"/; s/server_t/stranger_t/");
	copy_file("examples/demo/demo.conf", test_path("images/outside.conf"),
	          "s/\"demo\"/\"x\"/; s/program = \"echo\"/program = \"..\\/..\\/..\\/bin\\/sh\"/");
	copy_file("tests/libvirt/corpus/xml/entities", test_path("entities.xml"), "");
	snprintf(command, sizeof(command),
	         "{ echo '<domain>'; head -c 70000 /dev/zero | tr '\\0' ' '; echo '</domain>'; } "
	         ">'%s'",
	         test_path("long.xml"));
	cr_assert_eq(system(command), 0);
	return folder;
}

static void remove_images(void)
{
	char command[512];

	snprintf(command, sizeof(command), "rm -rf '%s'", test_path("images"));
	cr_expect_eq(system(command), 0);
}

/* The monitor with the demo, then one function of clients.py, then the monitor's orderly end. */
static void with_clients_at(const char *function, const char *path)
{
	const char *images = make_images(), *control = test_path("c");
	const char *manifest =
		copy_file("examples/demo/demo.conf", test_path("demo.conf"),
	                  "s/policy = .*/policy = ( \"base.cil\", \"demo.cil\", \"looker.cil\" ); "
	                  "clients = ( { uid = 65534; context = "
	                  "\"system_u:system_r:looker_t:s0\"; } );/");
	struct child server, child;
	char pid[32];

	need_kvm();
	copy_file("policy/base.cil", test_path("base.cil"), "");
	copy_file("examples/demo/demo.cil", test_path("demo.cil"), "");
	test_file("looker.cil", looker_policy);
	chmod(test_folder(), 0755);
	server = START("serve", manifest, "--programs", "build/domains", "--socket", control,
	               "--libvirt-socket", path, "--images", images, "--quiet");
	snprintf(pid, sizeof(pid), "%d", (int)server.pid);
	test_file("pid", pid);
	child = RUN("status", "--until", "running", "--deadline", "30", "--socket", control);
	EXPECT(child, 0, "");
	child = child_start_program("/usr/bin/python3",
	                            (const char *const[]){"tests/libvirt/clients.py", function, path, control,
	                                                  "build/portcullis", test_folder(), NULL});
	child_finish(&child);
	cr_expect_eq(child.status, 0, "%s:\n%s%s", function, child.out, child.err);
	child_free(&child);
	child_signal(&server, SIGTERM);
	child_finish(&server);
	cr_expect_leq(server.status, 1, "%s", server.err); /* 1: a guest was destroyed */
	child_free(&server);
	cr_expect(strcmp(path, "system") == 0 || access(path, F_OK), "the socket is still there");
	remove_images();
}

static void with_clients(const char *function)
{
	with_clients_at(function, test_path("l"));
}

Test(libvirt_clients, virsh_looks)
{
	with_clients("looks");
}

Test(libvirt_clients, virsh_describes)
{
	with_clients("texts");
}

/* P10, R: every cause of an event. */
Test(libvirt_clients, virsh_starts_and_ends_guests)
{
	with_clients("life");
}

Test(libvirt_clients, virsh_defines_guests)
{
	with_clients("define");
}

Test(libvirt_clients, virsh_shows_a_console)
{
	with_clients("console");
}

/* R5: rights that a change takes away are gone for those who listen. */
Test(libvirt_clients, rights_that_go)
{
	with_clients("rights_that_go");
}

Test(libvirt_clients, python)
{
	with_clients("python");
}

Test(libvirt_clients, prometheus_exporter)
{
	with_clients("exporter");
}

Test(libvirt_clients, collectd)
{
	with_clients("collectd");
}

Test(libvirt_clients, read_only_is_the_servers_matter)
{
	with_clients("read_only");
}

/* I9: each denial is in the trail. */
Test(libvirt_clients, denied_by_policy)
{
	if (geteuid() != 0)
		cr_skip_test("needs root, to be another uid");
	with_clients("denied");
}

/* Where `virsh -c portcullis:///system` looks, and `virsh -r`. */
Test(libvirt_clients, system_place)
{
	if (geteuid() != 0 || access("/run/libvirt/virtportcullisd-sock", F_OK) == 0)
		cr_skip_test("needs root, and that nobody else serves /run/libvirt/virtportcullisd-sock");
	with_clients_at("system", "system");
}

/* H8, H11. */
Test(libvirt_clients, malformed)
{
	with_clients("malformed");
}

Test(libvirt_clients, pipelined)
{
	with_clients("pipelined");
}

/* H7. */
Test(libvirt_clients, crowd)
{
	with_clients("crowd");
}

/* P6: stops are counted. I1: the cut is complete while the guest is suspended. */
Test(libvirt_clients, suspend_and_push)
{
	with_clients("suspend_and_push");
}
