/*
 * What is read of clients: words, frames, arguments, XML. No socket, no guest.
 */
#include <criterion/criterion.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/libvirt/arguments.h"
#include "monitor/libvirt/filter.h"
#include "monitor/libvirt/notes.h"
#include "monitor/libvirt/server.h"
#include "monitor/libvirt/state.h"
#include "monitor/libvirt/tap.h"
#include "monitor/libvirt/text.h"
#include "monitor/libvirt/xml_reader.h"

Test(libvirt_decode, what_is_written_is_read)
{
	struct xdr_writer writer = {.most = 4096};
	struct xdr_reader reader;
	struct xdr_text text;

	xdr_put_u32(&writer, 7);
	xdr_put_i32(&writer, -7);
	xdr_put_u64(&writer, UINT64_MAX - 1);
	xdr_put_text(&writer, "abcde");
	xdr_put_optional_text(&writer, NULL);
	xdr_put_optional_text(&writer, "");
	reader = (struct xdr_reader){writer.bytes, writer.n, false};
	cr_expect_eq(writer.n % 4, 0u);
	cr_expect_eq(xdr_get_u32(&reader), 7u);
	cr_expect_eq(xdr_get_i32(&reader), -7);
	cr_expect_eq(xdr_get_u64(&reader), UINT64_MAX - 1);
	cr_expect(xdr_text_is(xdr_get_text(&reader, 5), "abcde"));
	cr_expect_null(xdr_get_optional_text(&reader, 5).bytes);
	text = xdr_get_optional_text(&reader, 5);
	cr_expect(text.bytes && text.n == 0);
	cr_expect(xdr_ended(&reader));
	free(writer.bytes);
}

/* Each end that a message can be cut at, and every length that a text can claim (H8). */
Test(libvirt_decode, a_text_never_leaves_its_message)
{
	static const uint32_t lengths[] = {5, 6, 8, 9, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};
	uint8_t bytes[12] = {0, 0, 0, 5, 'a', 'b', 'c', 'd', 'e', 0, 0, 0};

	for (size_t n = 0; n < sizeof(bytes); n++) {
		struct xdr_reader reader = {bytes, n, false};

		xdr_get_text(&reader, 100);
		cr_expect(!xdr_ended(&reader), "%zu bytes", n);
	}
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct xdr_reader reader = {bytes, sizeof(bytes), false};

		for (int k = 0; k < 4; k++)
			bytes[k] = (uint8_t)(lengths[i] >> (24 - 8 * k));
		xdr_get_text(&reader, RPC_MAX_TEXT_BYTES);
		/* 6 to 8 fit, padding and all, but the padding is then text, and NUL is none. */
		cr_expect_eq(xdr_ended(&reader), lengths[i] == 5, "length %u", lengths[i]);
	}
}

Test(libvirt_decode, a_writer_is_bad_beyond_its_limit)
{
	struct xdr_writer writer = {.most = 8};

	xdr_put_u64(&writer, 1);
	cr_expect(!writer.bad);
	xdr_put_u32(&writer, 1);
	cr_expect(writer.bad);
	cr_expect_eq(writer.n, 8u);
	free(writer.bytes);
}

Test(libvirt_decode, headers_of_no_frame)
{
	static const uint32_t words[][7] = {
		{28, RPC_PROGRAM_REMOTE, 1, 1, 0, 1, 0},   {27, RPC_PROGRAM_REMOTE, 1, 1, 0, 1, 0},
		{4097, RPC_PROGRAM_REMOTE, 1, 1, 0, 1, 0}, {0xffffffff, RPC_PROGRAM_REMOTE, 1, 1, 0, 1, 0},
		{28, 0x20008087, 1, 1, 0, 1, 0},           {28, RPC_PROGRAM_REMOTE, 2, 1, 0, 1, 0},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct xdr_writer writer = {.most = 64};
		struct rpc_header header;

		for (int w = 0; w < 7; w++)
			xdr_put_u32(&writer, words[i][w]);
		cr_expect_eq(frame_read_header(writer.bytes, 4096, &header), i == 0, "header %zu", i);
		free(writer.bytes);
	}
}

