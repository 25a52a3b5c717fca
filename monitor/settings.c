#include "monitor/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct policy_boolean *find(const struct policy_boolean *booleans, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(booleans[i].name, name) == 0)
			return (struct policy_boolean *)&booleans[i];
	return NULL;
}

int settings_set(struct settings *settings, const char *name, bool value)
{
	struct policy_boolean *there = find(settings->booleans, settings->n_booleans, name);
	char *copy;

	if (there) {
		there->value = value;
		return 0;
	}
	copy = strdup(name);
	there = reallocarray(settings->booleans, settings->n_booleans + 1, sizeof(*there));
	if (there)
		settings->booleans = there;
	if (!there || !copy) {
		free(copy);
		return -ENOMEM;
	}
	there += settings->n_booleans++;
	there->name = copy;
	there->value = value;
	return 0;
}

int settings_copy(struct settings *to, const struct settings *from)
{
	*to = (struct settings){0};
	for (size_t i = 0; i < from->n_booleans; i++)
		if (settings_set(to, from->booleans[i].name, from->booleans[i].value) < 0) {
			settings_clear(to);
			return -ENOMEM;
		}
	return 0;
}

void settings_keep(struct settings *settings, const struct policy_boolean *booleans, size_t n_booleans)
{
	size_t kept = 0;

	for (size_t i = 0; i < settings->n_booleans; i++) {
		if (find(booleans, n_booleans, settings->booleans[i].name))
			settings->booleans[kept++] = settings->booleans[i];
		else
			free((char *)settings->booleans[i].name);
	}
	settings->n_booleans = kept;
}

void settings_clear(struct settings *settings)
{
	settings_keep(settings, NULL, 0);
	free(settings->booleans);
	*settings = (struct settings){0};
}
