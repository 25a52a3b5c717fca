/*
 * A table for people: columns as wide as their widest cell, the first one
 * left-aligned, the others right-aligned. Any thread, one at a time.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_TABLE_H
#define PORTCULLIS_MONITOR_BENCH_TABLE_H

#include <stdio.h>

struct table;

/* NULL: no memory; the other functions then do nothing. */
struct table *table_create(unsigned n_columns);

/* The next cell, row after row; the first n_columns are the heading. */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

void table_print(const struct table *table, FILE *to);
void table_free(struct table *table);

#endif
