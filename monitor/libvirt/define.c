/*
 * Guests that clients define: XML, then a manifest beneath --images, then a definition.
 *
 * The XML is read by a process of its own, the files by a worker: a slow disk holds up no
 * change. One at a time; the next client is asked to try again.
 */
#include <errno.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/libvirt/domain_xml.h"
#include "monitor/libvirt/images.h"
#include "monitor/libvirt/server.h"
#include "monitor/libvirt/xml_child.h"
#include "monitor/workers.h"

struct define_job {
	struct libvirt *server;
	struct rpc_call *call;
	struct xml_child *child; /* while the XML is read */
	struct xml_answer xml;

	/* While files are read: the worker's. */
	int images_fd;
	struct manifest *manifest;
	int error;
	char why[WHY_BYTES];
};

static void job_free(struct define_job *job)
{
	if (job->child)
		xml_child_cancel(job->child);
	manifest_free(job->manifest);
	job->server->job = NULL;
	free(job);
}

/* A worker that reads is waited for, and its end finds that nobody waits for the answer. */
void define_close(struct libvirt *server)
{
	workers_destroy(server->workers);
	if (!server->job)
		return;
	call_orphaned(server->job->call);
	job_free(server->job);
}

/* The call fails, unless nobody waits for it any more; the job is over. */
static void job_fail(struct define_job *job, int32_t code, const char *why)
{
	struct rpc_call *call = job->call;
	char line[WHY_BYTES];

	snprintf(line, sizeof(line), "%s", why);
	job_free(job);
	if (!call_orphaned(call))
		call_fail(call, code, "%s", line);
}

/* ---- the definition ---- */

/* The guest of the manifest that the XML means. */
static struct manifest_guest *find_guest(struct define_job *job)
{
	struct manifest *manifest = job->manifest;

	for (uint32_t g = 0; g < manifest->n_guests; g++)
		if (!job->xml.name[0] || strcmp(manifest->guests[g].name, job->xml.name) == 0)
			return !job->xml.name[0] && manifest->n_guests > 1 ? NULL : &manifest->guests[g];
	return NULL;
}

static void take_uuid(const struct define_job *job, struct manifest_guest *guest)
{
	if (!job->xml.has_uuid)
		return;
	guest->has_uuid = true;
	memcpy(guest->uuid, job->xml.uuid, RPC_UUID_BYTES);
}

/* What libvirt's clients say beyond our manifest; losing it for want of memory is no reason to fail. */
static void take_notes(const struct define_job *job, const struct definition *definition)
{
	struct note *note;

	if (!job->xml.title[0] && !job->xml.description[0] &&
	    !notes_find(job->server->notes, definition->uuid))
		return;
	note = notes_make(job->server->notes, definition->uuid);
	if (!note)
		return;
	note_set_text(&note->title, job->xml.title);
	note_set_text(&note->description, job->xml.description);
}

static void reply_definition(struct rpc_call *call, const struct definition *definition)
{
	struct rpc_domain domain = domain_of(definition);

	frame_put_domain(call_reply(call), &domain);
	call_end(call);
}

static void define(struct define_job *job)
{
	struct manifest_guest *guest = find_guest(job);
	struct rpc_call *call = job->call;
	bool starts = call->entry->number == PROC_DOMAIN_CREATE_XML, persistent;
	struct definition *definition;
	char why[WHY_BYTES] = "";
	int error;

	if (!guest) {
		snprintf(why, sizeof(why), "%s has no guest \"%s\"", job->xml.manifest, job->xml.name);
		job_fail(job, VIR_ERR_CONFIG_UNSUPPORTED, why);
		return;
	}
	take_uuid(job, guest);
	definition = lifecycle_find(call->monitor, guest->name);
	persistent = !starts || (definition && definition->persistent);
	error = lifecycle_define_guest(call->monitor, job->manifest,
	                               (uint32_t)(guest - job->manifest->guests), persistent, &definition,
	                               why);
	if (error < 0) {
		job_fail(job, error == -EEXIST ? VIR_ERR_DOM_EXIST : VIR_ERR_OPERATION_FAILED, why);
		return;
	}
	take_notes(job, definition);
	job_free(job);
	if (starts)
		call_start(call, definition, call->arguments.number[0]);
	else
		reply_definition(call, definition);
}

