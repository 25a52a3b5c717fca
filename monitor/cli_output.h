/*
 * What the command line prints: tables, JSON, colour on a terminal alone.
 * One thread.
 */
#ifndef PORTCULLIS_MONITOR_CLI_OUTPUT_H
#define PORTCULLIS_MONITOR_CLI_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum cli_colour {
	COLOUR_NONE,
	COLOUR_BOLD,
	COLOUR_RED,
	COLOUR_GREEN,
	COLOUR_YELLOW,
};

/* Escape sequences that begin and end a colour; "" where standard output is no terminal or NO_COLOR is set.
 */
const char *cli_colour(enum cli_colour colour);
const char *cli_plain(void);

#define CLI_MAX_COLUMNS 12u

/* A table of texts; columns are as wide as their widest cell. */
struct cli_table {
	unsigned n_columns;
	unsigned right; /* bit i: column i is aligned to the right */
	char **cells;
	enum cli_colour *colours; /* of cells */
	size_t n_cells, room;
	enum cli_colour colour; /* of the cells that are added next */
};

/* The heading's cells, ended by NULL. */
void cli_table_begin(struct cli_table *table, unsigned right, const char *const *heading);
void cli_cell(struct cli_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints and frees. Without a row below the heading it prints `empty` instead. */
void cli_table_end(struct cli_table *table, const char *empty);

/* The document on standard output; takes json. Returns an exit status. */
int cli_print_json(json_t *json);

/* for (item in array); a json_array_foreach that checkers can read. */
#define cli_each(array, i, item) for ((i) = 0; ((item) = json_array_get(array, i)); (i)++)
#define cli_each_member(object, key, item)                                                                   \
	for ((key) = json_object_iter_key(json_object_iter(object));                                         \
	     (key) && ((item) = json_object_get(object, key));                                               \
	     (key) = json_object_iter_key(json_object_iter_next(object, json_object_key_to_iter(key))))

/* Members for people: never NULL, whatever the document holds. */
const char *cli_text(const json_t *object, const char *key);
long long cli_integer(const json_t *object, const char *key);
double cli_real(const json_t *object, const char *key);

#endif
