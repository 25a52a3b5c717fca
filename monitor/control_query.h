/*
 * Questions about the policy in force: policy query and policy explain.
 * Internal to control*.c; loop thread only.
 */
#ifndef PORTCULLIS_MONITOR_CONTROL_QUERY_H
#define PORTCULLIS_MONITOR_CONTROL_QUERY_H

#include "monitor/control_request.h"
#include "policy/server.h"

void control_run_query(struct control_request *request);
void control_run_explain(struct control_request *request);

/*
 * The form of both answers; the command line uses it without a monitor too.
 * permission 0: none was asked about. NULL when memory is short.
 */
json_t *query_json(const char *source, const char *target, enum policy_class tclass, uint32_t permission,
                   const struct server_decision *decision);
json_t *explain_json(const char *source, const char *target, enum policy_class tclass, uint32_t permission,
                     const char *text);

/* Reads the names of class and permission ("" or NULL: none). -EINVAL and a line that says what there is. */
int query_read_names(const char *class_text, const char *permission_text, enum policy_class *tclass,
                     uint32_t *permission, char why[static WHY_BYTES]);

#endif
