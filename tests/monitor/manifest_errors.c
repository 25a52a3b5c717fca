/*
 * The manifest: every mistake is one line with file and line (H11: what an
 * operator's file holds is checked like anyone's).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/manifest.h"
#include "tests/monitor/cli_child.h"

#define HEAD "name = \"g\";\npolicy = (\"p.cil\");\nvcpus = 2;\n"
#define C "context = \"u:r:t:s0\";"
#define DOMAIN(members) HEAD "domains = (\n{ name = \"a\"; program = \"echo\"; " C " " members " }\n);\n"

struct mistake {
	const char *text;
	unsigned line; /* 0: the message names the file alone */
	const char *message;
};

static const struct mistake mistakes[] = {
	{"nmae = \"g\";", 1, "has no key \"nmae\"; did you mean \"name\"?"},
	{"vcpus = 1;", 1, "the guest needs a name"},
	{"name = 5;", 1, "expected a text in quotes"},
	{"name = \"\";", 1, "the text is empty"},
	{"name = \"Web\";", 1, "character 1 is not one of a-z"},
	{"name = \"portcullis\";", 1, "the monitor's own"},
	{"name = \"a234567890123456789012345678901x\";", 1, "more than 31 characters"},
	{"name = \"g\";\nvcpus = 0;", 2, "vcpus = 0 is out of range: 1 to 16"},
	{"name = \"g\";\nvcpus = 17;", 2, "out of range"},
	{"name = \"g\";\nvcpus = -1;", 2, "out of range"},
	{"name = \"g\";\nvcpus = 99999999999L;", 2, "out of range"},
	{"name = \"g\";\nvcpus = \"two\";", 2, "expected a whole number"},
	{"name = \"g\";\nvcpus = 1.5;", 2, "expected a whole number"},
	{"name = \"g\";\nbulk_bytes = 5000;", 2, "no multiple of 4096"},
	{"name = \"g\";\nbulk_bytes = 2097152;", 2, "out of range"},
	{"name = \"g\";\n\nstop = \"affectd\";", 3, "did you mean \"affected\"?"},
	{"name = \"g\";\ndeadline = 0;", 2, "deadline = 0 is out of range"},
	{"name = \"g\";\ndeadline = \"soon\";", 2, "expected a number of seconds"},
	{"name = \"g\";\nclients = ( { uid = 1; } );", 2, "a client needs a context"},
	{"name = \"g\";\nclients = ( { context = \"u:r:t\"; } );", 2, "a client needs its uid"},
	{"name = \"g\";\nclients = ( { uid = 1; " C " }, { uid = 1; " C " } );", 2,
         "a second context for uid 1"},
	{"name = \"g\";\nclients = 5;", 2, "expected a list"},
	{"name = \"g\";", 1, "a guest needs a domain"},
	{"name = \"g\";\ndomains = ();", 2, "a guest needs a domain"},
	{"name = \"g\";\ndomains = ( 5 );", 2, "domains: expected {"},
	{"name = \"g\";\ndomains = (\n { program = \"echo\"; } );", 3, "a domain needs a name"},
	{"name = \"g\";\ndomains = (\n { name = \"a\"; } );", 3, "domain \"a\" needs a context"},
	{"name = \"g\";\ndomains = (\n { name = \"a\"; context = \"a b\"; } );", 3, "character 2 is a blank"},
	{"name = \"g\";\ndomains = (\n { name = \"a\";\n " C " } );", 3, "needs a program"},
	{"name = \"g\";\ndomains = (\n { name = \"a\"; " C "\n program = \"ehco\"; } );", 4,
         "program \"ehco\": there is no "},
	{"name = \"g\";\ndomains = (\n { name = \"a\"; " C "\n program = \"./none\"; } );", 4,
         "No such file"},
	{"name = \"g\";\ndomains = (\n { name = \"a\"; " C "\n program = \"./empty\"; } );", 4,
         "the file is empty"},
	{"name = \"g\";\ndomains = (\n { name = \"a\"; " C "\n program = \"./\"; } );", 4,
         "neither a file nor a pipe"},
	{DOMAIN("vcpu = 2;"), 5, "vcpu = 2 is out of range: 0 to 1"},
	{DOMAIN("slots = 0;"), 5, "slots = 0 is out of range"},
	{DOMAIN("slots = 65537;"), 5, "slots = 65537 is out of range"},
	{DOMAIN("heap_kib = 1000000;"), 5, "heap_kib = 1000000 is out of range"},
	{DOMAIN("stack_kib = 1;"), 5, "stack_kib = 1 is out of range"},
	{DOMAIN("ags = ();"), 5, "a domain has no key \"ags\"; did you mean \"args\"?"},
	{DOMAIN("args = ( 5 );"), 5, "write it in quotes"},
	{DOMAIN("args = \"x\";"), 5, "expected a list"},
	{DOMAIN("offers = ( \"a b\" );"), 5, "service name \"a b\": character 2"},
	{DOMAIN("offers = ( \"x\", \"x\" );"), 5, "offers \"x\" twice"},
	{DOMAIN("offers = ( { name = \"x\"; cntext = \"u:r:t\"; } );"), 5, "did you mean \"context\"?"},
	{DOMAIN("offers = ( { context = \"u:r:t\"; } );"), 5, "a service needs a name"},
	{DOMAIN("data = \"none\";"), 5, "No such file"},
	{HEAD "domains = (\n{ name = \"a\"; program = \"echo\"; " C
              "},\n{ name = \"a\"; program = \"echo\"; " C "} );",
         6, "a second domain \"a\": the first is in line 5"},
	{HEAD "domains = (\n{ name = \"a\"; program = \"echo\"; " C
              " slots = 65536; },\n{ name = \"b\"; program = \"echo\"; " C "} );",
         6, "more than 65536 slots"},
	{"name = \"g\";\npolicy = ( \"none.cil\" );\ndomains = ( { name = \"a\"; program = \"echo\"; " C
         " } );",
         2, "none.cil: No such file"},
	{"name = \"g\";\npolicy = ();\ndomains = ( { name = \"a\"; program = \"echo\"; " C " } );", 2,
         "no policy"},
	{"name = \"g\";\ndomains = ( { name = \"a\"; program = \"echo\"; " C " } );", 1, "no policy"},
	{"name = \"g\"\nvcpus == 2;", 2, "syntax error"},
	{"name = \"g\";\nname = \"h\";", 2, "duplicate"},
	{"name = \"g\";\n  @include \"/dev/zero\"", 2, "@include is not possible"},
	{"{", 1, "syntax error"},
};

