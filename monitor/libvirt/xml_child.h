/*
 * The monitor's side of an XML reader: a document out, a checked answer in, or none within two seconds.
 * Loop thread only.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_XML_CHILD_H
#define PORTCULLIS_MONITOR_LIBVIRT_XML_CHILD_H

#include "monitor/libvirt/xml_reader.h"
#include "monitor/monitor.h"

struct xml_child;

/* answer NULL: why says what is wrong, with the document or with the reader. Its texts are terminated,
 * without control characters but tabs and line ends. */
typedef void xml_answered_fn(void *opaque, const struct xml_answer *answer, const char *why);

/*
 * Starts a reader and asks it; done is called once, from the loop, never from within. -EMSGSIZE, -errno and a
 * line.
 */
int xml_child_ask(struct monitor *monitor, enum xml_kind kind, const char *xml, size_t bytes,
                  xml_answered_fn *done, void *opaque, struct xml_child **child, char why[static WHY_BYTES]);

/* done will not be called. */
void xml_child_cancel(struct xml_child *child);

#endif
