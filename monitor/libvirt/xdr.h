/*
 * XDR (RFC 4506) as libvirt's protocol uses it: big-endian words, texts padded to four bytes.
 *
 * A reader never trusts: what is too long, cut short or not in its form makes it bad, and from then on
 * every read gives zeroes, so a decoder looks once, at the end. It copies nothing: texts point into what is
 * read. A writer grows up to a limit and is bad beyond it. No state but theirs; any thread.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_XDR_H
#define PORTCULLIS_MONITOR_LIBVIRT_XDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xdr_reader {
	const uint8_t *at;
	size_t left;
	bool bad;
};

/* Not terminated, and without NUL inside. bytes is NULL for an optional text that is absent. */
struct xdr_text {
	const char *bytes;
	size_t n;
};

uint32_t xdr_get_u32(struct xdr_reader *reader);
int32_t xdr_get_i32(struct xdr_reader *reader);
uint64_t xdr_get_u64(struct xdr_reader *reader);
/* The word 0 or 1; any other is bad. */
bool xdr_get_bool(struct xdr_reader *reader);
/* A text of at most `most` bytes. */
struct xdr_text xdr_get_text(struct xdr_reader *reader, size_t most);
struct xdr_text xdr_get_optional_text(struct xdr_reader *reader, size_t most);
/* Exactly n bytes, a multiple of four. */
void xdr_get_opaque(struct xdr_reader *reader, void *bytes, size_t n);
/* All was in its form, and nothing is left over. */
bool xdr_ended(const struct xdr_reader *reader);

bool xdr_text_is(struct xdr_text text, const char *string);
/* Copies it, terminated, cut off where it is longer than the room. */
void xdr_text_copy(struct xdr_text text, char *string, size_t room);

struct xdr_writer {
	uint8_t *bytes; /* free it */
	size_t n, room;
	size_t most; /* it is bad beyond */
	bool bad;    /* that, or no memory */
};

void xdr_put_u32(struct xdr_writer *writer, uint32_t value);
void xdr_put_i32(struct xdr_writer *writer, int32_t value);
void xdr_put_u64(struct xdr_writer *writer, uint64_t value);
void xdr_put_text(struct xdr_writer *writer, const char *text);
void xdr_put_bytes(struct xdr_writer *writer, const void *bytes, size_t n); /* length, bytes, padding */
void xdr_put_optional_text(struct xdr_writer *writer, const char *text);    /* NULL: absent */
/* Bytes without a length, padded to four. */
void xdr_put_opaque(struct xdr_writer *writer, const void *bytes, size_t n);
/* Bytes as they are: what a stream carries. */
void xdr_put_raw(struct xdr_writer *writer, const void *bytes, size_t n);
/* libvirt's char[n]: a word for each character, zeroes behind the text. */
void xdr_put_chars(struct xdr_writer *writer, const char *text, size_t n);
/* libvirt's char<>: their number, with the terminating NUL, then a word for each. */
void xdr_put_char_list(struct xdr_writer *writer, const char *text);
/* Writes over a word that was put. */
void xdr_patch_u32(struct xdr_writer *writer, size_t at, uint32_t value);

#endif