static struct manifest_options options_here(void)
{
	test_file("echo.elf", "not looked at here");
	test_file("empty", "");
	test_file("p.cil", "(block)");
	return (struct manifest_options){.program_dir = test_folder()};
}

Test(manifest, every_mistake_is_a_line)
{
	struct manifest_options options = options_here();

	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		const char *path = test_file("m.conf", mistakes[i].text);
		struct manifest *manifest = NULL;
		char why[WHY_BYTES] = "", place[300];

		cr_expect_lt(manifest_load(path, &options, &manifest, why), 0, "accepted: %s",
		             mistakes[i].text);
		snprintf(place, sizeof(place), "%s:%u: ", path, mistakes[i].line);
		cr_expect_eq(strncmp(why, place, strlen(place)), 0, "%s: expected line %u: %s",
		             mistakes[i].text, mistakes[i].line, why);
		cr_expect(strstr(why, mistakes[i].message), "%s: expected \"%s\": %s", mistakes[i].text,
		          mistakes[i].message, why);
		cr_expect_null(strchr(why, '\n'));
	}
}

Test(manifest, too_many_domains)
{
	struct manifest_options options = options_here();
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);
	struct manifest *manifest;
	char why[WHY_BYTES];

	fprintf(file, HEAD "domains = (");
	for (unsigned i = 0; i <= MAX_DOMAINS; i++)
		fprintf(file, "%s{ name = \"d%u\"; program = \"echo\"; " C " }", i ? ",\n" : "", i);
	fprintf(file, ");");
	fclose(file);
	cr_assert_lt(manifest_load(test_file("m.conf", text), &options, &manifest, why), 0);
	cr_expect(strstr(why, "domains: 65 entries; at most 64"), "%s", why);
	free(text);
}

Test(manifest, too_long_arguments)
{
	struct manifest_options options = options_here();
	char text[MAX_ARGUMENT_BYTES + 1024], argument[MAX_ARGUMENT_BYTES];
	struct manifest *manifest;
	char why[WHY_BYTES];

	memset(argument, 'x', sizeof(argument) - 1);
	argument[sizeof(argument) - 1] = '\0';
	snprintf(text, sizeof(text), DOMAIN("args = ( \"%s\" );"), argument);
	cr_assert_lt(manifest_load(test_file("m.conf", text), &options, &manifest, why), 0);
	cr_expect(strstr(why, "args: more than 2048 bytes"), "%s", why);
}

Test(manifest, no_text)
{
	struct manifest_options options = options_here();
	const char *path = test_file("m.conf", "name = \"g\";\n");
	struct manifest *manifest;
	char why[WHY_BYTES];

	cr_assert_eq(truncate(path, 100), 0);
	cr_assert_lt(manifest_load(path, &options, &manifest, why), 0);
	cr_expect(strstr(why, "it holds a zero byte"), "%s", why);
	cr_assert_lt(manifest_load(test_path("none.conf"), &options, &manifest, why), 0);
	cr_expect(strstr(why, "none.conf: No such file"), "%s", why);
}

