#include "monitor/cli_output.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "monitor/cli.h"

/* ---- colour ---- */

static bool is_colourful(void)
{
	const char *term = getenv("TERM");
	const char *no_colour = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !(no_colour && *no_colour);
}

const char *cli_colour(enum cli_colour colour)
{
	static const char *const sequences[] = {"", "\033[1m", "\033[31m", "\033[32m", "\033[33m"};

	return is_colourful() ? sequences[colour] : "";
}

const char *cli_plain(void)
{
	return is_colourful() ? "\033[0m" : "";
}

/* ---- tables ---- */

static void add_cell(struct cli_table *table, char *text)
{
	if (table->n_cells == table->room) {
		size_t room = table->room ? table->room * 2 : 64;

		table->cells = reallocarray(table->cells, room, sizeof(*table->cells));
		table->colours = reallocarray(table->colours, room, sizeof(*table->colours));
		if (!table->cells || !table->colours)
			abort(); /* a few kilobytes; nothing is at stake but this output */
		table->room = room;
	}
	table->colours[table->n_cells] = table->colour;
	table->cells[table->n_cells++] = text;
}

void cli_table_begin(struct cli_table *table, unsigned right, const char *const *heading)
{
	*table = (struct cli_table){.right = right, .colour = COLOUR_BOLD};
	for (; heading[table->n_columns]; table->n_columns++)
		add_cell(table, strdup(heading[table->n_columns]));
	table->colour = COLOUR_NONE;
}

void cli_cell(struct cli_table *table, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	add_cell(table, text);
}

static void print_cell(const struct cli_table *table, size_t i, const size_t *widths)
{
	unsigned column = (unsigned)(i % table->n_columns);
	const char *text = table->cells[i] ? table->cells[i] : "";
	bool last = column + 1 == table->n_columns;
	int pad = (int)(widths[column] - strlen(text));

	if (table->right & 1u << column)
		printf("%*s", pad, "");
	printf("%s%s%s", cli_colour(table->colours[i]), text, cli_plain());
	if (!(table->right & 1u << column) && !last)
		printf("%*s", pad, "");
	printf("%s", last ? "\n" : "  ");
}

void cli_table_end(struct cli_table *table, const char *empty)
{
	size_t widths[CLI_MAX_COLUMNS] = {0};

	for (size_t i = 0; i < table->n_cells; i++) {
		size_t length = table->cells[i] ? strlen(table->cells[i]) : 0;

		if (length > widths[i % table->n_columns])
			widths[i % table->n_columns] = length;
	}
	if (table->n_cells == table->n_columns)
		printf("%s\n", empty);
	for (size_t i = 0; i < table->n_cells; i++) {
		if (table->n_cells > table->n_columns)
			print_cell(table, i, widths);
		free(table->cells[i]);
	}
	free(table->cells);
	free(table->colours);
}

/* ---- JSON ---- */

int cli_print_json(json_t *json)
{
	int failed = !json || json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);

	json_decref(json);
	printf("\n");
	return failed ? CLI_FAILED : CLI_DONE;
}

const char *cli_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

long long cli_integer(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

double cli_real(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}