/* No form has more numbers or texts than there is room for. */
Test(libvirt_decode, forms_fit)
{
	const struct rpc_procedure_entry *entry;

	for (size_t i = 0; (entry = procedure_at(i)); i++) {
		size_t n_numbers = 0, n_texts = 0;

		for (const char *letter = entry->form; *letter; letter++) {
			cr_expect_not_null(strchr("isoudDl", *letter), "procedure %d", (int)entry->number);
			n_numbers += *letter == 'i';
			n_texts += *letter == 's' || *letter == 'o';
		}
		cr_expect(n_numbers <= RPC_MAX_NUMBERS && n_texts <= RPC_MAX_TEXTS, "procedure %d",
		          (int)entry->number);
		cr_expect_eq(procedure_find(entry->number), entry, "procedure %d stands there twice",
		             (int)entry->number);
		cr_expect_not_null(entry->run);
	}
}

/* What changes something says so: a read-only connection is refused by this flag alone. */
Test(libvirt_decode, what_needs_more_than_getattr_writes)
{
	const struct rpc_procedure_entry *entry;

	for (size_t i = 0; (entry = procedure_at(i)); i++) {
		const struct rpc_permission *need = &entry->needs[0];
		bool reads = need->permission == 0 ||
		             (need->tclass == CLASS_MONITOR && need->permission == MONITOR_GETATTR) ||
		             (need->tclass == CLASS_GUEST && need->permission == GUEST_GETATTR);

		if (entry->number != PROC_DOMAIN_OPEN_CONSOLE)
			cr_expect_eq(reads, !(entry->flags & RPC_WRITES), "procedure %d", (int)entry->number);
	}
}

/* ---- states ---- */

static struct definition defined(enum lifecycle_state state, enum lifecycle_reason reason, bool persistent)
{
	return (struct definition){.state = state, .reason = reason, .persistent = persistent, .id = 3};
}

Test(libvirt_state, states_and_reasons)
{
	static const struct {
		enum lifecycle_state state;
		enum lifecycle_reason reason;
		bool destroyed;
		int expected_state, expected_reason;
	} rows[] = {
		{LIFECYCLE_RUNNING, REASON_BOOTED, false, VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_BOOTED},
		{LIFECYCLE_RUNNING, REASON_OPERATOR, false, VIR_DOMAIN_RUNNING, VIR_DOMAIN_RUNNING_UNPAUSED},
		{LIFECYCLE_SUSPENDED, REASON_OPERATOR, false, VIR_DOMAIN_PAUSED, VIR_DOMAIN_PAUSED_USER},
		{LIFECYCLE_CRASHED, REASON_CRASHED, false, VIR_DOMAIN_CRASHED, VIR_DOMAIN_CRASHED_PANICKED},
		{LIFECYCLE_CRASHED, REASON_KILLED, false, VIR_DOMAIN_CRASHED, VIR_DOMAIN_CRASHED_UNKNOWN},
		{LIFECYCLE_OFF, REASON_FINISHED, false, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_SHUTDOWN},
		{LIFECYCLE_OFF, REASON_OPERATOR, false, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_SHUTDOWN},
		{LIFECYCLE_OFF, REASON_OPERATOR, true, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_DESTROYED},
		{LIFECYCLE_OFF, REASON_KILLED, false, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_CRASHED},
		{LIFECYCLE_OFF, REASON_FAILED, false, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_FAILED},
		{LIFECYCLE_OFF, REASON_NONE, false, VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_UNKNOWN},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct definition definition = defined(rows[i].state, rows[i].reason, true);
		struct note note = {.destroyed = rows[i].destroyed};
		struct rpc_state state = state_of(&definition, &note);

		cr_expect_eq(state.state, rows[i].expected_state, "row %zu: state %d", i, state.state);
		cr_expect_eq(state.reason, rows[i].expected_reason, "row %zu: reason %d", i, state.reason);
	}
}

