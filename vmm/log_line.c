#include "vmm/log_line.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool is_continuation(uint8_t byte)
{
	return (byte & 0xc0) == 0x80;
}

/* Bytes of the UTF-8 character at raw, 0 if it is none. RFC 3629: no overlong forms, no surrogates. */
static size_t character_read(const uint8_t *raw, size_t n, uint32_t *character)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t bytes = raw[0] < 0x80 ? 1 : raw[0] >= 0xf0 ? 4 : raw[0] >= 0xe0 ? 3 : raw[0] >= 0xc2 ? 2 : 0;

	if (bytes == 0 || bytes > n || raw[0] > 0xf4)
		return 0;
	if (bytes == 1) {
		*character = raw[0];
		return 1;
	}
	*character = raw[0] & (0xffu >> (bytes + 1));
	for (size_t i = 1; i < bytes; i++) {
		if (!is_continuation(raw[i]))
			return 0;
		*character = *character << 6 | (raw[i] & 0x3f);
	}
	if (*character < least[bytes] || *character > 0x10ffff ||
	    (*character >= 0xd800 && *character < 0xe000))
		return 0;
	return bytes;
}

static bool is_printable(uint32_t character)
{
	bool control = character < 0x20 || (character >= 0x7f && character < 0xa0);
	bool separator = character == 0x2028 || character == 0x2029;
	bool direction = character == 0x200e || character == 0x200f || character == 0x061c ||
	                 (character >= 0x202a && character <= 0x202e) ||
	                 (character >= 0x2066 && character <= 0x2069);

	return !control && !separator && !direction;
}

void log_line_clean(const char *raw_text, size_t n, char line[static MAX_LOG_BYTES + 1])
{
	const uint8_t *raw = (const uint8_t *)raw_text;
	size_t used = 0;

	if (n > MAX_LOG_BYTES)
		n = MAX_LOG_BYTES;
	while (n > 0 && (raw[n - 1] == '\n' || raw[n - 1] == '\r'))
		n--;
	for (size_t i = 0; i < n;) {
		uint32_t character;
		size_t bytes = character_read(raw + i, n - i, &character);

		if (bytes != 0 && is_printable(character)) {
			memcpy(line + used, raw + i, bytes);
			used += bytes;
		} else {
			line[used++] = bytes == 1 && character == '\t' ? ' ' : '?';
		}
		i += bytes != 0 ? bytes : 1;
	}
	line[used] = '\0';
}
