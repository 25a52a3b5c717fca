#include "monitor/suggest.h"

#include <stdio.h>
#include <string.h>

#define MAX_WORD_BYTES 48u

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap neighbours) from one word to the other; both are short. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
	size_t row[3][MAX_WORD_BYTES + 1];
	size_t *before = row[0], *last = row[1], *now = row[2];

	for (size_t j = 0; j <= n_b; j++)
		last[j] = before[j] = j;
	for (size_t i = 1; i <= n_a; i++) {
		size_t *free_row = before;

		now[0] = i;
		for (size_t j = 1; j <= n_b; j++) {
			now[j] = least(least(last[j] + 1, now[j - 1] + 1),
			               last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least(now[j], before[j - 2] + 1);
		}
		before = last;
		last = now;
		now = free_row;
	}
	return last[n_b];
}

const char *suggest_word(const char *word, const char *const *words, size_t n_words)
{
	size_t length = strnlen(word, MAX_WORD_BYTES + 1);
	size_t nearest = length / 3 + 2; /* further away is another word */
	const char *found = NULL;

	if (length > MAX_WORD_BYTES)
		return NULL;
	for (size_t i = 0; i < n_words; i++) {
		size_t n = strlen(words[i]);
		size_t edits;

		if (n > MAX_WORD_BYTES)
			continue;
		edits = distance(word, length, words[i], n);
		if (edits < nearest && edits < n) {
			nearest = edits;
			found = words[i];
		}
	}
	return found;
}

const char *suggest_phrase(const char *word, const char *const *words, size_t n_words,
                           char text[static SUGGESTION_BYTES])
{
	const char *found = suggest_word(word, words, n_words);

	text[0] = '\0';
	if (found)
		snprintf(text, SUGGESTION_BYTES, "; did you mean \"%s\"?", found);
	return text;
}
