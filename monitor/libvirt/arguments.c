#include "monitor/libvirt/arguments.h"

#include <string.h>

static void read_named(struct xdr_reader *reader, struct rpc_named *named)
{
	named->there = true;
	named->name = xdr_get_text(reader, RPC_MAX_TEXT_BYTES);
	xdr_get_opaque(reader, named->uuid, RPC_UUID_BYTES);
	named->id = xdr_get_i32(reader);
}

static void read_list(struct xdr_reader *reader, struct rpc_arguments *arguments)
{
	uint32_t n = xdr_get_u32(reader);

	struct rpc_named named;

	if (n > MAX_DEFINITIONS)
		reader->bad = true;
	for (uint32_t i = 0; i < n && !reader->bad; i++) {
		read_named(reader, &named);
		memcpy(arguments->list[arguments->n_list++], named.uuid, RPC_UUID_BYTES);
	}
}

bool arguments_read(const char *form, const uint8_t *payload, size_t bytes, struct rpc_arguments *arguments)
{
	struct xdr_reader reader = {payload, bytes, false};
	size_t n_numbers = 0, n_texts = 0;

	memset(arguments, 0, sizeof(*arguments));
	for (; *form; form++) {
		switch (*form) {
		case 'i':
			arguments->number[n_numbers++] = xdr_get_u32(&reader);
			break;
		case 's':
			arguments->text[n_texts++] = xdr_get_text(&reader, RPC_MAX_TEXT_BYTES);
			break;
		case 'o':
			arguments->text[n_texts++] = xdr_get_optional_text(&reader, RPC_MAX_TEXT_BYTES);
			break;
		case 'u':
			arguments->domain.there = true;
			xdr_get_opaque(&reader, arguments->domain.uuid, RPC_UUID_BYTES);
			break;
		case 'D':
			if (!xdr_get_bool(&reader))
				break;
			__attribute__((fallthrough));
		case 'd':
			read_named(&reader, &arguments->domain);
			break;
		default: /* 'l' */
			read_list(&reader, arguments);
			break;
		}
	}
	return xdr_ended(&reader);
}
