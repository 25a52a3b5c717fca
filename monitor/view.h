/*
 * What the monitor shows: JSON of its state in the forms that scripts rely on
 * (docs/cli). Each takes the registry lock and gives one consistent picture.
 * NULL when memory is short. Loop thread.
 */
#ifndef PORTCULLIS_MONITOR_VIEW_H
#define PORTCULLIS_MONITOR_VIEW_H

#include <jansson.h>

#include "monitor/monitor.h"

json_t *view_status(struct monitor *monitor);
json_t *view_channels(struct monitor *monitor);
json_t *view_guests(struct monitor *monitor);  /* the "guests" of status, with exits and stops */
json_t *view_domains(struct monitor *monitor); /* [{"guest", "domain", "context", "vcpu", "state", "services",
                                                  "slots", "slots_used"}] */
json_t *view_policy(struct monitor *monitor);  /* number, fingerprint, enforcing, types, rules, booleans, mls,
                                                  overlay, booleans that were set */

#endif
