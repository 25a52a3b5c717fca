/*
 * What the command line says about itself. Pure output; one thread.
 */
#ifndef PORTCULLIS_MONITOR_CLI_HELP_H
#define PORTCULLIS_MONITOR_CLI_HELP_H

#include <stdio.h>

#include "monitor/cli.h"

#define CLI_VERSION "0.1.0"

/* The verb's i-th option, its own and the shared ones; NULL: no more. */
const struct cli_option *cli_option_at(const struct cli_verb *verb, size_t i);

void cli_print_usage(const struct cli_verb *verb, FILE *to); /* how it is called, and where its help is */
void cli_print_help(const struct cli_verb *verb, FILE *to);
void cli_print_group(const char *word, FILE *to); /* verbs that begin with that word */
void cli_print_all(FILE *to);

#endif