Test(libvirt_state, every_filter)
{
	struct definition running = defined(LIFECYCLE_RUNNING, REASON_BOOTED, true);
	struct definition paused = defined(LIFECYCLE_SUSPENDED, REASON_OPERATOR, false);
	struct definition crashed = defined(LIFECYCLE_CRASHED, REASON_CRASHED, true);
	struct definition off = defined(LIFECYCLE_OFF, REASON_NONE, true);
	const struct {
		uint32_t flags;
		bool running, paused, crashed, off;
	} rows[] = {
		{0, true, true, true, true},
		{VIR_CONNECT_LIST_DOMAINS_ACTIVE, true, true, false, false},
		{VIR_CONNECT_LIST_DOMAINS_INACTIVE, false, false, true, true},
		{VIR_CONNECT_LIST_DOMAINS_PERSISTENT, true, false, true, true},
		{VIR_CONNECT_LIST_DOMAINS_TRANSIENT, false, true, false, false},
		{VIR_CONNECT_LIST_DOMAINS_RUNNING, true, false, false, false},
		{VIR_CONNECT_LIST_DOMAINS_PAUSED, false, true, false, false},
		{VIR_CONNECT_LIST_DOMAINS_SHUTOFF, false, false, false, true},
		{VIR_CONNECT_LIST_DOMAINS_OTHER, false, false, true, false},
		{VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE, false, false, false, false},
		{VIR_CONNECT_LIST_DOMAINS_NO_MANAGEDSAVE, true, true, true, true},
		{VIR_CONNECT_LIST_DOMAINS_AUTOSTART, false, false, false, false},
		{VIR_CONNECT_LIST_DOMAINS_NO_AUTOSTART, true, true, true, true},
		{VIR_CONNECT_LIST_DOMAINS_HAS_SNAPSHOT, false, false, false, false},
		{VIR_CONNECT_LIST_DOMAINS_NO_SNAPSHOT, true, true, true, true},
		{VIR_CONNECT_LIST_DOMAINS_HAS_CHECKPOINT, false, false, false, false},
		{VIR_CONNECT_LIST_DOMAINS_NO_CHECKPOINT, true, true, true, true},
		{VIR_CONNECT_LIST_DOMAINS_RUNNING | VIR_CONNECT_LIST_DOMAINS_PAUSED, true, true, false,
	         false},
		{VIR_CONNECT_LIST_DOMAINS_ACTIVE | VIR_CONNECT_LIST_DOMAINS_PERSISTENT, true, false, false,
	         false},
	};

	off.id = -1;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_expect_eq(filter_wants(&running, rows[i].flags), rows[i].running, "row %zu", i);
		cr_expect_eq(filter_wants(&paused, rows[i].flags), rows[i].paused, "row %zu", i);
		cr_expect_eq(filter_wants(&crashed, rows[i].flags), rows[i].crashed, "row %zu", i);
		cr_expect_eq(filter_wants(&off, rows[i].flags), rows[i].off, "row %zu", i);
	}
}

/* ---- console ---- */

/* What finds no place is counted, and said before the next line that does (H7). */
Test(libvirt_tap, a_full_ring_counts)
{
	struct tap *tap = tap_create();
	struct tap_line line;
	char text[32];
	unsigned n = 0;

	cr_assert_not_null(tap);
	tap_heard(tap, "g", "d", "nobody listens");
	tap_listen(tap, true);
	cr_expect(!tap_next(tap, &line));
	for (unsigned i = 0; i < 300; i++) {
		snprintf(text, sizeof(text), "line %u", i);
		tap_heard(tap, "g", i % 2 ? "d" : NULL, text);
	}
	for (; tap_next(tap, &line); n++) {
		snprintf(text, sizeof(text), "line %u", n);
		cr_assert_str_eq(line.text, text);
		cr_assert_str_eq(line.domain, n % 2 ? "d" : "");
		cr_assert_eq(line.n_lost, 0u);
	}
	tap_heard(tap, "g", "d", "after");
	cr_assert(tap_next(tap, &line));
	cr_expect_eq(line.n_lost + n, 300u);
	tap_listen(tap, false);
	tap_heard(tap, "g", "d", "nobody listens");
	cr_expect(!tap_next(tap, &line));
	tap_destroy(tap);
}

