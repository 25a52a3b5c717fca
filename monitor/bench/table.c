#include "monitor/bench/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct table {
	unsigned n_columns;
	size_t n_cells, room;
	char **cells; /* an entry is NULL if there was no memory for it */
};

struct table *table_create(unsigned n_columns)
{
	struct table *table = calloc(1, sizeof(*table));

	if (table)
		table->n_columns = n_columns;
	return table;
}

static int make_room(struct table *table)
{
	size_t room = table->room ? 2 * table->room : 64;
	char **cells;

	if (table->n_cells < table->room)
		return 0;
	cells = reallocarray(table->cells, room, sizeof(*cells));
	if (!cells)
		return -1;
	table->cells = cells;
	table->room = room;
	return 0;
}

void table_cell(struct table *table, const char *format, ...)
{
	va_list arguments;
	char *text;

	if (!table || make_room(table) < 0)
		return;
	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	table->cells[table->n_cells++] = text;
}

static const char *cell_text(const struct table *table, size_t i)
{
	return i < table->n_cells && table->cells[i] ? table->cells[i] : "";
}

static int width_of(const struct table *table, unsigned column)
{
	size_t width = 0;

	for (size_t i = column; i < table->n_cells; i += table->n_columns) {
		size_t bytes = strlen(cell_text(table, i));

		if (bytes > width)
			width = bytes;
	}
	return (int)width;
}

void table_print(const struct table *table, FILE *to)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->n_cells; i++) {
		unsigned column = (unsigned)(i % table->n_columns);

		if (column == 0)
			fprintf(to, "%-*s", width_of(table, 0), cell_text(table, i));
		else
			fprintf(to, "  %*s", width_of(table, column), cell_text(table, i));
		if (column + 1 == table->n_columns || i + 1 == table->n_cells)
			fputc('\n', to);
	}
}

void table_free(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}
