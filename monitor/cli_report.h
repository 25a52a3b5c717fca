/*
 * A change's report (docs/cli: "policy push") for people. One thread.
 */
#ifndef PORTCULLIS_MONITOR_CLI_REPORT_H
#define PORTCULLIS_MONITOR_CLI_REPORT_H

#include <jansson.h>

void cli_print_report(const json_t *report);

#endif
