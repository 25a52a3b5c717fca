#include "policy/complaints.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIAS_MARK '@'

/* They follow what has been said already. */
static const char *const empty_phrases[] = {
	"Failed to resolve AST",         "Failed to build AST",   "Failed to generate binary",
	"Failed to verify cil database", "Post process failed",   "Binary policy creation failed",
	"Failed to compile cildb",       "Failed to resolve ast",
};

struct place {
	size_t source;
	unsigned long line;
	const char *begin; /* of CIL's words for it, and the end of them */
	const char *end;
};

void complaints_begin(struct complaints *complaints, const struct policy_text *sources, size_t n_sources)
{
	memset(complaints, 0, sizeof(*complaints));
	complaints->sources = sources;
	complaints->n_sources = n_sources;
}

void complaints_alias(size_t i, char alias[static 16])
{
	snprintf(alias, 16, "%c%zu", ALIAS_MARK, i);
}

/* Appends, cutting off at the end of the buffer. */
static void append(char *text, size_t text_bytes, const char *more)
{
	size_t used = strlen(text);

	snprintf(text + used, text_bytes - used, "%s", more);
}

static void add_line(struct complaints *complaints, const char *line)
{
	size_t n = strlen(line);
	size_t separator = complaints->used > 0;

	/* Room stays for the line that says how many were left out. */
	if (complaints->used + separator + n + 64 > sizeof(complaints->text)) {
		complaints->n_left_out++;
		return;
	}
	if (separator)
		complaints->text[complaints->used++] = '\n';
	memcpy(complaints->text + complaints->used, line, n + 1);
	complaints->used += n;
}

/* The place that waited is complete when another place, or the end, comes. */
static void flush(struct complaints *complaints)
{
	char line[2 * COMPLAINT_BYTES + QUOTE_BYTES + 8];

	if (complaints->message[0]) {
		snprintf(line, sizeof(line), "%s%s%s%s%s", complaints->place,
		         complaints->place[0] ? ": " : "", complaints->message,
		         complaints->quote[0] ? ": " : "", complaints->quote);
		add_line(complaints, line);
	}
	complaints->place[0] = complaints->message[0] = complaints->quote[0] = '\0';
}

void complaints_add(struct complaints *complaints, const char *format, ...)
{
	char line[COMPLAINT_BYTES];
	va_list arguments;

	flush(complaints);
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	add_line(complaints, line);
}

/* "@2" at text: source 2. */
static const char *parse_alias(const struct complaints *complaints, const char *text, size_t *source)
{
	char *end;

	if (text[0] != ALIAS_MARK || !isdigit((unsigned char)text[1]))
		return NULL;
	*source = strtoul(text + 1, &end, 10);
	return *source < complaints->n_sources ? end : NULL;
}

/* " at @2:17", the usual form. */
static bool find_at(const struct complaints *complaints, const char *line, struct place *place)
{
	for (const char *at = strstr(line, " at @"); at; at = strstr(at + 1, " at @")) {
		const char *colon = parse_alias(complaints, at + 4, &place->source);
		char *end;

		if (!colon || *colon != ':' || !isdigit((unsigned char)colon[1]))
			continue;
		place->line = strtoul(colon + 1, &end, 10);
		place->begin = at;
		place->end = end;
		return true;
	}
	return false;
}

/* " at line 17 of @2", the parser's form. */
static bool find_at_line(const struct complaints *complaints, const char *line, struct place *place)
{
	const char *at = strstr(line, " at line ");
	char *of;

	if (!at || !isdigit((unsigned char)at[9]))
		return false;
	place->line = strtoul(at + 9, &of, 10);
	place->begin = at;
	place->end = strncmp(of, " of ", 4) == 0 ? parse_alias(complaints, of + 4, &place->source) : NULL;
	return place->end != NULL;
}

/* Whether "keyword" stands at p, as a whole word. */
static bool is_keyword(const char *p, const char *end, const char *keyword)
{
	size_t n = strlen(keyword);

	return (size_t)(end - p) > n && memcmp(p, keyword, n) == 0 && !isalnum((unsigned char)p[n]) &&
	       p[n] != '_' && p[n] != '-';
}

unsigned long policy_text_find(const struct policy_text *text, const char *keyword)
{
	const char *end = text->text + text->bytes;
	unsigned long line = 1;
	bool comment = false;
	bool open = false; /* only blanks since a parenthesis */

	for (const char *p = text->text; p < end; p++) {
		if (!comment && open && is_keyword(p, end, keyword))
			return line;
		open = !comment && (*p == '(' || (open && isspace((unsigned char)*p)));
		comment = *p != '\n' && (comment || *p == ';');
		line += *p == '\n';
	}
	return 0;
}

/* CIL does not say where an unknown keyword stands. */
static bool find_keyword(const struct complaints *complaints, const char *keyword, struct place *place)
{
	for (size_t i = 0; i < complaints->n_sources; i++) {
		*place = (struct place){.source = i,
		                        .line = policy_text_find(&complaints->sources[i], keyword)};
		if (place->line)
			return true;
	}
	return false;
}

