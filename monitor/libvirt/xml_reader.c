#include "monitor/libvirt/xml_reader.h"

#include <errno.h>
#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/libvirt/domain_xml.h"
#include "policy/sandbox.h"

#define READER_MEMORY_BYTES (64u << 20)
#define READER_SECONDS 1u
#define SEPARATOR '|' /* between a namespace and a name: no namespace that matters holds it */

/* Where text goes that stands in an element now. */
struct sink {
	char *to; /* NULL: nowhere */
	size_t room, n;
};

struct reading {
	XML_Parser parser;
	enum xml_kind kind;
	struct xml_answer *answer;
	unsigned depth;
	bool in_metadata, in_devices;
	char uuid[40];
	struct sink sink;
};

__attribute__((format(printf, 2, 3))) static void refuse(struct reading *reading, const char *format, ...)
{
	struct xml_answer *answer = reading->answer;
	va_list arguments;
	int n;

	if (answer->why[0])
		return;
	n = snprintf(answer->why, sizeof(answer->why),
	             "line %lu: ", (unsigned long)XML_GetCurrentLineNumber(reading->parser));
	va_start(arguments, format);
	vsnprintf(answer->why + n, sizeof(answer->why) - (size_t)n, format, arguments);
	va_end(arguments);
	XML_StopParser(reading->parser, XML_FALSE);
}

/* ---- <domain> ---- */

