/*
 * The text of audit lines: what audit2allow, ausearch and aureport read, and
 * what a terminal may safely show (H12, R16).
 *
 * Pure functions; any thread.
 */
#ifndef PORTCULLIS_MONITOR_AUDIT_FORMAT_H
#define PORTCULLIS_MONITOR_AUDIT_FORMAT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/audit.h"

#define AUDIT_TYPE_BYTES 32u
#define AUDIT_BODY_BYTES 1200u /* all that a line holds behind its prefix; longer is cut off */
#define AUDIT_LINE_BYTES (AUDIT_BODY_BYTES + 128u)

/* An audit line before it is text. */
struct audit_line {
	uint64_t serial;
	uint64_t unix_ns; /* CLOCK_REALTIME */
	const char *type;
	const char *body;
};

/* "avc:  denied  { send } for  ..."; always terminated and clean. Returns its length. */
size_t audit_format_avc(const struct audit_avc *avc, char body[static AUDIT_BODY_BYTES]);

/* guest="G" domain="D" service="S" reason="..."; clean, and no denial in the sense of the tools. */
size_t audit_format_refusal(const struct audit_refusal *refusal, char body[static AUDIT_BODY_BYTES]);

/* A notice's text, cleaned, and without a token that would make it a denial. Returns its length. */
size_t audit_format_notice(char body[static AUDIT_BODY_BYTES], const char *format, va_list arguments);

/* "type=T msg=audit(S.MS:N): BODY" without a newline. Returns its length. */
size_t audit_format_line(const struct audit_line *line, char text[static AUDIT_LINE_BYTES]);

/* "portcullis: policy refused: TEXT" and a newline, of PORTCULLIS_POLICY_REFUSED. Returns its length. */
size_t audit_format_people(const char *type, const char *body, char *line, size_t line_bytes);

/* Makes control characters and what is no ASCII '?', in place: no escape sequence reaches a terminal. */
void audit_clean(char *text);

#endif
