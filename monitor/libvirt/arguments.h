/*
 * The arguments of a call, decoded before anything is done.
 *
 * A procedure's form is a string, one letter for each argument in its order; so every decoder is the
 * same few lines. Pure functions; any thread.
 *
 *	i	32 bits, into number[]
 *	s	text, into text[]
 *	o	optional text, into text[]
 *	u	uuid, into domain.uuid
 *	d	guest, into domain
 *	D	optional guest, into domain
 *	l	list of guests, their uuids into list[]
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_ARGUMENTS_H
#define PORTCULLIS_MONITOR_LIBVIRT_ARGUMENTS_H

#include "guest/abi/limits.h"
#include "monitor/libvirt/frame.h"

#define RPC_MAX_NUMBERS 3
#define RPC_MAX_TEXTS 3

/* As the client names it: only the uuid is believed. */
struct rpc_named {
	bool there;
	struct xdr_text name;
	uint8_t uuid[RPC_UUID_BYTES];
	int32_t id;
};

struct rpc_arguments {
	uint32_t number[RPC_MAX_NUMBERS];
	struct xdr_text text[RPC_MAX_TEXTS];
	struct rpc_named domain;
	uint8_t list[MAX_DEFINITIONS][RPC_UUID_BYTES];
	uint32_t n_list;
};

/* The texts point into the payload. False: it is not of that form. */
bool arguments_read(const char *form, const uint8_t *payload, size_t bytes, struct rpc_arguments *arguments);

#endif
