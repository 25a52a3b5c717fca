#include "monitor/bench/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end of the number, NULL if there is none in range. */
static const char *scan(const char *text, uint32_t least, uint32_t most, uint32_t *number)
{
	unsigned long value;
	char *end;

	if (!isdigit((unsigned char)*text))
		return NULL;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || value < least || value > most)
		return NULL;
	*number = (uint32_t)value;
	return end;
}

bool option_number(const char *verb, const char *option, const char *text, uint32_t least, uint32_t most,
                   uint32_t *number)
{
	const char *end = scan(text, least, most, number);

	if (end && !*end)
		return true;
	fprintf(stderr, "portcullis bench %s: %s %s: expected a number from %u to %u\n", verb, option, text,
	        least, most);
	return false;
}

bool option_list(const char *verb, const char *option, const char *text, uint32_t least, uint32_t most,
                 struct number_list *list)
{
	const char *at = text;

	for (list->n = 0; list->n < MAX_LIST; at++) {
		at = scan(at, least, most, &list->value[list->n]);
		if (!at)
			break;
		list->n++;
		if (!*at)
			return true;
		if (*at != ',')
			break;
	}
	fprintf(stderr,
	        "portcullis bench %s: %s %s: expected numbers from %u to %u with commas between them, %u at "
	        "most\n",
	        verb, option, text, least, most, MAX_LIST);
	return false;
}

void option_error(const char *verb, int character, char *const *argv)
{
	fprintf(stderr, "portcullis bench %s: %s %s; see portcullis bench %s --help\n", verb,
	        argv[optind - 1], character == ':' ? "needs a value" : "is not an option", verb);
}
