/*
 * "did you mean": the known word that a mistyped one is nearest to.
 * Pure; any thread.
 */
#ifndef PORTCULLIS_MONITOR_SUGGEST_H
#define PORTCULLIS_MONITOR_SUGGEST_H

#include <stddef.h>

/* The nearest of the words, if it is near enough to be meant; NULL: none. */
const char *suggest_word(const char *word, const char *const *words, size_t n_words);

/* Writes "; did you mean \"x\"?" or "" and returns text. */
#define SUGGESTION_BYTES 96u
const char *suggest_phrase(const char *word, const char *const *words, size_t n_words,
                           char text[static SUGGESTION_BYTES]);

#endif
