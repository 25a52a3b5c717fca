/*
 * The manifests that a verb names, with its options --policy, --data, --programs. One thread.
 */
#ifndef PORTCULLIS_MONITOR_CLI_MANIFEST_H
#define PORTCULLIS_MONITOR_CLI_MANIFEST_H

#include "monitor/cli.h"
#include "monitor/manifest.h"

/*
 * All operands; without one, the policy alone. CLI_DONE: *n_manifests of them, 1 at least, are the caller's;
 * CLI_FAILED: why says why; CLI_USAGE: cli_usage has been called.
 */
int cli_load_manifests(const struct cli_call *call, struct manifest *manifests[static CLI_MAX_GIVEN],
                       size_t *n_manifests, char why[static WHY_BYTES]);

#endif
