/*
 * Events: who wants them, and that each may still see them when they come.
 *
 * The right to see an event is asked for when it happens, not when it was subscribed to: a policy may have
 * come in between. The answer can take a moment, so messages to one client wait in a queue and leave in
 * order.
 */
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/libvirt/server.h"
#include "monitor/libvirt/state.h"
#include "monitor/posture.h"

#define MAX_EVENT_ID 64u /* libvirt has 27 kinds of events; clients register for all that they know */
#define MAX_UNDECIDED 256u

/* ---- subscriptions ---- */

static uint32_t n_subscriptions(const struct rpc_client *client)
{
	uint32_t n = 0;

	for (const struct subscription *at = client->subscriptions; at; at = at->next)
		n++;
	return n;
}

void run_event_register(struct rpc_call *call)
{
	struct rpc_client *client = call->client;
	struct subscription *made;

	if (call->arguments.number[0] >= MAX_EVENT_ID) {
		call_fail(call, VIR_ERR_INVALID_ARG, "there is no kind of event %u",
		          call->arguments.number[0]);
		return;
	}
	if (n_subscriptions(client) >= MAX_RPC_SUBSCRIPTIONS) {
		call_fail(call, VIR_ERR_OPERATION_FAILED, "a client has at most %u subscriptions",
		          MAX_RPC_SUBSCRIPTIONS);
		return;
	}
	made = calloc(1, sizeof(*made));
	if (!made) {
		call_fail(call, VIR_ERR_NO_MEMORY, "out of memory");
		return;
	}
	made->callback = ++call->server->last_callback & INT32_MAX;
	made->event = (int32_t)call->arguments.number[0];
	made->of_one = call->arguments.domain.there;
	memcpy(made->uuid, call->arguments.domain.uuid, RPC_UUID_BYTES);
	made->next = client->subscriptions;
	client->subscriptions = made;
	xdr_put_i32(call_reply(call), made->callback);
	call_end(call);
}

static bool unsubscribe(struct rpc_client *client, int32_t callback)
{
	for (struct subscription **link = &client->subscriptions; *link; link = &(*link)->next) {
		struct subscription *found = *link;

		if (found->callback != callback)
			continue;
		*link = found->next;
		free(found);
		return true;
	}
	return false;
}

void run_event_deregister(struct rpc_call *call)
{
	if (unsubscribe(call->client, (int32_t)call->arguments.number[0]))
		call_done(call);
	else
		call_fail(call, VIR_ERR_INVALID_ARG, "there is no such subscription");
}

/* ---- deliveries ---- */

static void delivery_free(struct delivery *delivery)
{
	free(delivery->frame.bytes);
	free(delivery);
}

void events_forget(struct rpc_client *client)
{
	struct delivery *next;

	for (struct delivery *delivery = client->deliveries; delivery; delivery = next) {
		next = delivery->next;
		if (delivery->answered)
			delivery_free(delivery);
		else
			delivery->client = NULL; /* the answer frees it */
	}
	client->deliveries = NULL;
	while (client->subscriptions)
		unsubscribe(client, client->subscriptions->callback);
}

/* Those at the front that have their answer. Who may not see one any more is not told of further ones. */
static void send_decided(struct rpc_client *client)
{
	while (client->deliveries && client->deliveries->answered) {
		struct delivery *delivery = client->deliveries;

		client->deliveries = delivery->next;
		if (delivery->frame.bad)
			client->out.bad = true;
		else if (delivery->allowed)
			xdr_put_raw(&client->out, delivery->frame.bytes, delivery->frame.n);
		else
			unsubscribe(client, delivery->callback);
		delivery_free(delivery);
	}
	client_update(client);
}

static void delivery_answered(void *opaque, bool allowed, const char *text)
{
	struct delivery *delivery = opaque;

	(void)text;
	if (!delivery->client) {
		delivery_free(delivery);
		return;
	}
	delivery->answered = true;
	delivery->allowed = allowed;
	send_decided(delivery->client);
}

static struct delivery *append(struct rpc_client *client, int32_t callback)
{
	struct delivery *made = calloc(1, sizeof(*made));
	struct delivery **link = &client->deliveries;
	uint32_t n = 0;

	while (*link) {
		link = &(*link)->next;
		n++;
	}
	if (!made || n >= MAX_UNDECIDED) {
		free(made);
		client_doom(client);
		return NULL;
	}
	made->client = client;
	made->callback = callback;
	made->frame.most = RPC_MAX_FRAME_BYTES;
	*link = made;
	return made;
}