/* ---- XML ---- */

#define OURS "<metadata><p:guest xmlns:p='urn:portcullis:guest' manifest='m.conf'/></metadata>"

Test(libvirt_xml, a_guest)
{
	static const char xml[] = "<domain type='portcullis'><name>web</name>"
				  "<uuid>337ef067-e164-889a-be44-51364e9513d5</uuid>"
				  "<title>a &amp; b</title>" OURS "</domain>";
	struct xml_answer answer;

	xml_read(XML_GUEST, xml, strlen(xml), &answer);
	cr_expect(answer.good, "%s", answer.why);
	cr_expect_str_eq(answer.name, "web");
	cr_expect_str_eq(answer.title, "a & b");
	cr_expect_str_eq(answer.manifest, "m.conf");
	cr_expect(answer.has_uuid && answer.uuid[0] == 0x33 && answer.uuid[15] == 0xd5);
}

Test(libvirt_xml, what_is_wrong_is_said_with_its_line)
{
	static const struct {
		const char *xml, *why;
	} rows[] = {
		{"", "no element found"},
		{"<domain type='portcullis'/>", "the XML names no manifest"},
		{"<domain type='kvm'/>", "line 1: type='kvm': expected type='portcullis'"},
		{"<network/>", "a guest is a <domain>"},
		{"<domain>\n<disk/></domain>", "line 2: <disk> means nothing for a Portcullis guest"},
		{"<domain><devices>\n<disk/></devices></domain>",
	         "line 2: <disk>: a Portcullis guest has no devices"},
		{"<domain>" OURS "<name>a</name><name>b</name></domain>", "it stands there twice"},
		{"<domain>" OURS OURS "</domain>", "a second <portcullis:guest>"},
		{"<domain>" OURS "<uuid>12</uuid></domain>", "32 hexadecimal digits"},
		{"<domain>" OURS "<name>0123456789012345678901234567890123456789</name></domain>",
	         "the text has more than 31 bytes"},
		{"<!DOCTYPE d [<!ENTITY a 'b'>]><domain>" OURS "<name>&a;</name></domain>",
	         "a document type is not read"},
		{"<domain><metadata><p:guest xmlns:p='urn:portcullis:guest' file='x'/></metadata></domain>",
	         "no attribute file"},
		{"<domain>", "no element found"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct xml_answer answer;

		xml_read(XML_GUEST, rows[i].xml, strlen(rows[i].xml), &answer);
		cr_expect(!answer.good, "%s", rows[i].xml);
		cr_expect_not_null(strstr(answer.why, rows[i].why), "%s: %s", rows[i].xml, answer.why);
	}
}

Test(libvirt_xml, an_element_of_others)
{
	static const char good[] = "<a b='c'>d<e/></a>", bad[] = "<x:a xmlns:x='urn:x'/>";
	struct xml_answer answer;

	xml_read(XML_ELEMENT, good, strlen(good), &answer);
	cr_expect(answer.good, "%s", answer.why);
	cr_expect_eq(answer.name_end, 2u);
	xml_read(XML_ELEMENT, bad, strlen(bad), &answer);
	cr_expect(!answer.good);
}

Test(libvirt_xml, what_is_written_is_escaped)
{
	struct text text = {0};

	text_put_escaped(&text, "<a b=\"c\">&'\x1b[0m");
	cr_expect_str_eq(text.string, "&lt;a b=&quot;c&quot;&gt;&amp;&apos;?[0m");
	free(text.string);
}
