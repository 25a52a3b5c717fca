/*
 * A call on its way from frame to answer: form, permission, run.
 */
#include <errno.h>
#include <libvirt/virterror.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/libvirt/server.h"
#include "monitor/libvirt/state.h"
#include "monitor/posture.h"
#include "vmm/check.h"

/* ---- the end ---- */

static void call_free(struct rpc_call *call)
{
	free(call->payload);
	free(call->scratch);
	free(call);
}

void call_abandon(struct rpc_call *call)
{
	if (call->starting) { /* nobody will call back */
		lifecycle_forget(call->monitor, call);
		call_free(call);
		return;
	}
	call->client = NULL;
	call->server = NULL;
}

bool call_orphaned(struct rpc_call *call)
{
	if (call->client)
		return false;
	call_free(call);
	return true;
}

static void finish(struct rpc_call *call)
{
	struct rpc_client *client = call->client;
	struct rpc_call **link = &client->calls;

	while (*link != call)
		link = &(*link)->next;
	*link = call->next;
	client->n_calls--;
	client->call_bytes -= call->payload_bytes;
	call_free(call);
	client_update(client);
}

/* ---- answers ---- */

static struct xdr_writer *begin(struct rpc_call *call, enum rpc_status status)
{
	struct rpc_header header = call->header;

	header.type = RPC_REPLY;
	header.status = status;
	call->reply_at = frame_begin(&call->client->out, &header);
	return &call->client->out;
}

struct xdr_writer *call_reply(struct rpc_call *call)
{
	return begin(call, RPC_OK);
}

void call_end(struct rpc_call *call)
{
	frame_end(&call->client->out, call->reply_at);
	finish(call);
}

void call_done(struct rpc_call *call)
{
	begin(call, RPC_OK);
	call_end(call);
}

static void fail(struct rpc_call *call, int32_t code, int32_t origin, const char *text)
{
	frame_put_error(begin(call, RPC_ERROR), code, origin, text);
	call_end(call);
}

void call_fail(struct rpc_call *call, int32_t code, const char *format, ...)
{
	char text[2 * WHY_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fail(call, code, VIR_FROM_NONE, text);
}

void call_fail_access(struct rpc_call *call, int32_t code, const char *text)
{
	fail(call, code, VIR_FROM_ACCESS, text);
}

void call_fail_lifecycle(struct rpc_call *call, int error, const char *why)
{
	static const struct {
		int error;
		int32_t code;
	} codes[] = {
		{-EBUSY, VIR_ERR_OPERATION_INVALID},     {-ESRCH, VIR_ERR_OPERATION_INVALID},
		{-EALREADY, VIR_ERR_OPERATION_INVALID},  {-EEXIST, VIR_ERR_DOM_EXIST},
		{-ETIMEDOUT, VIR_ERR_OPERATION_TIMEOUT}, {-ENOMEM, VIR_ERR_NO_MEMORY},
	};
	int32_t code = VIR_ERR_OPERATION_FAILED;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].error == error)
			code = codes[i].code;
	call_fail(call, code, "%s", why);
}

/* ---- guests ---- */

struct definition *definition_of(struct monitor *monitor, const uint8_t *uuid)
{
	for (struct definition *definition = lifecycle_first(monitor); definition;
	     definition = definition->next)
		if (memcmp(definition->uuid, uuid, RPC_UUID_BYTES) == 0)
			return definition;
	return NULL;
}

struct rpc_domain domain_of(const struct definition *definition)
{
	int32_t id = state_is_active(definition) ? definition->id : -1;

	return (struct rpc_domain){definition->name, definition->uuid, id};
}

struct definition *call_definition(struct rpc_call *call)
{
	struct definition *definition = definition_of(call->monitor, call->arguments.domain.uuid);
	char name[MAX_NAME_BYTES];

	if (!definition) {
		xdr_text_copy(call->arguments.domain.name, name, sizeof(name));
		call_fail(call, VIR_ERR_NO_DOMAIN, "there is no guest \"%s\" any more", name);
	}
	return definition;
}

/* ---- permission ---- */

static void ask(struct rpc_call *call);

static void answered(void *opaque, bool allowed, const char *text)
{
	struct rpc_call *call = opaque;

	if (call_orphaned(call))
		return;
	if (!allowed) {
		char why[WHY_BYTES + 32];

		snprintf(why, sizeof(why), "access denied: %s", text);
		fail(call, VIR_ERR_ACCESS_DENIED, VIR_FROM_ACCESS, why);
		return;
	}
	call->n_granted++;
	ask(call);
}

/* One permission after the other, then it runs. */
static void ask(struct rpc_call *call)
{
	const struct rpc_permission *need = &call->entry->needs[call->n_granted];

	if (call->n_granted < RPC_MAX_PERMISSIONS && need->permission)
		posture_ask(call->monitor, call->subject, posture_self(call->monitor), need->tclass,
		            need->permission, answered, call);
	else
		call->entry->run(call);
}

/* ---- form ---- */

/* The code is what makes clients fall back to something older, or go on without. */
static void refuse_unknown(struct rpc_call *call)
{
	char text[WHY_BYTES];

	snprintf(text, sizeof(text),
	         "this function is not supported: Portcullis has nothing for it (procedure %d of libvirt's "
	         "protocol)",
	         call->header.procedure);
	fail(call, VIR_ERR_NO_SUPPORT, VIR_FROM_RPC, text);
}

static void dispatch(struct rpc_call *call)
{
	const struct rpc_client *client = call->client;

	if (!call->entry)
		refuse_unknown(call);
	else if (!client->opened && !(call->entry->flags & RPC_EARLY))
		fail(call, VIR_ERR_NO_CONNECT, VIR_FROM_RPC, "the connection has not been opened");
	else if (client->read_only && call->entry->flags & RPC_WRITES)
		fail(call, VIR_ERR_OPERATION_DENIED, VIR_FROM_RPC, "this is a read-only connection");
	else if (!arguments_read(call->entry->form, call->payload, call->payload_bytes, &call->arguments))
		fail(call, VIR_ERR_RPC, VIR_FROM_RPC, "the call's arguments are not in their form");
	else
		ask(call);
}

void call_received(struct rpc_client *client, const struct rpc_header *header, uint8_t *payload, size_t bytes)
{
	struct rpc_call *call = calloc(1, sizeof(*call));

	if (!call) {
		free(payload);
		client_doom(client);
		return;
	}
	call->server = client->server;
	call->monitor = client->server->monitor;
	call->client = client;
	call->entry = procedure_find(header->procedure);
	call->header = *header;
	call->subject = client_subject(client);
	call->payload = payload;
	call->payload_bytes = bytes;
	call->next = client->calls;
	client->calls = call;
	client->n_calls++;
	client->call_bytes += bytes;
	dispatch(call);
}
