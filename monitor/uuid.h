/*
 * UUIDs of guests (RFC 9562): 16 bytes in network order, and their text. Pure; any thread.
 */
#ifndef PORTCULLIS_MONITOR_UUID_H
#define PORTCULLIS_MONITOR_UUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UUID_BYTES 16u
#define UUID_TEXT_BYTES 37u

/* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", hexadecimal of either case. False: it is none. */
bool uuid_parse(const char *text, uint8_t uuid[static UUID_BYTES]);
const char *uuid_format(const uint8_t uuid[static UUID_BYTES], char text[static UUID_TEXT_BYTES]);

/*
 * The same for the same host and name, at any time: version 8, XXH3-128 of both. host is the
 * machine-id or whatever else names this host.
 */
void uuid_derive(const char *host, const char *name, uint8_t uuid[static UUID_BYTES]);

/* What names this host: its machine-id (machine-id(5)), else its name. */
#define HOST_ID_BYTES 80u
void uuid_host(char host[static HOST_ID_BYTES]);

#endif