/* ---- files ---- */

static void read_files(void *opaque)
{
	struct define_job *job = opaque;

	job->error = images_load(job->images_fd, job->xml.manifest, &job->manifest, job->why);
}

static void on_files(void *opaque)
{
	struct define_job *job = opaque;

	if (!job->call->client) {
		call_orphaned(job->call);
		job_free(job);
	} else if (job->error < 0) {
		job_fail(job, VIR_ERR_CONFIG_UNSUPPORTED, job->why);
	} else {
		define(job);
	}
}

static void on_guest(void *opaque, const struct xml_answer *answer, const char *why)
{
	struct define_job *job = opaque;
	int error;

	job->child = NULL;
	if (!job->call->client) {
		call_orphaned(job->call);
		job_free(job);
	} else if (!answer) {
		job_fail(job, VIR_ERR_XML_DETAIL, why);
	} else {
		job->xml = *answer;
		error = workers_run(job->server->workers, read_files, on_files, job);
		if (error < 0)
			job_fail(job, VIR_ERR_OPERATION_FAILED, strerror(-error));
	}
}

/* ---- the calls ---- */

static struct define_job *job_begin(struct rpc_call *call, enum xml_kind kind, struct xdr_text xml,
                                    xml_answered_fn *done)
{
	struct define_job *job;
	char why[WHY_BYTES] = "out of memory";
	int error;

	if (call->server->job) {
		call_fail(call, VIR_ERR_RESOURCE_BUSY, "another client's XML is being read; try again");
		return NULL;
	}
	job = calloc(1, sizeof(*job));
	if (!job) {
		call_fail(call, VIR_ERR_NO_MEMORY, "out of memory");
		return NULL;
	}
	job->server = call->server;
	job->call = call;
	job->images_fd = call->server->images_fd;
	call->server->job = job;
	error = xml_child_ask(call->monitor, kind, xml.bytes, xml.n, done, job, &job->child, why);
	if (error < 0) {
		job_fail(job, error == -EMSGSIZE ? VIR_ERR_XML_DETAIL : VIR_ERR_OPERATION_FAILED, why);
		return NULL;
	}
	return job;
}

static bool has_images(struct rpc_call *call)
{
	if (call->server->images_fd >= 0)
		return true;
	call_fail(call, VIR_ERR_OPERATION_UNSUPPORTED,
	          "this monitor was started without --images DIR, so no guest can be defined from here");
	return false;
}

void run_define_xml(struct rpc_call *call)
{
	if (has_images(call))
		job_begin(call, XML_GUEST, call->arguments.text[0], on_guest);
}

void run_create_xml(struct rpc_call *call)
{
	if (call->arguments.number[0] & VIR_DOMAIN_START_AUTODESTROY)
		call_fail(call, VIR_ERR_ARGUMENT_UNSUPPORTED,
		          "a guest does not end with the client that started it");
	else if (has_images(call))
		job_begin(call, XML_GUEST, call->arguments.text[0], on_guest);
}

/* ---- metadata ---- */

static void set_element(struct rpc_call *call, const char *xml, uint32_t name_end)
{
	struct note *note = notes_make(call->server->notes, call->arguments.domain.uuid);
	char uri[MAX_XML_MANIFEST_BYTES];

	xdr_text_copy(call->arguments.text[2], uri, sizeof(uri));
	if (note && note_set_element(note, uri, xml, name_end))
		call_done(call);
	else
		call_fail(call, VIR_ERR_OPERATION_FAILED,
		          "a guest has at most %u elements of others' metadata", MAX_NOTE_ELEMENTS);
}

static void on_element(void *opaque, const struct xml_answer *answer, const char *why)
{
	struct define_job *job = opaque;
	struct rpc_call *call = job->call;
	struct xdr_text xml = call->arguments.text[0];
	char *copy;

	job->child = NULL;
	if (!answer) {
		job_fail(job, VIR_ERR_XML_DETAIL, why);
		return;
	}
	job_free(job);
	if (call_orphaned(call) || !call_definition(call))
		return;
	copy = strndup(xml.bytes, xml.n);
	/* Where the name ends was the reader's word: it has to be within the text. */
	if (!copy || answer->name_end == 0 || answer->name_end >= xml.n)
		call_fail(call, VIR_ERR_XML_DETAIL, "the element could not be read");
	else
		set_element(call, copy, answer->name_end);
	free(copy);
}

