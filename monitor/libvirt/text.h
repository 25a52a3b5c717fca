/*
 * A text that grows: for XML. Bad once memory is short; then it stays so. Any thread.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_TEXT_H
#define PORTCULLIS_MONITOR_LIBVIRT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	char *string; /* terminated; free it. NULL: empty, or bad */
	size_t n, room;
	bool bad;
};

void text_put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For content and for attributes: what XML gives a meaning to is escaped, what it forbids becomes '?'. */
void text_put_escaped(struct text *text, const char *string);

/* Whether a terminal may show it: no control characters (C0, C1, DEL) but tabs and line ends. */
bool text_is_plain(const char *string, size_t n);

#define UUID_TEXT_BYTES 37u
void text_uuid(const uint8_t *uuid, char string[static UUID_TEXT_BYTES]);

#endif
