/*
 * Lists of guests, and how one is found.
 */
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <string.h>

#include "monitor/libvirt/filter.h"
#include "monitor/libvirt/server.h"
#include "monitor/libvirt/state.h"

static void put_definition(struct xdr_writer *out, const struct definition *definition)
{
	struct rpc_domain domain = domain_of(definition);

	frame_put_domain(out, &domain);
}

void run_list_all(struct rpc_call *call)
{
	bool wants_names = call->arguments.number[0];
	uint32_t flags = call->arguments.number[1];
	struct definition *first = lifecycle_first(call->monitor);
	struct xdr_writer *out;
	uint32_t n = 0;

	if (flags & ~FILTER_ALL_FLAGS) {
		call_fail(call, VIR_ERR_INVALID_ARG, "flags 0x%x: there is no such filter",
		          flags & ~FILTER_ALL_FLAGS);
		return;
	}
	for (struct definition *at = first; at; at = at->next)
		n += filter_wants(at, flags);
	out = call_reply(call);
	xdr_put_u32(out, wants_names ? n : 0);
	for (struct definition *at = first; wants_names && at; at = at->next)
		if (filter_wants(at, flags))
			put_definition(out, at);
	xdr_put_u32(out, n);
	call_end(call);
}

static uint32_t count(struct rpc_call *call, bool active)
{
	uint32_t n = 0;

	for (struct definition *at = lifecycle_first(call->monitor); at; at = at->next)
		n += state_is_active(at) == active;
	return n;
}

/* A maximum of a client's: what is less than nothing is nothing. */
static uint32_t at_most(struct rpc_call *call, uint32_t n)
{
	int32_t most = (int32_t)call->arguments.number[0];

	if (most < 0)
		return 0;
	return n < (uint32_t)most ? n : (uint32_t)most;
}

void run_list_ids(struct rpc_call *call)
{
	uint32_t n = at_most(call, count(call, true));
	struct xdr_writer *out = call_reply(call);

	xdr_put_u32(out, n);
	for (struct definition *at = lifecycle_first(call->monitor); at && n; at = at->next)
		if (state_is_active(at)) {
			xdr_put_i32(out, at->id);
			n--;
		}
	call_end(call);
}

void run_list_defined(struct rpc_call *call)
{
	uint32_t n = at_most(call, count(call, false));
	struct xdr_writer *out = call_reply(call);

	xdr_put_u32(out, n);
	for (struct definition *at = lifecycle_first(call->monitor); at && n; at = at->next)
		if (!state_is_active(at)) {
			xdr_put_text(out, at->name);
			n--;
		}
	call_end(call);
}

static void reply_count(struct rpc_call *call, bool active)
{
	uint32_t n = count(call, active);

	xdr_put_u32(call_reply(call), n);
	call_end(call);
}

void run_count_active(struct rpc_call *call)
{
	reply_count(call, true);
}

void run_count_defined(struct rpc_call *call)
{
	reply_count(call, false);
}

static void reply_definition(struct rpc_call *call, const struct definition *definition)
{
	put_definition(call_reply(call), definition);
	call_end(call);
}

void run_lookup_id(struct rpc_call *call)
{
	int32_t id = (int32_t)call->arguments.number[0];

	for (struct definition *at = lifecycle_first(call->monitor); at; at = at->next)
		if (state_is_active(at) && at->id == id) {
			reply_definition(call, at);
			return;
		}
	call_fail(call, VIR_ERR_NO_DOMAIN, "no guest runs with the id %d", id);
}

void run_lookup_name(struct rpc_call *call)
{
	char name[MAX_NAME_BYTES];

	for (struct definition *at = lifecycle_first(call->monitor); at; at = at->next)
		if (xdr_text_is(call->arguments.text[0], at->name)) {
			reply_definition(call, at);
			return;
		}
	xdr_text_copy(call->arguments.text[0], name, sizeof(name));
	call_fail(call, VIR_ERR_NO_DOMAIN, "there is no guest \"%s\"", name);
}

void run_lookup_uuid(struct rpc_call *call)
{
	const struct definition *definition = definition_of(call->monitor, call->arguments.domain.uuid);

	if (definition)
		reply_definition(call, definition);
	else
		call_fail(call, VIR_ERR_NO_DOMAIN, "there is no guest with that uuid");
}
