/*
 * What libvirt's clients say of guests, and what must be remembered to answer them: title, description,
 * metadata of other programs, how the last run ended.
 *
 * By uuid; it is forgotten with the definition, and with the monitor. Loop thread only.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_NOTES_H
#define PORTCULLIS_MONITOR_LIBVIRT_NOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/libvirt/frame.h"

#define MAX_NOTE_ELEMENTS 8u
#define MAX_NOTE_BYTES (16u << 10) /* of a text */

/* An element of another program's, as `virsh metadata --set` gave it. */
struct note_element {
	char *uri;
	char *xml;
	uint32_t name_end; /* offset in xml behind the name of its first tag */
};

struct note {
	struct note *next;
	uint8_t uuid[RPC_UUID_BYTES];
	char *title, *description; /* NULL: none */
	struct note_element elements[MAX_NOTE_ELEMENTS];
	uint32_t n_elements;
	bool destroyed; /* its last run was ended at once, on request */
};

struct notes;

struct notes *notes_create(void);
void notes_destroy(struct notes *notes);

/* NULL: nothing is noted of it. */
struct note *notes_find(struct notes *notes, const uint8_t *uuid);
/* Made if there is none; NULL: no memory. */
struct note *notes_make(struct notes *notes, const uint8_t *uuid);
void notes_forget(struct notes *notes, const uint8_t *uuid);

/* Copies; NULL or empty removes. False: no memory. */
bool note_set_text(char **text, const char *value);
const struct note_element *note_element(const struct note *note, const char *uri);
/* Replaces the element of that uri; xml NULL removes it. False: too many, or no memory. */
bool note_set_element(struct note *note, const char *uri, const char *xml, uint32_t name_end);

#endif
