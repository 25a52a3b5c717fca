/*
 * Manifests of several guests: in one file, in several, and what makes them disagree (H11).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monitor/manifest.h"
#include "tests/monitor/cli_child.h"

#define P "policy = (\"p.cil\");\n"
#define DOMAIN(name) "{ name = \"" name "\"; program = \"echo\"; context = \"u:r:t:s0\"; }"
#define GUEST(name, more) "{ name = \"" name "\"; " more " domains = ( " DOMAIN("a") " ); }"
#define ONE(name, more) "name = \"" name "\";\n" more "\ndomains = ( " DOMAIN("a") " );\n"

#define UUID "01234567-89ab-cdef-0123-456789abcdef"

struct mistake {
	const char *text;
	unsigned line;
	const char *message;
};

static const struct mistake mistakes[] = {
	{P "guests = ();", 2, "guests: expected one at least"},
	{P "guests = 5;", 2, "guests: expected a list"},
	{P "guests = ( 5 );", 2, "guests: expected {"},
	{P "guests = (\n{ } );", 3, "the guest needs a name"},
	{P "guests = (\n{ name = \"g\"; } );", 3, "a guest needs a domain"},
	{P "guests = (\n" GUEST("g", "vcpu = 1;") " );", 3, "a guest has no key \"vcpu\"; did you mean"},
	{P "guests = (\n" GUEST("g", "policy = ();") " );", 3, "a guest has no key \"policy\""},
	{P "guests = (\n" GUEST("g", "") ",\n" GUEST("g", "") " );", 4,
         "a second guest \"g\": the first is in line 3"},
	{P "name = \"h\";\nguests = ( " GUEST("g", "") " );", 2, "name belongs to a guest"},
	{P "vcpus = 2;\nguests = ( " GUEST("g", "") " );", 2, "vcpus belongs to a guest"},
	{P "guest = ( " GUEST("g", "") " );", 2, "did you mean \"guests\"?"},
	{P "guests = (\n" GUEST("g", "uuid = \"1234\";") " );", 3, "uuid \"1234\": expected 8-4-4-4-12"},
	{P "guests = (\n" GUEST("g", "uuid = \"" UUID "0\";") " );", 3, "expected 8-4-4-4-12"},
	{P "guests = (\n" GUEST("g", "uuid = \"" UUID "\";") ",\n" GUEST("h", "uuid = \"" UUID "\";") " );",
         4, "guest \"g\" has this uuid already"},
	{P ONE("portcullis", ""), 2, "the monitor's own"},
};

static struct manifest_options options_here(void)
{
	test_file("echo.elf", "not looked at here");
	test_file("p.cil", "(block)");
	return (struct manifest_options){.program_dir = test_folder()};
}

Test(manifest, mistakes_in_a_list_of_guests)
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

Test(manifest, several_guests_are_read)
{
	struct manifest_options options = options_here();
	const char *path = test_file("m.conf", P
	                             "guests = (\n" GUEST("g", "vcpus = 3; uuid = \"" UUID "\";") ",\n" GUEST(
					     "h", "bulk_bytes = 0;") " );");
	struct manifest *manifest;
	char why[WHY_BYTES], text[UUID_TEXT_BYTES];

	cr_assert_eq(manifest_load(path, &options, &manifest, why), 0, "%s", why);
	cr_assert_eq(manifest->n_guests, 2);
	cr_expect_str_eq(manifest->guests[0].name, "g");
	cr_expect_eq(manifest->guests[0].n_vcpus, 3);
	cr_expect_eq(manifest->guests[0].line, 3);
	cr_expect(manifest->guests[0].has_uuid);
	cr_expect_str_eq(uuid_format(manifest->guests[0].uuid, text), UUID);
	cr_expect_str_eq(manifest->guests[1].name, "h");
	cr_expect_eq(manifest->guests[1].bulk_bytes, 0);
	cr_expect_eq(manifest->guests[1].n_vcpus, 1);
	cr_expect_not(manifest->guests[1].has_uuid);
	cr_expect_str_eq(manifest->guests[1].domains[0].name, "a");
	manifest_free(manifest);
}

Test(manifest, several_files_and_what_they_agree_on)
{
	struct manifest_options options = options_here();
	const char *first =
		test_file("1.conf", P "stop = \"none\";\ndeadline = 2.5;\naudit = \"trail\";\n"
	                              "clients = ( { uid = 7; context = \"u:r:t:s0\"; } );\n" ONE("g", ""));
	struct {
		const char *text, *error; /* NULL: accepted */
	} later[] = {
		{ONE("h", ""), NULL},
		{P "stop = \"none\";\ndeadline = 2.5;\naudit = \"trail\";\n"
	           "clients = ( { uid = 7; context = \"u:r:t:s0\"; } );\n" ONE("h", ""),
	         NULL},
		{"policy = ( \"same.cil\" );\n" ONE("h", ""), NULL},
		{"policy = ( \"q.cil\" );\n" ONE("h", ""), "2.conf: another policy than in "},
		{P "stop = \"all\";\n" ONE("h", ""), "2.conf:2: another stop mode than in "},
		{"deadline = 3;\n" ONE("h", ""), "2.conf:1: another deadline than in "},
		{"audit = \"elsewhere\";\n" ONE("h", ""), "2.conf: another audit file than in "},
		{"clients = ( { uid = 8; context = \"u:r:t:s0\"; } );\n" ONE("h", ""),
	         "2.conf:1: another list of clients than in "},
		{ONE("g", ""), "2.conf:1: a second guest named \"g\": the first is in "},
	};

	test_file("same.cil", "(block)");
	test_file("q.cil", "(other)");
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		const char *paths[] = {first, test_file("2.conf", later[i].text)};
		struct manifest *manifests[2];
		char why[WHY_BYTES] = "";
		int error = manifest_load_all(paths, 2, &options, manifests, why);

		cr_expect_eq(error == 0, later[i].error == NULL, "%s: %s", later[i].text, why);
		if (later[i].error)
			cr_expect(strstr(why, later[i].error), "%s: expected \"%s\": %s", later[i].text,
			          later[i].error, why);
		for (int m = 0; m < 2 && error == 0; m++)
			manifest_free(manifests[m]);
	}
}