static void set_text(struct rpc_call *call, bool title)
{
	struct note *note = notes_make(call->server->notes, call->arguments.domain.uuid);
	struct xdr_text value = call->arguments.text[0];
	char *copy = value.bytes ? strndup(value.bytes, value.n) : NULL;

	if (value.n >= MAX_NOTE_BYTES || !text_is_plain(value.bytes, value.n))
		call_fail(call, VIR_ERR_INVALID_ARG, "a text has at most %u bytes, and no control characters",
		          MAX_NOTE_BYTES - 1);
	else if (!note || !note_set_text(title ? &note->title : &note->description, copy))
		call_fail(call, VIR_ERR_NO_MEMORY, "out of memory");
	else
		call_done(call);
	free(copy);
}

void run_set_metadata(struct rpc_call *call)
{
	struct xdr_text value = call->arguments.text[0], uri = call->arguments.text[2];

	if (!call_definition(call))
		return;
	switch (call->arguments.number[0]) {
	case VIR_DOMAIN_METADATA_DESCRIPTION:
		set_text(call, false);
		break;
	case VIR_DOMAIN_METADATA_TITLE:
		set_text(call, true);
		break;
	case VIR_DOMAIN_METADATA_ELEMENT:
		if (!uri.bytes || uri.n == 0 || uri.n >= MAX_XML_MANIFEST_BYTES)
			call_fail(call, VIR_ERR_INVALID_ARG, "metadata needs --uri, of at most %u bytes",
			          MAX_XML_MANIFEST_BYTES - 1);
		else if (xdr_text_is(uri, GUEST_NAMESPACE))
			call_fail(call, VIR_ERR_OPERATION_DENIED,
			          "this metadata is the guest's definition: define it anew");
		else if (!value.bytes)
			set_element(call, NULL, 0);
		else if (value.n >= MAX_NOTE_BYTES || !text_is_plain(value.bytes, value.n))
			call_fail(call, VIR_ERR_INVALID_ARG,
			          "an element has at most %u bytes, and no control characters",
			          MAX_NOTE_BYTES - 1);
		else
			job_begin(call, XML_ELEMENT, value, on_element);
		break;
	default:
		call_fail(call, VIR_ERR_INVALID_ARG, "there is no such kind of metadata");
	}
}

static void reply_metadata(struct rpc_call *call, const char *text)
{
	if (!text) {
		call_fail(call, VIR_ERR_NO_DOMAIN_METADATA, "the guest has none of it");
		return;
	}
	xdr_put_text(call_reply(call), text);
	call_end(call);
}

static void reply_element(struct rpc_call *call, const struct definition *definition, const struct note *note)
{
	const struct note_element *element;
	struct text text = {0};
	char uri[MAX_XML_MANIFEST_BYTES];

	xdr_text_copy(call->arguments.text[0], uri, sizeof(uri));
	if (strcmp(uri, GUEST_NAMESPACE) == 0) {
		domain_xml_guest(&text, call->monitor, definition);
		reply_metadata(call, text.bad ? NULL : text.string);
		free(text.string);
		return;
	}
	element = note ? note_element(note, uri) : NULL;
	reply_metadata(call, element ? element->xml : NULL);
}

void run_get_metadata(struct rpc_call *call)
{
	const struct definition *definition = call_definition(call);
	const struct note *note;

	if (!definition)
		return;
	note = notes_find(call->server->notes, definition->uuid);
	switch (call->arguments.number[0]) {
	case VIR_DOMAIN_METADATA_DESCRIPTION:
		reply_metadata(call, note ? note->description : NULL);
		break;
	case VIR_DOMAIN_METADATA_TITLE:
		reply_metadata(call, note ? note->title : NULL);
		break;
	case VIR_DOMAIN_METADATA_ELEMENT:
		reply_element(call, definition, note);
		break;
	default:
		call_fail(call, VIR_ERR_INVALID_ARG, "there is no such kind of metadata");
	}
}
