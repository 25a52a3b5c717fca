/*
 * What a compiler says of a policy, as lines for the user: FILE:LINE: message.
 *
 * CIL reports in fragments, names places in three ways or not at all, and ends
 * with lines that say nothing. This collects the fragments, puts the place
 * first, quotes the source line, and finds the place of what CIL leaves out.
 * Sources are known to CIL by the names that complaints_alias gives, so that a
 * user's file name can not be mistaken for CIL's grammar.
 * One thread.
 */
#ifndef PORTCULLIS_POLICY_COMPLAINTS_H
#define PORTCULLIS_POLICY_COMPLAINTS_H

#include <stddef.h>

#include "policy/protocol.h"

#define COMPLAINT_BYTES 2048u /* one line, with its NUL; longer ones are cut off */
#define QUOTE_BYTES 128u      /* likewise, of a source line behind a message */

/* One source: its name as the user wrote it, and its bytes (no NUL is needed). */
struct policy_text {
	const char *name;
	const char *text;
	size_t bytes;
};

struct complaints {
	const struct policy_text *sources;
	size_t n_sources;
	char text[PROTOCOL_TEXT_BYTES]; /* lines, joined by newlines; no newline at the end */
	size_t used;
	size_t n_left_out;

	/* CIL's line as it arrives, and what of it waits for its place. */
	char line[COMPLAINT_BYTES];
	size_t line_used;
	char detail[COMPLAINT_BYTES];  /* said before its place was known */
	char place[COMPLAINT_BYTES];   /* of the line that may still grow */
	char message[COMPLAINT_BYTES]; /* likewise */
	char quote[QUOTE_BYTES];       /* the source line at that place */
	char excuse[COMPLAINT_BYTES];  /* the last line that says nothing */
};

/* The line of the first statement with that keyword, outside comments; 0 if there is none. */
unsigned long policy_text_find(const struct policy_text *text, const char *keyword);

void complaints_begin(struct complaints *complaints, const struct policy_text *sources, size_t n_sources);

/* The name by which CIL shall know source i; `alias` holds 16 bytes. */
void complaints_alias(size_t i, char alias[static 16]);

/* A fragment of CIL's log. */
void complaints_log(struct complaints *complaints, const char *fragment);

/* A whole line of our own. */
__attribute__((format(printf, 2, 3))) void complaints_add(struct complaints *complaints, const char *format,
                                                          ...);

/* Writes what is still waiting; then complaints->text is final. */
void complaints_end(struct complaints *complaints);

#endif