/* The source's line without the blanks around it; "" if there is none. */
static void quote_line(struct complaints *complaints, const struct place *place)
{
	const char *p = complaints->sources[place->source].text;
	const char *end, *stop;

	if (!p)
		return;
	end = p + complaints->sources[place->source].bytes;
	for (unsigned long line = 1; line < place->line && p < end; line++) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));

		p = newline ? newline + 1 : end;
	}
	stop = p < end ? memchr(p, '\n', (size_t)(end - p)) : end;
	stop = stop ? stop : end;
	while (p < stop && isspace((unsigned char)*p))
		p++;
	while (p < stop && isspace((unsigned char)stop[-1]))
		stop--;
	if (stop - p < (ptrdiff_t)QUOTE_BYTES)
		snprintf(complaints->quote, QUOTE_BYTES, "%.*s", (int)(stop - p), p);
	else
		snprintf(complaints->quote, QUOTE_BYTES, "%.*s...", (int)QUOTE_BYTES - 4, p);
}

/* Another message for that place: one line per place, so consecutive ones are joined. */
static void say_at(struct complaints *complaints, const struct place *place, const char *message)
{
	char where[COMPLAINT_BYTES];

	snprintf(where, sizeof(where), "%.2000s:%lu", complaints->sources[place->source].name, place->line);
	if (strcmp(where, complaints->place) != 0) {
		flush(complaints);
		memcpy(complaints->place, where, sizeof(where));
		quote_line(complaints, place);
	} else if (complaints->message[0]) {
		append(complaints->message, sizeof(complaints->message), "; ");
	}
	append(complaints->message, sizeof(complaints->message), message);
}

/* A line that names a place: the details before it belong to it. */
static void take_placed(struct complaints *complaints, const char *line, const struct place *place)
{
	static const char unresolved[] = "Failed to resolve ";
	bool known = complaints->detail[0] != '\0';
	bool vague = !known && strncmp(line, unresolved, strlen(unresolved)) == 0 && place->end[0] == '\0' &&
	             (size_t)(place->begin - line) > strlen(" statement") &&
	             strncmp(place->begin - strlen(" statement"), " statement", strlen(" statement")) == 0;
	char message[2 * COMPLAINT_BYTES + 64];

	snprintf(message, sizeof(message), "%s%s%.*s%s%s", complaints->detail, known ? "; " : "",
	         (int)(place->begin - line), line, place->end,
	         vague ? " (a name in it is not declared)" : "");
	complaints->detail[0] = '\0';
	say_at(complaints, place, message);
}

/*
 * Indented lines belong to a violation: the rule that forbids, then for each
 * rule that violates it "allow at PLACE" and the rule.
 */
static void take_indented(struct complaints *complaints, const char *line)
{
	struct place place;

	line += strspn(line, " ");
	if (strncmp(line, "<root>", 6) == 0)
		return;
	if (find_at(complaints, line, &place)) {
		say_at(complaints, &place, "this rule violates it");
	} else if (line[0] != '(') {
		append(complaints->message, sizeof(complaints->message), "; ");
		append(complaints->message, sizeof(complaints->message), line);
	}
}

static bool is_empty_phrase(const char *line)
{
	for (size_t i = 0; i < sizeof(empty_phrases) / sizeof(empty_phrases[0]); i++)
		if (strncmp(line, empty_phrases[i], strlen(empty_phrases[i])) == 0)
			return true;
	return false;
}

static void take_line(struct complaints *complaints, const char *line)
{
	static const char unknown[] = "Error: Unknown keyword ";
	struct place place;

	if (line[0] == '\0')
		return;
	if (line[0] == ' ') {
		if (complaints->detail[0]) { /* a violation that has no place of its own */
			flush(complaints);
			append(complaints->message, sizeof(complaints->message), complaints->detail);
			complaints->detail[0] = '\0';
		}
		take_indented(complaints, line);
	} else if (find_at(complaints, line, &place) || find_at_line(complaints, line, &place)) {
		take_placed(complaints, line, &place);
	} else if (is_empty_phrase(line)) {
		snprintf(complaints->excuse, sizeof(complaints->excuse), "%s", line);
	} else if (strncmp(line, unknown, strlen(unknown)) == 0 &&
	           find_keyword(complaints, line + strlen(unknown), &place)) {
		say_at(complaints, &place, line + strlen("Error: "));
	} else {
		append(complaints->detail, sizeof(complaints->detail), complaints->detail[0] ? "; " : "");
		append(complaints->detail, sizeof(complaints->detail), line);
	}
}

static void end_line(struct complaints *complaints)
{
	char line[COMPLAINT_BYTES];

	memcpy(line, complaints->line, complaints->line_used);
	line[complaints->line_used] = '\0';
	complaints->line_used = 0;
	take_line(complaints, line);
}

void complaints_log(struct complaints *complaints, const char *fragment)
{
	/* Some of CIL's messages lack their newline; the next one begins like a sentence. */
	if (complaints->line_used && complaints->line[0] != ' ' && isupper((unsigned char)fragment[0]))
		end_line(complaints);
	for (; *fragment; fragment++) {
		if (*fragment == '\n')
			end_line(complaints);
		else if (complaints->line_used < sizeof(complaints->line) - 1)
			complaints->line[complaints->line_used++] = *fragment;
	}
}

void complaints_end(struct complaints *complaints)
{
	char line[64];

	end_line(complaints);
	flush(complaints);
	if (complaints->detail[0])
		add_line(complaints, complaints->detail);
	else if (!complaints->used && complaints->excuse[0])
		add_line(complaints, complaints->excuse);
	complaints->detail[0] = '\0';
	if (!complaints->n_left_out)
		return;
	snprintf(line, sizeof(line), "\n(%zu more lines)", complaints->n_left_out);
	append(complaints->text, sizeof(complaints->text), line);
	complaints->used = strlen(complaints->text);
	complaints->n_left_out = 0;
}
