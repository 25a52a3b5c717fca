/*
 * Frames of libvirt's protocol, and the values that many of them hold. Pure functions; any thread.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_FRAME_H
#define PORTCULLIS_MONITOR_LIBVIRT_FRAME_H

#include "monitor/libvirt/protocol.h"
#include "monitor/libvirt/xdr.h"

#define RPC_UUID_BYTES 16u

/* A guest as the protocol names it. */
struct rpc_domain {
	const char *name;
	const uint8_t *uuid; /* RPC_UUID_BYTES */
	int32_t id;          /* -1: not active */
};

/* Reads RPC_HEADER_BYTES. False: no frame of this protocol, or longer than most_bytes. */
bool frame_read_header(const uint8_t *bytes, size_t most_bytes, struct rpc_header *header);

/* Writes a header whose length frame_end fills in. Several frames may follow one another in a writer. */
size_t frame_begin(struct xdr_writer *writer, const struct rpc_header *header);
void frame_end(struct xdr_writer *writer, size_t at);

void frame_put_domain(struct xdr_writer *writer, const struct rpc_domain *domain);

/* libvirt's error: code VIR_ERR_..., origin VIR_FROM_.... */
void frame_put_error(struct xdr_writer *writer, int32_t code, int32_t origin, const char *message);

/* Typed parameters. */
void frame_put_int(struct xdr_writer *writer, const char *field, int32_t value);
void frame_put_uint(struct xdr_writer *writer, const char *field, uint32_t value);
void frame_put_ullong(struct xdr_writer *writer, const char *field, uint64_t value);
void frame_put_string(struct xdr_writer *writer, const char *field, const char *value);

#endif
