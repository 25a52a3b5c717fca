#include "monitor/libvirt/frame.h"

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

_Static_assert(RPC_UUID_BYTES == VIR_UUID_BUFLEN, "libvirt's uuid");

bool frame_read_header(const uint8_t *bytes, size_t most_bytes, struct rpc_header *header)
{
	struct xdr_reader reader = {bytes, RPC_HEADER_BYTES, false};

	header->length = xdr_get_u32(&reader);
	header->program = xdr_get_u32(&reader);
	header->version = xdr_get_u32(&reader);
	header->procedure = xdr_get_i32(&reader);
	header->type = xdr_get_i32(&reader);
	header->serial = xdr_get_u32(&reader);
	header->status = xdr_get_i32(&reader);
	return header->length >= RPC_HEADER_BYTES && header->length <= most_bytes &&
	       (header->program == RPC_PROGRAM_REMOTE || header->program == RPC_PROGRAM_KEEPALIVE) &&
	       header->version == RPC_VERSION;
}

size_t frame_begin(struct xdr_writer *writer, const struct rpc_header *header)
{
	size_t at = writer->n;

	xdr_put_u32(writer, 0);
	xdr_put_u32(writer, header->program);
	xdr_put_u32(writer, header->version);
	xdr_put_i32(writer, header->procedure);
	xdr_put_i32(writer, header->type);
	xdr_put_u32(writer, header->serial);
	xdr_put_i32(writer, header->status);
	return at;
}

void frame_end(struct xdr_writer *writer, size_t at)
{
	xdr_patch_u32(writer, at, (uint32_t)(writer->n - at));
}

void frame_put_domain(struct xdr_writer *writer, const struct rpc_domain *domain)
{
	xdr_put_text(writer, domain->name);
	xdr_put_opaque(writer, domain->uuid, RPC_UUID_BYTES);
	xdr_put_i32(writer, domain->id);
}

void frame_put_error(struct xdr_writer *writer, int32_t code, int32_t origin, const char *message)
{
	xdr_put_i32(writer, code);
	xdr_put_i32(writer, origin);
	xdr_put_optional_text(writer, message);
	xdr_put_i32(writer, VIR_ERR_ERROR);
	xdr_put_u32(writer, 0); /* no guest */
	for (int i = 0; i < 3; i++)
		xdr_put_optional_text(writer, NULL);
	xdr_put_i32(writer, -1);
	xdr_put_i32(writer, -1);
	xdr_put_u32(writer, 0); /* no network */
}

static void put_field(struct xdr_writer *writer, const char *field, int32_t type)
{
	xdr_put_text(writer, field);
	xdr_put_i32(writer, type);
}

void frame_put_int(struct xdr_writer *writer, const char *field, int32_t value)
{
	put_field(writer, field, VIR_TYPED_PARAM_INT);
	xdr_put_i32(writer, value);
}

void frame_put_uint(struct xdr_writer *writer, const char *field, uint32_t value)
{
	put_field(writer, field, VIR_TYPED_PARAM_UINT);
	xdr_put_u32(writer, value);
}

void frame_put_ullong(struct xdr_writer *writer, const char *field, uint64_t value)
{
	put_field(writer, field, VIR_TYPED_PARAM_ULLONG);
	xdr_put_u64(writer, value);
}

void frame_put_string(struct xdr_writer *writer, const char *field, const char *value)
{
	put_field(writer, field, VIR_TYPED_PARAM_STRING);
	xdr_put_text(writer, value);
}
