/* The tables of classes and permissions. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "policy/class.h"

Test(class, names_and_numbers_agree)
{
	for (enum policy_class tclass = 0; tclass < N_CLASSES; tclass++) {
		uint32_t all = class_all_permissions(tclass);

		cr_assert_eq(class_find(class_name(tclass)), (int)tclass);
		cr_assert_neq(all, 0);
		cr_assert_eq(all & (all + 1), 0, "the bits have no hole");
		for (uint32_t bit = 1; bit; bit <<= 1) {
			const char *name = class_permission_name(tclass, bit);

			cr_assert_eq(name != NULL, (all & bit) != 0);
			if (name)
				cr_assert_eq(class_permission_find(tclass, name), bit);
		}
	}
}

Test(class, design_table)
{
	cr_assert_eq(class_permission_find(CLASS_CHANNEL, "connect"), CHANNEL_CONNECT);
	cr_assert_eq(class_permission_find(CLASS_CHANNEL, "specify_client"), CHANNEL_SPECIFY_CLIENT);
	cr_assert_eq(class_permission_find(CLASS_CHANNEL, "cut"), CHANNEL_CUT);
	cr_assert_eq(class_permission_find(CLASS_DOMAIN, "console"), DOMAIN_CONSOLE);
	cr_assert_eq(class_permission_find(CLASS_GUEST, "getattr"), GUEST_GETATTR);
	cr_assert_eq(class_permission_find(CLASS_MONITOR, "shutdown"), MONITOR_SHUTDOWN);
	cr_assert_eq(class_all_permissions(CLASS_CHANNEL), (CHANNEL_CUT << 1) - 1);
	cr_assert_eq(class_all_permissions(CLASS_DOMAIN), (DOMAIN_CONSOLE << 1) - 1);
	cr_assert_eq(class_all_permissions(CLASS_GUEST), (GUEST_GETATTR << 1) - 1);
	cr_assert_eq(class_all_permissions(CLASS_MONITOR), (MONITOR_SHUTDOWN << 1) - 1);
}

/* H8: numbers and names from outside. */
Test(class, out_of_range)
{
	static const enum policy_class strange[] = {N_CLASSES, (enum policy_class) - 1,
	                                            (enum policy_class)INT32_MAX};

	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		cr_assert_null(class_name(strange[i]));
		cr_assert_null(class_permission_name(strange[i], 1));
		cr_assert_eq(class_permission_find(strange[i], "send"), 0);
		cr_assert_eq(class_all_permissions(strange[i]), 0);
	}
	cr_assert_eq(class_find("file"), -1);
	cr_assert_eq(class_find(""), -1);
	cr_assert_eq(class_permission_find(CLASS_CHANNEL, "read"), 0);
	cr_assert_null(class_permission_name(CLASS_CHANNEL, 0));
	cr_assert_null(class_permission_name(CLASS_CHANNEL, 3));
	cr_assert_null(class_permission_name(CLASS_CHANNEL, 1u << 31));
}

Test(class, format)
{
	char text[64];
	char small[8];

	cr_assert_eq(class_format(CLASS_CHANNEL, CHANNEL_SEND | CHANNEL_RECV, text, sizeof(text)), 13);
	cr_assert_str_eq(text, "{ send recv }");
	cr_assert_eq(class_format(CLASS_CHANNEL, 0, text, sizeof(text)), 3);
	cr_assert_str_eq(text, "{ }");
	class_format(CLASS_GUEST, ~0u, text, sizeof(text));
	cr_assert_str_eq(text, "{ define start stop suspend resume getattr }");
	cr_assert_eq(class_format(CLASS_CHANNEL, CHANNEL_SEND | CHANNEL_RECV, small, sizeof(small)), 13);
	cr_assert_str_eq(small, "{ send ");
	cr_assert_eq(class_format(CLASS_CHANNEL, CHANNEL_SEND, NULL, 0), 8);
}
