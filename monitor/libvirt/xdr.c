#include "monitor/libvirt/xdr.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM_BYTES 256u

static size_t padding(size_t n)
{
	return -n & 3u;
}

/* ---- reading ---- */

/* The next n bytes; NULL, and bad, if there are fewer. */
static const uint8_t *take(struct xdr_reader *reader, size_t n)
{
	const uint8_t *at = reader->at;

	if (reader->bad || n > reader->left) {
		reader->bad = true;
		return NULL;
	}
	reader->at += n;
	reader->left -= n;
	return at;
}

uint32_t xdr_get_u32(struct xdr_reader *reader)
{
	const uint8_t *at = take(reader, 4);

	if (!at)
		return 0;
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

int32_t xdr_get_i32(struct xdr_reader *reader)
{
	return (int32_t)xdr_get_u32(reader);
}

uint64_t xdr_get_u64(struct xdr_reader *reader)
{
	uint64_t high = xdr_get_u32(reader);

	return high << 32 | xdr_get_u32(reader);
}

bool xdr_get_bool(struct xdr_reader *reader)
{
	uint32_t word = xdr_get_u32(reader);

	if (word > 1)
		reader->bad = true;
	return word == 1;
}

/* n <= most, which is far below the largest size, so n + padding can not wrap. */
struct xdr_text xdr_get_text(struct xdr_reader *reader, size_t most)
{
	size_t n = xdr_get_u32(reader);
	const uint8_t *at = NULL;

	if (n > most)
		reader->bad = true;
	else
		at = take(reader, n + padding(n));
	if (at && memchr(at, 0, n))
		reader->bad = true;
	return reader->bad ? (struct xdr_text){"", 0} : (struct xdr_text){(const char *)at, n};
}

struct xdr_text xdr_get_optional_text(struct xdr_reader *reader, size_t most)
{
	return xdr_get_bool(reader) ? xdr_get_text(reader, most) : (struct xdr_text){NULL, 0};
}

void xdr_get_opaque(struct xdr_reader *reader, void *bytes, size_t n)
{
	const uint8_t *at = take(reader, n + padding(n));

	if (at)
		memcpy(bytes, at, n);
	else
		memset(bytes, 0, n);
}

bool xdr_ended(const struct xdr_reader *reader)
{
	return !reader->bad && reader->left == 0;
}

bool xdr_text_is(struct xdr_text text, const char *string)
{
	return text.bytes && text.n == strlen(string) && memcmp(text.bytes, string, text.n) == 0;
}

void xdr_text_copy(struct xdr_text text, char *string, size_t room)
{
	size_t n = text.n < room ? text.n : room - 1;

	if (n)
		memcpy(string, text.bytes, n);
	string[n] = '\0';
}

/* ---- writing ---- */

/* Room for n more bytes; NULL if there is none. */
static uint8_t *extend(struct xdr_writer *writer, size_t n)
{
	size_t room = writer->room ? writer->room : FIRST_ROOM_BYTES;
	uint8_t *bytes;

	if (writer->bad || n > writer->most - writer->n) {
		writer->bad = true;
		return NULL;
	}
	while (room < writer->n + n)
		room *= 2;
	if (room > writer->room) {
		bytes = realloc(writer->bytes, room);
		if (!bytes) {
			writer->bad = true;
			return NULL;
		}
		writer->bytes = bytes;
		writer->room = room;
	}
	writer->n += n;
	return writer->bytes + writer->n - n;
}

static void store(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 24);
	at[1] = (uint8_t)(value >> 16);
	at[2] = (uint8_t)(value >> 8);
	at[3] = (uint8_t)value;
}

void xdr_put_u32(struct xdr_writer *writer, uint32_t value)
{
	uint8_t *at = extend(writer, 4);

	if (at)
		store(at, value);
}

void xdr_put_i32(struct xdr_writer *writer, int32_t value)
{
	xdr_put_u32(writer, (uint32_t)value);
}

void xdr_put_u64(struct xdr_writer *writer, uint64_t value)
{
	xdr_put_u32(writer, (uint32_t)(value >> 32));
	xdr_put_u32(writer, (uint32_t)value);
}

void xdr_put_opaque(struct xdr_writer *writer, const void *bytes, size_t n)
{
	uint8_t *at = n <= UINT32_MAX ? extend(writer, n + padding(n)) : NULL;

	if (!at || !n)
		return;
	memcpy(at, bytes, n);
	memset(at + n, 0, padding(n));
}

void xdr_put_raw(struct xdr_writer *writer, const void *bytes, size_t n)
{
	uint8_t *at = extend(writer, n);

	if (at && n)
		memcpy(at, bytes, n);
}

void xdr_put_bytes(struct xdr_writer *writer, const void *bytes, size_t n)
{
	xdr_put_u32(writer, (uint32_t)n);
	xdr_put_opaque(writer, bytes, n);
}

void xdr_put_text(struct xdr_writer *writer, const char *text)
{
	xdr_put_bytes(writer, text, strlen(text));
}

void xdr_put_optional_text(struct xdr_writer *writer, const char *text)
{
	xdr_put_u32(writer, text != NULL);
	if (text)
		xdr_put_text(writer, text);
}

void xdr_put_chars(struct xdr_writer *writer, const char *text, size_t n)
{
	size_t length = strnlen(text, n - 1);

	for (size_t i = 0; i < n; i++)
		xdr_put_u32(writer, i < length ? (uint8_t)text[i] : 0);
}

void xdr_put_char_list(struct xdr_writer *writer, const char *text)
{
	size_t n = strlen(text) + 1;

	xdr_put_u32(writer, (uint32_t)n);
	xdr_put_chars(writer, text, n);
}

void xdr_patch_u32(struct xdr_writer *writer, size_t at, uint32_t value)
{
	if (!writer->bad)
		store(writer->bytes + at, value);
}