Test(manifest, given_data_means_one_domain_of_all)
{
	struct manifest_options options = options_here();
	const char *paths[] = {test_file("1.conf", P ONE("g", "")), test_file("2.conf", ONE("h", ""))};
	char text[300];
	const char *given[] = {text};
	struct manifest *manifests[2];
	char why[WHY_BYTES];

	snprintf(text, sizeof(text), "h/a=%s", test_file("data", "12345"));
	options.data = given;
	options.n_data = 1;
	cr_assert_eq(manifest_load_all(paths, 2, &options, manifests, why), 0, "%s", why);
	cr_expect_eq(manifests[0]->guests[0].domains[0].data_fd, -1);
	cr_expect_eq(manifests[1]->guests[0].domains[0].data_bytes, 5);
	manifest_free(manifests[0]);
	manifest_free(manifests[1]);
	given[0] = text + 2;
	cr_assert_lt(manifest_load_all(paths, 2, &options, manifests, why), 0);
	cr_expect(strstr(why, "2 guests have one; say GUEST/a=FILE"), "%s", why);
}

/* The opener of a monitor that runs: names to descriptors, nothing by path. */
static int open_known(void *opaque, enum manifest_file what, const char *name, size_t most_bytes,
                      size_t *bytes, char why[static WHY_BYTES])
{
	unsigned *asked = opaque;
	int fd;

	*asked |= 1u << what;
	snprintf(why, WHY_BYTES, "%s: not given", name);
	cr_expect_gt(most_bytes, 0);
	if (what == MANIFEST_PROGRAM && strcmp(name, "echo") != 0)
		return -ENOENT;
	fd = memfd_create(name, MFD_CLOEXEC);
	cr_assert_eq(write(fd, "x", 1), 1);
	*bytes = 1;
	return fd;
}

Test(manifest, an_opener_stands_for_the_file_system)
{
	unsigned asked = 0;
	struct manifest_options options = {.open = open_known, .open_opaque = &asked, .guests_only = true};
	static const char good[] = "policy = ( \"/etc/passwd\" );\naudit = \"/dev/full\";\n" ONE("g", "");
	static const char bad[] = "name = \"g\";\ndomains = (\n{ name = \"a\"; program = \"./x\"; "
				  "context = \"u:r:t:s0\"; } );\n";
	struct manifest *manifest;
	char why[WHY_BYTES];

	cr_assert_eq(manifest_parse("m.conf", good, sizeof(good) - 1, &options, &manifest, why), 0, "%s",
	             why);
	cr_expect_eq(asked, 1u << MANIFEST_PROGRAM, "what concerns the monitor is not looked at");
	cr_expect_null(manifest->audit_path);
	cr_expect_eq(manifest->n_policies, 0);
	cr_expect_str_eq(manifest->guests[0].domains[0].program, "echo");
	manifest_free(manifest_hold(manifest));
	cr_expect_str_eq(manifest->path, "m.conf", "it has another owner");
	manifest_free(manifest);
	cr_assert_lt(manifest_parse("m.conf", bad, sizeof(bad) - 1, &options, &manifest, why), 0);
	cr_expect_str_eq(why, "m.conf:3: program ./x: not given");
}

Test(manifest, uuids)
{
	uint8_t one[UUID_BYTES], other[UUID_BYTES];
	char text[UUID_TEXT_BYTES], host[HOST_ID_BYTES];

	uuid_derive("host", "web", one);
	cr_expect_str_eq(uuid_format(one, text), "cbcccaa2-50df-85e4-b8f0-4099147f4e7a",
	                 "a guest's uuid is the same with every version of this program");
	cr_expect(uuid_parse(text, other));
	cr_expect_arr_eq(one, other, UUID_BYTES);
	uuid_derive("host", "db", other);
	cr_expect_arr_neq(one, other, UUID_BYTES);
	uuid_derive("elsewhere", "web", other);
	cr_expect_arr_neq(one, other, UUID_BYTES);
	cr_expect(uuid_parse("0123ABCD-89ab-cdef-0123-456789abcdef", other));
	cr_expect_not(uuid_parse("", other));
	cr_expect_not(uuid_parse("0123ABCDx89ab-cdef-0123-456789abcdef", other));
	cr_expect_not(uuid_parse("0123ABCD-89ab-cdef-0123-456789abcdeg", other));
	cr_expect_not(uuid_parse("-123ABCD-89ab-cdef-0123-456789abcdef", other));
	uuid_host(host);
	cr_expect_neq(host[0], '\0');
}
