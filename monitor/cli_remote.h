/*
 * Asking a running monitor, on behalf of a verb. One thread.
 */
#ifndef PORTCULLIS_MONITOR_CLI_REMOTE_H
#define PORTCULLIS_MONITOR_CLI_REMOTE_H

#include <jansson.h>

#include "monitor/cli.h"
#include "monitor/client.h"

/* Where the monitor is asked: --socket, or the default. False: said why not. */
bool remote_path(const struct cli_call *call, char path[static SOCKET_PATH_BYTES]);

/*
 * Sends the request (taken) with policy files and waits, with a sign of life on
 * a terminal. CLI_DONE and *body (NULL: the reply has none); CLI_FAILED: said why, and *body is what came
 * all the same. body may be NULL.
 */
int remote_ask(const struct cli_call *call, json_t *request, const int *fds, size_t n_fds, json_t **body);

/* As remote_ask with no files, for a reply that is bytes: *body_fd is the caller's. */
int remote_ask_bytes(const struct cli_call *call, json_t *request, int *body_fd, size_t *bytes);

/*
 * Asks again and again, until deadline_ns, while there is no monitor or `enough` says no; a message says
 * what was waited for. *body as above.
 */
int remote_ask_until(const struct cli_call *call, const json_t *request, uint64_t deadline_ns,
                     bool (*enough)(void *opaque, const json_t *body), void *opaque, const char *what,
                     json_t **body);

#endif