Test(manifest, image_too_big)
{
	struct manifest_options options = options_here();
	struct manifest *manifest;
	char why[WHY_BYTES];

	cr_assert_eq(truncate(test_path("echo.elf"), (off_t)MAX_IMAGE_BYTES + 1), 0);
	cr_assert_lt(manifest_load(test_file("m.conf", DOMAIN("")), &options, &manifest, why), 0);
	cr_expect(strstr(why, "m.conf:5: program ") && strstr(why, "longer than 67108864 bytes"), "%s", why);
}

Test(manifest, what_is_right_is_read)
{
	struct manifest_options options = options_here();
	const char *data[] = {"b=" __FILE__};
	struct manifest *manifest;
	char why[WHY_BYTES];
	const char *path =
		test_file("m.conf", HEAD
	                  "bulk_bytes = 0; stop = \"none\"; deadline = 0.5; audit = \"trail\";\n"
	                  "clients = ( { uid = 7; " C " } );\n"
	                  "domains = ( { name = \"a\"; program = \"./echo.elf\"; " C
	                  " offers = ( \"x\", { name = \"y\"; context = \"u:r:y:s0\"; } ); args = [ \"1\", "
	                  "\"2\" ]; },\n"
	                  "{ name = \"b\"; program = \"echo\"; " C " vcpu = 1; offers = ( \"x\" ); } );");

	options.data = data;
	options.n_data = 1;
	cr_assert_eq(manifest_load(path, &options, &manifest, why), 0, "%s", why);
	cr_expect_str_eq(manifest->guests[0].name, "g");
	cr_expect_eq(manifest->guests[0].n_vcpus, 2);
	cr_expect_eq(manifest->guests[0].bulk_bytes, 0);
	cr_expect_eq(manifest->stop, STOP_NONE);
	cr_expect_eq(manifest->deadline_seconds, 0.5);
	cr_expect_str_eq(manifest->audit_path, test_path("trail"));
	cr_expect_eq(manifest->n_policies, 1);
	cr_expect_eq(manifest->clients[0].uid, 7);
	cr_expect_eq(manifest->clients[0].line, 5);
	cr_expect_eq(manifest->guests[0].n_domains, 2);
	cr_expect_eq(manifest->guests[0].domains[0].line, 6);
	cr_expect_eq(manifest->guests[0].domains[0].n_services, 2);
	cr_expect_str_eq(manifest->guests[0].domains[0].services[1].context, "u:r:y:s0");
	cr_expect_eq(manifest->guests[0].domains[0].n_arguments, 3);
	cr_expect_str_eq(manifest->guests[0].domains[0].arguments[0], "a");
	cr_expect_str_eq(manifest->guests[0].domains[0].arguments[2], "2");
	cr_expect_eq(manifest->guests[0].domains[0].data_fd, -1);
	cr_expect_gt(manifest->guests[0].domains[1].data_bytes, 1000);
	cr_expect_lt(pwrite(manifest->guests[0].domains[1].data_fd, "x", 1, 0), 0, "the copy is sealed");
	manifest_free(manifest);
}

Test(manifest, given_data_and_policy)
{
	struct manifest_options options = options_here();
	const char *path = test_file("m.conf", DOMAIN(""));
	const char *data[] = {"aa=/dev/null"};
	const char *policies[] = {test_path("none.cil")};
	struct manifest *manifest;
	char why[WHY_BYTES];

	options.data = data;
	options.n_data = 1;
	cr_assert_lt(manifest_load(path, &options, &manifest, why), 0);
	cr_expect(strstr(why, "\"aa\", which the manifest does not have"), "%s", why);
	options.n_data = 0;
	options.policies = policies;
	options.n_policies = 1;
	cr_assert_lt(manifest_load(path, &options, &manifest, why), 0);
	cr_expect(strstr(why, "none.cil: No such file"), "%s", why);
}

Test(manifest, files_are_sealed_also_from_pipes)
{
	char why[WHY_BYTES], path[32];
	size_t bytes;
	int ends[2], fd;

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(write(ends[1], "abc", 3), 3);
	close(ends[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	fd = file_seal(path, 3, &bytes, why);
	cr_assert_geq(fd, 0, "%s", why);
	cr_expect_eq(bytes, 3);
	cr_expect_lt(ftruncate(fd, 0), 0);
	cr_expect_lt(file_seal(test_file("four", "1234"), 3, &bytes, why), 0);
	cr_expect(strstr(why, "longer than 3 bytes"), "%s", why);
	cr_expect_lt(file_seal("/dev/zero", 3, &bytes, why), 0, "a device has no end");
}
