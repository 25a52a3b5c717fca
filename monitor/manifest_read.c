#include "monitor/manifest_read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "monitor/suggest.h"

static bool is_collection(const config_setting_t *setting)
{
	return config_setting_is_list(setting) || config_setting_is_array(setting);
}

int read_fail(const struct manifest_reader *reader, const config_setting_t *setting, const char *format, ...)
{
	va_list arguments;
	unsigned line = setting ? config_setting_source_line(setting) : 0;
	int n;

	if (setting)
		n = snprintf(reader->why, WHY_BYTES, "%s:%u: ", reader->path, line ? line : 1);
	else
		n = snprintf(reader->why, WHY_BYTES, "%s: ", reader->path);
	if (n < 0 || (unsigned)n >= WHY_BYTES)
		return -EINVAL;
	va_start(arguments, format);
	vsnprintf(reader->why + n, WHY_BYTES - (size_t)n, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

int read_check_keys(const struct manifest_reader *reader, const config_setting_t *group, const char *where,
                    const char *const *keys, size_t n_keys)
{
	int n = config_setting_length(group);

	for (int i = 0; i < n; i++) {
		const config_setting_t *member = config_setting_get_elem(group, (unsigned)i);
		const char *name = config_setting_name(member);
		char suggestion[SUGGESTION_BYTES];
		size_t k = 0;

		while (k < n_keys && strcmp(keys[k], name) != 0)
			k++;
		if (k == n_keys)
			return read_fail(reader, member, "%s has no key \"%s\"%s", where, name,
			                 suggest_phrase(name, keys, n_keys, suggestion));
	}
	return 0;
}

/* How a message calls a setting: its key, or that of the list it stands in. */
static const char *setting_name(const config_setting_t *setting)
{
	const char *name = config_setting_name(setting);

	if (!name && config_setting_parent(setting))
		name = config_setting_name(config_setting_parent(setting));
	return name ? name : "the setting";
}

int read_string(const struct manifest_reader *reader, const config_setting_t *setting, const char **text)
{
	*text = config_setting_get_string(setting);
	if (!*text)
		return read_fail(reader, setting, "%s: expected a text in quotes", setting_name(setting));
	if (!**text)
		return read_fail(reader, setting, "%s: the text is empty", setting_name(setting));
	return 0;
}

int read_member(const struct manifest_reader *reader, const config_setting_t *group, const char *key,
                const char *needed, const char **text)
{
	const config_setting_t *member = config_setting_get_member(group, key);

	*text = NULL;
	if (member)
		return read_string(reader, member, text);
	return needed ? read_fail(reader, group, "%s", needed) : 0;
}

int read_number(const struct manifest_reader *reader, const config_setting_t *group, const char *key,
                uint64_t least, uint64_t most, uint64_t *number)
{
	const config_setting_t *member = config_setting_get_member(group, key);
	long long value;
	int type;

	if (!member)
		return 0;
	type = config_setting_type(member);
	if (type != CONFIG_TYPE_INT && type != CONFIG_TYPE_INT64)
		return read_fail(reader, member, "%s: expected a whole number", key);
	value = config_setting_get_int64(member);
	if (value < 0 || (uint64_t)value < least || (uint64_t)value > most)
		return read_fail(reader, member, "%s = %lld is out of range: %llu to %llu", key, value,
		                 (unsigned long long)least, (unsigned long long)most);
	*number = (uint64_t)value;
	return 0;
}

int read_name(const struct manifest_reader *reader, const config_setting_t *setting, const char *what,
              const char *text, char name[static MAX_NAME_BYTES])
{
	size_t length = strlen(text);
	size_t good = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	if (good != length)
		return read_fail(reader, setting,
		                 "%s name \"%.64s\": character %zu is not one of a-z 0-9 _ -", what, text,
		                 good + 1);
	if (length >= MAX_NAME_BYTES)
		return read_fail(reader, setting, "%s name \"%.64s\" has more than %u characters", what, text,
		                 MAX_NAME_BYTES - 1);
	memcpy(name, text, length + 1);
	return 0;
}

int read_context(const struct manifest_reader *reader, const config_setting_t *setting, const char *text,
                 char context[static MAX_CONTEXT_BYTES])
{
	size_t length = strlen(text);

	if (length >= MAX_CONTEXT_BYTES)
		return read_fail(reader, setting, "context \"%.40s...\" has more than %u characters", text,
		                 MAX_CONTEXT_BYTES - 1);
	for (const char *c = text; *c; c++)
		if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\'')
			return read_fail(reader, setting,
			                 "context \"%s\": character %zu is a blank, a quote or no ASCII",
			                 text, (size_t)(c - text) + 1);
	memcpy(context, text, length + 1);
	return 0;
}

int read_list(const struct manifest_reader *reader, const config_setting_t *group, const char *key,
              unsigned most, config_setting_t **list)
{
	config_setting_t *member = config_setting_get_member(group, key);

	*list = member;
	if (!member)
		return 0;
	if (!is_collection(member))
		return read_fail(reader, member, "%s: expected a list: %s = ( ... );", key, key);
	if ((unsigned)config_setting_length(member) > most)
		return read_fail(reader, member, "%s: %d entries; at most %u are possible", key,
		                 config_setting_length(member), most);
	return 0;
}
