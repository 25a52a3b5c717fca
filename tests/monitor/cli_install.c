/*
 * A domain is an ordinary C file, built against an installed header, archive and
 * linker script, with the commands of docs/domains.md: they are taken from there.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define SCRIPT                                                                                               \
	"set -e; d=$(mktemp -d); trap 'rm -rf $d' EXIT; top=$PWD; "                                          \
	"env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s install DESTDIR=$d PREFIX=/p >/dev/null; "          \
	"awk '/^    #include <portcullis.h>/{on=1} on&&/^[^ ]/{exit} on{print substr($0,5)}' "               \
	"docs/domains.md >$d/upper.c; "                                                                      \
	"awk '/^    P=/{on=1; next} on&&!/^    /{exit} on{print substr($0,5)}' docs/domains.md "             \
	">$d/build.sh; "                                                                                     \
	"cd $d; P=$d/p sh -e build.sh; "                                                                     \
	"printf 'name=\"t\"; policy=(\"%s/policy/base.cil\",\"t.cil\"); domains=({name=\"upper\"; "          \
	"program=\"./upper.elf\"; context=\"system_u:system_r:upper_t:s0\";});' $top >t.conf; "              \
	"printf '(type upper_t)(call a_domain (upper_t))' >t.cil; "                                          \
	"p/bin/portcullis check t.conf"

Test(cli, a_domain_is_built_against_what_is_installed)
{
	cr_assert_eq(system(SCRIPT), 0);
}

/* What stands behind each name is the shell's own doing: completion is asked as bash asks it. */
#define COMPLETE                                                                                             \
	"set -e; . /dev/stdin; "                                                                             \
	"try() { want=$1; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _portcullis; "   \
	"[ \"${COMPREPLY[*]}\" = \"$want\" ] || { echo \"$*: ${COMPREPLY[*]}\"; exit 1; }; }; "              \
	"try policy portcullis po; try push portcullis policy pu; try --force portcullis policy push --fo; " \
	"try --policy portcullis run --pol; try Makefile portcullis run Makef; try doctor portcullis doc"

Test(cli, completion_and_manual_know_every_verb)
{
	cr_assert_eq(system("build/portcullis help --completion | bash -c '" COMPLETE "'"), 0);
	cr_assert_eq(
		system("for verb in $(build/portcullis --help | sed -n 's/^  \\([a-z]*\\) .*/\\1/p' | sort "
	               "-u); do "
	               "build/portcullis help --manual | grep -q \"^.SS $verb\" || [ $verb = version ] || "
	               "{ echo $verb; exit 1; }; done"),
		0);
}
