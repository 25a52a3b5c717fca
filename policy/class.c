#include "policy/class.h"

#include <stdio.h>
#include <string.h>

#include "guest/abi/limits.h"

struct class_table {
	const char *name;
	const char *permissions[MAX_PERMISSIONS + 1]; /* index is the bit's number; NULL ends */
};

static const struct class_table classes[N_CLASSES] = {
	[CLASS_CHANNEL] = {"channel",
                           {"connect", "accept", "send", "recv", "flowctl", "specify_client", "cut"}},
	[CLASS_DOMAIN] = {"domain",
                          {"start", "stop", "getattr", "relabelfrom", "relabelto", "quarantine", "release",
                           "console"}},
	[CLASS_GUEST] = {"guest", {"define", "start", "stop", "suspend", "resume", "getattr"}},
	[CLASS_MONITOR] = {"monitor",
                           {"load_policy", "setenforce", "setbool", "overlay", "compute", "read_audit",
                            "getattr", "shutdown"}},
};

static const struct class_table *find_table(enum policy_class tclass)
{
	return (unsigned)tclass < N_CLASSES ? &classes[tclass] : NULL;
}

const char *class_name(enum policy_class tclass)
{
	const struct class_table *table = find_table(tclass);

	return table ? table->name : NULL;
}

const char *class_permission_name(enum policy_class tclass, uint32_t bit)
{
	const struct class_table *table = find_table(tclass);

	if (!table || !bit || (bit & (bit - 1)) || !(bit & class_all_permissions(tclass)))
		return NULL;
	return table->permissions[__builtin_ctz(bit)];
}

int class_find(const char *name)
{
	for (int i = 0; i < N_CLASSES; i++)
		if (strcmp(classes[i].name, name) == 0)
			return i;
	return -1;
}

uint32_t class_permission_find(enum policy_class tclass, const char *name)
{
	const struct class_table *table = find_table(tclass);

	for (unsigned i = 0; table && table->permissions[i]; i++)
		if (strcmp(table->permissions[i], name) == 0)
			return 1u << i;
	return 0;
}

uint32_t class_all_permissions(enum policy_class tclass)
{
	const struct class_table *table = find_table(tclass);
	uint32_t all = 0;

	for (unsigned i = 0; table && table->permissions[i]; i++)
		all |= 1u << i;
	return all;
}

/* snprintf at an offset that may already be beyond the end. */
static size_t append(char *text, size_t text_bytes, size_t used, const char *word)
{
	size_t room = used < text_bytes ? text_bytes - used : 0;

	return used + (size_t)snprintf(room ? text + used : NULL, room, "%s ", word);
}

int class_format(enum policy_class tclass, uint32_t av, char *text, size_t text_bytes)
{
	const struct class_table *table = find_table(tclass);
	size_t used = append(text, text_bytes, 0, "{");

	for (unsigned i = 0; table && table->permissions[i]; i++)
		if (av & (1u << i))
			used = append(text, text_bytes, used, table->permissions[i]);
	used = append(text, text_bytes, used, "}") - 1;
	if (used < text_bytes)
		text[used] = '\0'; /* the blank after the brace */
	return (int)used;
}