struct message {
	int32_t event_id;
	enum rpc_procedure procedure;
	const struct definition *definition;
	struct rpc_event event; /* of a lifecycle event */
};

static void deliver(struct rpc_client *client, int32_t callback, const struct message *message)
{
	const struct rpc_header header = {
		.program = RPC_PROGRAM_REMOTE,
		.version = RPC_VERSION,
		.procedure = message->procedure,
		.type = RPC_MESSAGE,
	};
	struct rpc_domain domain = domain_of(message->definition);
	struct delivery *delivery = append(client, callback);
	struct monitor *monitor = client->server->monitor;
	size_t at;

	if (!delivery)
		return;
	at = frame_begin(&delivery->frame, &header);
	xdr_put_i32(&delivery->frame, callback);
	frame_put_domain(&delivery->frame, &domain);
	if (message->procedure == PROC_EVENT_CALLBACK_LIFECYCLE) {
		xdr_put_i32(&delivery->frame, message->event.event);
		xdr_put_i32(&delivery->frame, message->event.detail);
	}
	frame_end(&delivery->frame, at);
	posture_ask(monitor, client_subject(client), posture_self(monitor), CLASS_GUEST, GUEST_GETATTR,
	            delivery_answered, delivery);
}

static bool concerns(const struct subscription *subscription, const struct message *message)
{
	return subscription->event == message->event_id &&
	       (!subscription->of_one ||
	        memcmp(subscription->uuid, message->definition->uuid, RPC_UUID_BYTES) == 0);
}

static void tell_client(struct rpc_client *client, const struct message *message)
{
	int32_t callbacks[MAX_RPC_SUBSCRIPTIONS];
	uint32_t n = 0;

	/* A delivery may end a subscription: first all are found. */
	for (const struct subscription *at = client->subscriptions; at; at = at->next)
		if (concerns(at, message))
			callbacks[n++] = at->callback;
	for (uint32_t i = 0; i < n && client->fd >= 0; i++)
		deliver(client, callbacks[i], message);
}

static void tell_all(struct libvirt *server, const struct message *message)
{
	for (struct rpc_client *client = server->first; client; client = client->next)
		if (client->fd >= 0)
			tell_client(client, message);
}

/* ---- what happens ---- */

/* How a run ended is asked for later. */
static void note_end(struct libvirt *server, const struct definition *definition, bool destroyed)
{
	struct note *note = destroyed ? notes_make(server->notes, definition->uuid)
	                              : notes_find(server->notes, definition->uuid);

	if (note)
		note->destroyed = destroyed;
}

static void note_event(struct libvirt *server, const struct definition *definition,
                       enum lifecycle_event event)
{
	switch (event) {
	case EVENT_SHUTDOWN:
	case EVENT_DESTROYED:
	case EVENT_CRASHED:
	case EVENT_KILLED:
	case EVENT_FAILED:
		note_end(server, definition, event == EVENT_DESTROYED);
		consoles_ended(server, definition);
		if (!definition->persistent)
			notes_forget(server->notes, definition->uuid);
		break;
	case EVENT_UNDEFINED:
		notes_forget(server->notes, definition->uuid);
		break;
	case EVENT_DEFINED:
	case EVENT_STARTED:
	case EVENT_SUSPENDED:
	case EVENT_RESUMED:
		break;
	}
}

void events_heard(void *opaque, const struct definition *definition, enum lifecycle_event event,
                  enum lifecycle_reason reason)
{
	struct libvirt *server = opaque;
	struct rpc_event events[2];
	int n = state_events(event, reason, events);

	note_event(server, definition, event);
	/* A guest that lives for one run alone was never defined, in libvirt's sense. */
	if (!definition->persistent && (event == EVENT_DEFINED || event == EVENT_UNDEFINED))
		return;
	for (int i = 0; i < n; i++)
		tell_all(server, &(struct message){VIR_DOMAIN_EVENT_ID_LIFECYCLE,
		                                   PROC_EVENT_CALLBACK_LIFECYCLE, definition, events[i]});
}

void events_rebooted(struct libvirt *server, const struct definition *definition)
{
	tell_all(server,
	         &(struct message){VIR_DOMAIN_EVENT_ID_REBOOT, PROC_EVENT_CALLBACK_REBOOT, definition, {0}});
}
