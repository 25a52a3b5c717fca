#include "monitor/libvirt/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct text *text, size_t n)
{
	size_t room = text->room ? text->room : 512;
	char *string;

	while (room < text->n + n + 1)
		room *= 2;
	if (room == text->room)
		return true;
	string = realloc(text->string, room);
	if (!string) {
		text->bad = true;
		return false;
	}
	text->string = string;
	text->room = room;
	return true;
}

void text_put(struct text *text, const char *format, ...)
{
	va_list arguments;
	char *added;
	int n;

	va_start(arguments, format);
	n = vasprintf(&added, format, arguments);
	va_end(arguments);
	if (n < 0) {
		text->bad = true;
		return;
	}
	if (!text->bad && reserve(text, (size_t)n)) {
		memcpy(text->string + text->n, added, (size_t)n + 1);
		text->n += (size_t)n;
	}
	free(added);
}

static const char *escape(char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '\'':
		return "&apos;";
	case '"':
		return "&quot;";
	default:
		return NULL;
	}
}

void text_put_escaped(struct text *text, const char *string)
{
	for (; *string && !text->bad; string++) {
		const char *escaped = escape(*string);
		unsigned char c = (unsigned char)*string;

		if (escaped)
			text_put(text, "%s", escaped);
		else if (reserve(text, 1)) {
			text->string[text->n++] =
				(c < 0x20 && c != '\t' && c != '\n') || c == 0x7f ? '?' : *string;
			text->string[text->n] = '\0';
		}
	}
}

/* C1 stands in UTF-8 as C2 80 to C2 9F. */
bool text_is_plain(const char *string, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)string[i],
			      next = i + 1 < n ? (unsigned char)string[i + 1] : 0;

		if ((c < 0x20 && c != '\t' && c != '\n') || c == 0x7f ||
		    (c == 0xc2 && next >= 0x80 && next < 0xa0))
			return false;
	}
	return true;
}

void text_uuid(const uint8_t *uuid, char string[static UUID_TEXT_BYTES])
{
	char *at = string;

	for (int i = 0; i < 16; i++)
		at += snprintf(at, 4, "%02x%s", uuid[i], i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
}
