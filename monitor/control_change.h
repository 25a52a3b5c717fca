/*
 * The control verbs that change decisions: one form, from request to report.
 *
 * Who may make the change is asked first: of the monitor by the table of verbs, or, where the
 * verb acts upon a domain or a channel, of each target by name here. Internal to
 * control*.c; loop thread.
 */
#ifndef PORTCULLIS_MONITOR_CONTROL_CHANGE_H
#define PORTCULLIS_MONITOR_CONTROL_CHANGE_H

#include "monitor/change.h"
#include "monitor/control_request.h"

/* Begins it; stop is a mode's name or NULL. Replies when it has ended, or at once why it has not begun. */
void control_begin_change(struct control_request *request, struct change_request *change, const char *stop);

/* Verbs. */
void control_run_bool(struct control_request *request);
void control_run_bool_list(struct control_request *request);
void control_run_enforce(struct control_request *request);
void control_run_revoke(struct control_request *request);
void control_run_grant(struct control_request *request);
void control_run_reset(struct control_request *request);
void control_run_relabel(struct control_request *request);
void control_run_quarantine(struct control_request *request);
void control_run_release(struct control_request *request);
void control_run_cut(struct control_request *request);

/* Members of the request, by a strict format of jansson's; false: replied already. */
bool control_unpack(struct control_request *request, const char *format, ...);

#endif
