/*
 * The manual page and the shell's completion, made of the table of verbs: neither can
 * say anything else than --help does. `make install` puts both in their places.
 */
#ifndef PORTCULLIS_MONITOR_CLI_MANUAL_H
#define PORTCULLIS_MONITOR_CLI_MANUAL_H

#include <stdio.h>

/* portcullis(1) in man(7) macros. */
void cli_print_manual(FILE *to);

/* Completion of verbs, options and file names for bash. */
void cli_print_completion(FILE *to);

#endif
