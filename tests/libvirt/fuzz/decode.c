#include "tests/libvirt/fuzz/decode.h"

#include <stdlib.h>
#include <string.h>

#include "monitor/libvirt/server.h"
#include "monitor/libvirt/xml_reader.h"
#include "vmm/check.h"

/* Every byte of every text is touched: one that lies outside is found. */
static void touch(struct xdr_text text)
{
	char copy[64];

	CHECK(text.bytes || text.n == 0);
	CHECK(!text.n || !memchr(text.bytes, 0, text.n));
	xdr_text_copy(text, copy, sizeof(copy));
}

int decode_message(const uint8_t *bytes, size_t n)
{
	struct rpc_arguments arguments;
	const struct rpc_procedure_entry *entry;
	struct rpc_header header;

	if (n < RPC_HEADER_BYTES || !frame_read_header(bytes, RPC_MAX_FRAME_BYTES, &header) ||
	    header.length != n)
		return DECODE_MALFORMED;
	entry = procedure_find(header.procedure);
	if (header.program != RPC_PROGRAM_REMOTE || header.type != RPC_CALL || !entry)
		return DECODE_UNKNOWN;
	if (!arguments_read(entry->form, bytes + RPC_HEADER_BYTES, n - RPC_HEADER_BYTES, &arguments))
		return DECODE_MALFORMED;
	for (int i = 0; i < RPC_MAX_TEXTS; i++)
		touch(arguments.text[i]);
	touch(arguments.domain.name);
	CHECK(arguments.n_list <= MAX_DEFINITIONS);
	return DECODE_GOOD;
}

int decode_document(const uint8_t *bytes, size_t n)
{
	struct xml_answer answer;

	if (n == 0)
		return DECODE_MALFORMED;
	xml_read(bytes[n - 1] & 1 ? XML_ELEMENT : XML_GUEST, (const char *)bytes, n, &answer);
	CHECK(memchr(answer.why, 0, sizeof(answer.why)) && memchr(answer.name, 0, sizeof(answer.name)) &&
	      memchr(answer.manifest, 0, sizeof(answer.manifest)) &&
	      memchr(answer.title, 0, sizeof(answer.title)) &&
	      memchr(answer.description, 0, sizeof(answer.description)));
	CHECK(answer.good == !answer.why[0]);
	return answer.good ? DECODE_GOOD : DECODE_MALFORMED;
}
