/*
 * Parsing what measurements share: numbers, lists of numbers, usage errors.
 * Texts are the user's; a failure prints one line on standard error.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_OPTIONS_H
#define PORTCULLIS_MONITOR_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_LIST 32u

struct number_list {
	uint32_t value[MAX_LIST];
	size_t n;
};

/* A decimal number in [least, most]. False, and a line "portcullis bench VERB: OPTION ...". */
bool option_number(const char *verb, const char *option, const char *text, uint32_t least, uint32_t most,
                   uint32_t *number);

/* Numbers separated by commas. */
bool option_list(const char *verb, const char *option, const char *text, uint32_t least, uint32_t most,
                 struct number_list *list);

/* The line for a word that is not an option, or lacks its value (getopt's '?' and ':'). */
void option_error(const char *verb, int character, char *const *argv);

#endif
