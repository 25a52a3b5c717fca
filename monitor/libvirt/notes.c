#include "monitor/libvirt/notes.h"

#include <stdlib.h>
#include <string.h>

struct notes {
	struct note *first;
};

struct notes *notes_create(void)
{
	return calloc(1, sizeof(struct notes));
}

static void note_free(struct note *note)
{
	for (uint32_t i = 0; i < note->n_elements; i++) {
		free(note->elements[i].uri);
		free(note->elements[i].xml);
	}
	free(note->title);
	free(note->description);
	free(note);
}

void notes_destroy(struct notes *notes)
{
	while (notes && notes->first) {
		struct note *note = notes->first;

		notes->first = note->next;
		note_free(note);
	}
	free(notes);
}

struct note *notes_find(struct notes *notes, const uint8_t *uuid)
{
	struct note *note = notes->first;

	while (note && memcmp(note->uuid, uuid, RPC_UUID_BYTES) != 0)
		note = note->next;
	return note;
}

struct note *notes_make(struct notes *notes, const uint8_t *uuid)
{
	struct note *note = notes_find(notes, uuid);

	if (note)
		return note;
	note = calloc(1, sizeof(*note));
	if (!note)
		return NULL;
	memcpy(note->uuid, uuid, RPC_UUID_BYTES);
	note->next = notes->first;
	notes->first = note;
	return note;
}

void notes_forget(struct notes *notes, const uint8_t *uuid)
{
	for (struct note **link = &notes->first; *link; link = &(*link)->next) {
		struct note *note = *link;

		if (memcmp(note->uuid, uuid, RPC_UUID_BYTES) != 0)
			continue;
		*link = note->next;
		note_free(note);
		return;
	}
}

bool note_set_text(char **text, const char *value)
{
	char *copy = value && *value ? strdup(value) : NULL;

	if (value && *value && !copy)
		return false;
	free(*text);
	*text = copy;
	return true;
}

static uint32_t find_element(const struct note *note, const char *uri)
{
	uint32_t i = 0;

	while (i < note->n_elements && strcmp(note->elements[i].uri, uri) != 0)
		i++;
	return i;
}

const struct note_element *note_element(const struct note *note, const char *uri)
{
	uint32_t i = find_element(note, uri);

	return i < note->n_elements ? &note->elements[i] : NULL;
}

bool note_set_element(struct note *note, const char *uri, const char *xml, uint32_t name_end)
{
	uint32_t i = find_element(note, uri);
	struct note_element made = {NULL, NULL, name_end};

	if (xml) {
		if (i == MAX_NOTE_ELEMENTS)
			return false;
		made.uri = strdup(uri);
		made.xml = strdup(xml);
		if (!made.uri || !made.xml) {
			free(made.uri);
			free(made.xml);
			return false;
		}
	}
	if (i < note->n_elements) {
		free(note->elements[i].uri);
		free(note->elements[i].xml);
		note->elements[i] = note->elements[--note->n_elements];
	}
	if (xml)
		note->elements[note->n_elements++] = made;
	return true;
}
