/*
 * The control verbs upon guests: start, stop, suspend, resume, undefine. Internal to control*.c; loop thread.
 *
 * A manifest that is started comes as bytes, and every file that it names as a sealed memfd under the name by
 * which the manifest calls it (control_guest_key): nothing is opened by a path.
 */
#ifndef PORTCULLIS_MONITOR_CONTROL_GUEST_H
#define PORTCULLIS_MONITOR_CONTROL_GUEST_H

#include "monitor/control_request.h"
#include "monitor/manifest.h"

void control_run_guest_start(struct control_request *request);
void control_run_guest_stop(struct control_request *request);
void control_run_guest_suspend(struct control_request *request);
void control_run_guest_resume(struct control_request *request);
void control_run_guest_undefine(struct control_request *request);

/* "program:echo", "data:words.txt": how a request calls a file that the manifest names. malloc; NULL: no
 * memory.
 */
char *control_guest_key(enum manifest_file what, const char *name);

#endif
