/* The kernel uses only what every KVM can run in ring 0. */
#include <criterion/criterion.h>
#include <stdlib.h>

Test(kernel, object_code_has_no_instruction_that_an_emulated_ring_0_lacks)
{
	cr_assert_eq(system("tests/guest/instructions.sh build/kernel.elf"), 0);
}

/* The control: a program of ring 3 uses vector registers, and the script says so. */
Test(kernel, the_check_finds_what_it_is_for)
{
	cr_assert_neq(system("tests/guest/instructions.sh build/domains/sink.elf >/dev/null"), 0);
}
