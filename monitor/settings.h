/*
 * The booleans that an operator has set: they are kept over a push whose policy
 * still has them (R14). A plain list; the posture's is the loop thread's.
 */
#ifndef PORTCULLIS_MONITOR_SETTINGS_H
#define PORTCULLIS_MONITOR_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/server.h"

struct settings {
	struct policy_boolean *booleans; /* names are the list's own */
	size_t n_booleans;
};

/* Adds or changes one. 0, -ENOMEM; the list is as before then. */
int settings_set(struct settings *settings, const char *name, bool value);

/* A copy; 0, -ENOMEM. */
int settings_copy(struct settings *to, const struct settings *from);

/* Forgets those that are not among these. */
void settings_keep(struct settings *settings, const struct policy_boolean *booleans, size_t n_booleans);

void settings_clear(struct settings *settings);

#endif