/* What a manifest says of a guest, and XML that we wrote says again: read over. */
static bool is_read_over(const char *name)
{
	static const char *const names[] = {"memory",      "currentMemory", "vcpu",     "os",      "clock",
	                                    "on_poweroff", "on_reboot",     "on_crash", "seclabel"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static void begin_text(struct reading *reading, char *to, size_t room)
{
	if (*to)
		refuse(reading, "it stands there twice");
	reading->sink = (struct sink){to, room, 0};
}

static void begin_member(struct reading *reading, const char *name)
{
	struct xml_answer *answer = reading->answer;

	if (strcmp(name, "name") == 0)
		begin_text(reading, answer->name, sizeof(answer->name));
	else if (strcmp(name, "uuid") == 0)
		begin_text(reading, reading->uuid, sizeof(reading->uuid));
	else if (strcmp(name, "title") == 0)
		begin_text(reading, answer->title, sizeof(answer->title));
	else if (strcmp(name, "description") == 0)
		begin_text(reading, answer->description, sizeof(answer->description));
	else if (strcmp(name, "metadata") == 0)
		reading->in_metadata = true;
	else if (strcmp(name, "devices") == 0)
		reading->in_devices = true;
	else if (!is_read_over(name))
		refuse(reading, "<%.64s> means nothing for a Portcullis guest: its manifest says what it has",
		       name);
}

static void begin_guest(struct reading *reading, const XML_Char **attributes)
{
	struct xml_answer *answer = reading->answer;

	if (answer->manifest[0])
		refuse(reading, "a second <portcullis:guest>");
	for (size_t i = 0; attributes[i]; i += 2) {
		if (strcmp(attributes[i], "manifest") != 0)
			refuse(reading, "<portcullis:guest> has no attribute %.64s; it has manifest='FILE'",
			       attributes[i]);
		else if (strlen(attributes[i + 1]) >= sizeof(answer->manifest))
			refuse(reading, "manifest: a name of at most %zu bytes",
			       sizeof(answer->manifest) - 1);
		else
			snprintf(answer->manifest, sizeof(answer->manifest), "%s", attributes[i + 1]);
	}
	if (!answer->manifest[0])
		refuse(reading, "<portcullis:guest> names no manifest: manifest='FILE'");
}

static void begin_root(struct reading *reading, const char *name, const XML_Char **attributes)
{
	if (strcmp(name, "domain") != 0)
		refuse(reading, "<%.64s>: a guest is a <domain>", name);
	for (size_t i = 0; attributes[i]; i += 2)
		if (strcmp(attributes[i], "type") == 0 && strcmp(attributes[i + 1], "portcullis") != 0)
			refuse(reading, "type='%.64s': expected type='portcullis'", attributes[i + 1]);
}

static void begin_in_guest(struct reading *reading, const char *name, const XML_Char **attributes)
{
	static const char ours[] = GUEST_NAMESPACE "|guest";

	if (reading->depth == 1)
		begin_root(reading, name, attributes);
	else if (reading->depth == 2)
		begin_member(reading, name);
	else if (reading->depth == 3 && reading->in_metadata && strcmp(name, ours) == 0)
		begin_guest(reading, attributes);
	else if (reading->depth == 3 && reading->in_devices && strcmp(name, "console") != 0)
		refuse(reading, "<%.64s>: a Portcullis guest has no devices but a console", name);
}

/* ---- one element for <metadata> ---- */

/* Its namespace is put into its first tag, so that must have none of its own. */
static void begin_element(struct reading *reading, const char *name)
{
	struct xml_answer *answer = reading->answer;

	if (reading->depth > 1)
		return;
	if (strchr(name, SEPARATOR) || strchr(name, ':'))
		refuse(reading,
		       "the element stands in a namespace already; libvirt gives it the one of --uri");
	answer->name_end = (uint32_t)XML_GetCurrentByteIndex(reading->parser) + 1 + (uint32_t)strlen(name);
}

/* ---- expat's callbacks ---- */

static void XMLCALL on_start(void *opaque, const XML_Char *name, const XML_Char **attributes)
{
	struct reading *reading = opaque;

	reading->sink.to = NULL;
	if (++reading->depth > MAX_XML_DEPTH)
		refuse(reading, "elements are nested more than %u deep", MAX_XML_DEPTH);
	else if (reading->kind == XML_GUEST)
		begin_in_guest(reading, name, attributes);
	else
		begin_element(reading, name);
}

static void XMLCALL on_end(void *opaque, const XML_Char *name)
{
	struct reading *reading = opaque;

	(void)name;
	if (reading->depth-- == 2) {
		reading->in_metadata = false;
		reading->in_devices = false;
	}
	reading->sink.to = NULL;
}

static void XMLCALL on_text(void *opaque, const XML_Char *text, int n)
{
	struct reading *reading = opaque;
	struct sink *sink = &reading->sink;

	if (!sink->to)
		return;
	if (n < 0 || (size_t)n >= sink->room - sink->n) {
		refuse(reading, "the text has more than %zu bytes", sink->room - 1);
		return;
	}
	memcpy(sink->to + sink->n, text, (size_t)n);
	sink->n += (size_t)n;
	sink->to[sink->n] = '\0';
}

static void XMLCALL on_doctype(void *opaque, const XML_Char *name, const XML_Char *system_id,
                               const XML_Char *public_id, int has_internal)
{
	(void)name;
	(void)system_id;
	(void)public_id;
	(void)has_internal;
	refuse(opaque, "a document type is not read");
}

/* ---- a document ---- */

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 32 digits; dashes wherever, as libvirt reads it. */
static bool read_uuid(const char *text, uint8_t uuid[static 16])
{
	size_t n = 0;

	for (; *text; text++) {
		if (*text == '-')
			continue;
		if (n == 32 || digit(*text) < 0)
			return false;
		uuid[n / 2] = (uint8_t)(uuid[n / 2] << 4 | digit(*text));
		n++;
	}
	return n == 32;
}

static void finish_guest(struct reading *reading)
{
	struct xml_answer *answer = reading->answer;

	if (!answer->manifest[0])
		snprintf(answer->why, sizeof(answer->why),
		         "the XML names no manifest: <metadata><portcullis:guest "
		         "xmlns:portcullis='" GUEST_NAMESPACE "' manifest='FILE'/></metadata>");
	else if (reading->uuid[0] && !read_uuid(reading->uuid, answer->uuid))
		snprintf(answer->why, sizeof(answer->why), "<uuid> has 32 hexadecimal digits");
	answer->has_uuid = reading->uuid[0] != '\0';
}

static void parse(struct reading *reading, const char *xml, size_t bytes)
{
	XML_Parser parser = reading->parser;

	XML_SetUserData(parser, reading);
	XML_SetElementHandler(parser, on_start, on_end);
	XML_SetCharacterDataHandler(parser, on_text);
	XML_SetStartDoctypeDeclHandler(parser, on_doctype);
	if (XML_Parse(parser, xml, (int)bytes, XML_TRUE) == XML_STATUS_ERROR)
		refuse(reading, "%s", XML_ErrorString(XML_GetErrorCode(parser)));
}

static unsigned long salt = 1;

void xml_read(enum xml_kind kind, const char *xml, size_t bytes, struct xml_answer *answer)
{
	struct reading reading = {.kind = kind, .answer = answer};

	memset(answer, 0, sizeof(*answer));
	answer->magic = XML_MAGIC;
	reading.parser = XML_ParserCreateNS(NULL, SEPARATOR);
	if (!reading.parser || bytes > MAX_XML_BYTES) {
		snprintf(answer->why, sizeof(answer->why), "XML of at most %u bytes is read", MAX_XML_BYTES);
	} else {
		XML_SetHashSalt(reading.parser,
		                salt); /* else it would ask the kernel, from where it can not */
		parse(&reading, xml, bytes);
	}
	if (!answer->why[0] && kind == XML_GUEST)
		finish_guest(&reading);
	answer->good = !answer->why[0];
	if (reading.parser)
		XML_ParserFree(reading.parser);
}

/* ---- the process ---- */

static int confine(int socket_fd)
{
	const struct rlimit memory = {READER_MEMORY_BYTES, READER_MEMORY_BYTES};
	const struct rlimit time = {READER_SECONDS, READER_SECONDS};
	int error;

	while (getrandom(&salt, sizeof(salt), 0) != sizeof(salt) || salt == 0)
		;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	if (setrlimit(RLIMIT_AS, &memory))
		return -errno;
#else
	(void)memory;
#endif
	if (setrlimit(RLIMIT_CPU, &time))
		return -errno;
	error = sandbox_enter_load(socket_fd);
	return error ? error : sandbox_enter_serve(socket_fd);
}

int xml_reader_main(int socket_fd)
{
	static struct {
		struct xml_question question;
		char xml[MAX_XML_BYTES];
	} in;
	static struct xml_answer answer;
	struct iovec part = {&in, sizeof(in)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t n;

	if (confine(socket_fd))
		return 1;
	n = recvmsg(socket_fd, &message, 0);
	if (n < (ssize_t)sizeof(in.question) || message.msg_flags & MSG_TRUNC)
		return 1;
	xml_read(in.question.kind == XML_GUEST ? XML_GUEST : XML_ELEMENT, in.xml,
	         (size_t)n - sizeof(in.question), &answer);
	part = (struct iovec){&answer, sizeof(answer)};
	return sendmsg(socket_fd, &message, MSG_NOSIGNAL) == sizeof(answer) ? 0 : 1;
}
