#include "monitor/audit_format.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void audit_clean(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

/* A body as it grows; what does not fit is left out. */
struct body {
	char *text;
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void put(struct body *body, const char *format, ...)
{
	size_t room = AUDIT_BODY_BYTES - body->used;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(body->text + body->used, room, format, arguments);
	va_end(arguments);
	if (n > 0)
		body->used += (size_t)n < room ? (size_t)n : room - 1;
}

/* Inside quotes; a quote of its own would end the field, so it becomes an apostrophe. */
static void put_quoted(struct body *body, const char *key, const char *value)
{
	size_t start;

	put(body, " %s=\"", key);
	start = body->used;
	put(body, "%s", value);
	for (char *c = body->text + start; (c = strchr(c, '"'));)
		*c = '\'';
	put(body, "\"");
}

/* Unquoted, as the tools want it; a blank would end the field. */
static void put_context(struct body *body, const char *key, const char *context)
{
	size_t start;

	put(body, " %s=", key);
	start = body->used;
	put(body, "%s", *context ? context : "?");
	for (char *c = body->text + start; *c; c++)
		if (*c == ' ' || *c == '"')
			*c = '?';
}

size_t audit_format_avc(const struct audit_avc *avc, char text[static AUDIT_BODY_BYTES])
{
	struct body body = {text, 0};
	char permissions[256];
	const char *tclass = class_name(avc->tclass);

	class_format(avc->tclass, avc->permissions, permissions, sizeof(permissions));
	put(&body, "avc:  %s  %s for ", avc->granted ? "granted" : "denied", permissions);
	if (avc->guest)
		put_quoted(&body, "guest", avc->guest);
	if (avc->domain)
		put_quoted(&body, "domain", avc->domain);
	if (avc->channel)
		put(&body, " channel=%llu", (unsigned long long)avc->channel);
	put_context(&body, "scontext", avc->source_context);
	put_context(&body, "tcontext", avc->target_context);
	put(&body, " tclass=%s permissive=%d", tclass ? tclass : "?", avc->permissive);
	if (avc->reason)
		put_quoted(&body, "reason", avc->reason);
	audit_clean(text);
	return body.used;
}

/* Whatever is quoted in it: no token of it makes the line a denial. */
static void disarm(char *body)
{
	audit_clean(body);
	for (char *token = body; (token = strstr(token, "avc:"));)
		token[3] = '.';
}

size_t audit_format_refusal(const struct audit_refusal *refusal, char text[static AUDIT_BODY_BYTES])
{
	struct body body = {text, 0};

	put_quoted(&body, "guest", refusal->guest);
	put_quoted(&body, "domain", refusal->domain);
	put_quoted(&body, "service", refusal->service);
	put_quoted(&body, "reason", refusal->reason);
	memmove(text, text + 1, body.used); /* the first blank */
	disarm(text);
	return body.used - 1;
}

size_t audit_format_notice(char body[static AUDIT_BODY_BYTES], const char *format, va_list arguments)
{
	int n = vsnprintf(body, AUDIT_BODY_BYTES, format, arguments);

	if (n < 0)
		body[0] = '\0';
	disarm(body);
	return strlen(body);
}

size_t audit_format_line(const struct audit_line *line, char text[static AUDIT_LINE_BYTES])
{
	int n = snprintf(text, AUDIT_LINE_BYTES, "type=%s msg=audit(%llu.%03llu:%llu): %s", line->type,
	                 (unsigned long long)(line->unix_ns / 1000000000u),
	                 (unsigned long long)(line->unix_ns / 1000000u % 1000u),
	                 (unsigned long long)line->serial, line->body);

	return n < (int)AUDIT_LINE_BYTES ? (size_t)n : AUDIT_LINE_BYTES - 1;
}

#define TYPE_PREFIX "PORTCULLIS_"

size_t audit_format_people(const char *type, const char *body, char *line, size_t line_bytes)
{
	bool ours = strncmp(type, TYPE_PREFIX, strlen(TYPE_PREFIX)) == 0;
	char word[AUDIT_TYPE_BYTES];
	int n;

	snprintf(word, sizeof(word), "%s", ours ? type + strlen(TYPE_PREFIX) : type);
	for (char *c = word; *c; c++)
		*c = *c == '_' ? ' ' : (char)tolower((unsigned char)*c);
	n = snprintf(line, line_bytes, "portcullis: %s: %s\n", word, body);
	return (size_t)n;
}
