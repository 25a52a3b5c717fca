/*
 * Reads the XML of clients, in a process of its own.
 *
 * The launcher starts one for each document: no privileges, little memory, a second of processor time, a
 * seccomp filter that leaves memory and its socket. It gets one datagram, answers with one struct, and ends.
 * What it says is checked like anyone's (xml_child.c). Document types, and so entities, are refused.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_XML_READER_H
#define PORTCULLIS_MONITOR_LIBVIRT_XML_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/abi/limits.h"

#define XML_READER_FD 3

#define MAX_XML_BYTES (64u << 10)
#define MAX_XML_DEPTH 32u
#define MAX_XML_MANIFEST_BYTES 256u
#define MAX_XML_TITLE_BYTES 256u
#define MAX_XML_DESCRIPTION_BYTES 4096u

enum xml_kind {
	XML_GUEST,   /* <domain> */
	XML_ELEMENT, /* one element of another program's, for <metadata> */
};

/* The datagram: this, then the document. */
struct xml_question {
	uint32_t kind; /* enum xml_kind */
};

#define XML_MAGIC 0x70786d6cu

struct xml_answer {
	uint32_t magic;
	uint32_t good;
	char why[WHY_BYTES]; /* if it is not: a line with its place */

	/* Of a guest. "": not said. */
	char name[MAX_NAME_BYTES];
	uint32_t has_uuid;
	uint8_t uuid[16];
	char manifest[MAX_XML_MANIFEST_BYTES];
	char title[MAX_XML_TITLE_BYTES];
	char description[MAX_XML_DESCRIPTION_BYTES];

	/* Of an element: where its first tag's name ends. */
	uint32_t name_end;
};

/* The reading itself: no state, no process. For tests and fuzzing too. */
void xml_read(enum xml_kind kind, const char *xml, size_t bytes, struct xml_answer *answer);

/* Serves the socket; returns the process's exit status. */
int xml_reader_main(int socket_fd);

#endif
