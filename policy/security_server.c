#include "policy/security_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "policy/compile.h"
#include "policy/complaints.h"
#include "policy/protocol.h"
#include "policy/ruleset.h"
#include "policy/sandbox.h"

#define IMAGE_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define EXPLANATION_BYTES 1024u

enum exit_status {
	EXIT_DONE = 0,
	EXIT_BROKEN = 1,
	EXIT_NONSENSE = 2
};

/* One process, one policy, one thread: CIL's out-of-memory handler has no argument. */
static struct security_server {
	int socket_fd;
	struct packet question;
	struct packet answer;
	struct policy_text sources[MAX_POLICY_FILES];
	size_t n_sources;
	struct policy_boolean booleans[PROTOCOL_MAX_BOOLEANS];
	size_t n_booleans;
	struct complaints complaints;
	struct ruleset *ruleset; /* NULL until loaded */
} server;

/* _exit: nothing of a possibly ruined heap is run, and a sanitizer's leak check could not. */
__attribute__((noreturn, format(printf, 2, 3))) static void fail(enum exit_status status, const char *format,
                                                                 ...)
{
	char text[WHY_BYTES];
	va_list arguments;
	size_t bytes;
	ssize_t ignored;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text) - 1, format, arguments);
	va_end(arguments);
	bytes = strlen(text);
	text[bytes++] = '\n';
	ignored = write(STDERR_FILENO, text, bytes);
	(void)ignored;
	_exit(status);
}

__attribute__((noreturn)) static void reject(const char *what)
{
	fail(EXIT_NONSENSE, "security server: the monitor sent nonsense: %s", what);
}

static void send_answer(void)
{
	int error = packet_send(server.socket_fd, &server.answer, 0);

	if (error == -EPIPE || error == -ECONNRESET)
		_exit(EXIT_DONE);
	if (error)
		fail(EXIT_BROKEN, "security server: can not answer: %s", strerror(-error));
}

static char *copy_text(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		fail(EXIT_BROKEN, "security server: out of memory");
	return copy;
}

static char *read_source(int fd, size_t bytes)
{
	char *text = malloc(bytes + 1);
	size_t used = 0;

	if (!text)
		fail(EXIT_BROKEN, "security server: out of memory");
	while (used < bytes) {
		ssize_t n = pread(fd, text + used, bytes - used, (off_t)used);

		if (n <= 0)
			reject("a source that can not be read");
		used += (size_t)n;
	}
	text[bytes] = '\0';
	return text;
}

static void take_source(struct packet *question)
{
	const char *name = packet_get_text(question, PROTOCOL_SOURCE_NAME_BYTES);
	off_t bytes = question->fd < 0 ? -1 : lseek(question->fd, 0, SEEK_END);

	if (!packet_done(question) || bytes < 0 || bytes > (off_t)MAX_POLICY_BYTES ||
	    server.n_sources == MAX_POLICY_FILES || server.ruleset)
		reject("a source");
	server.sources[server.n_sources++] = (struct policy_text){
		.name = copy_text(name),
		.text = read_source(question->fd, (size_t)bytes),
		.bytes = (size_t)bytes,
	};
	close(question->fd);
	question->fd = -1;
}

static void take_booleans(struct packet *question)
{
	uint32_t n = packet_get(question);

	if (n > PROTOCOL_BOOLEANS_PER_PACKET || n > PROTOCOL_MAX_BOOLEANS - server.n_booleans ||
	    server.ruleset)
		reject("too many booleans");
	for (uint32_t i = 0; i < n; i++) {
		bool value = packet_get(question) != 0;
		const char *name = packet_get_text(question, PROTOCOL_BOOLEAN_BYTES);

		server.booleans[server.n_booleans++] = (struct policy_boolean){copy_text(name), value};
	}
	if (!packet_done(question))
		reject("booleans");
}

static void answer_load(uint32_t refused, const struct server_policy *policy)
{
	packet_put(&server.answer, refused);
	packet_put_text(&server.answer, server.complaints.text);
	packet_put(&server.answer, policy->n_types);
	packet_put(&server.answer, policy->n_rules);
	packet_put(&server.answer, policy->n_booleans);
	packet_put(&server.answer, policy->mls);
	packet_put(&server.answer, (uint32_t)policy->image_bytes);
	packet_put_text(&server.answer, policy->operator_context);
	server.answer.fd = policy->image_fd;
}

static void answer_refusal(void)
{
	answer_load(1, &(struct server_policy){.operator_context = "", .image_fd = -1});
}

/* Nothing here allocates. */
__attribute__((noreturn)) static void give_up_memory(void)
{
	snprintf(
		server.complaints.text, sizeof(server.complaints.text),
		"the policy needs more memory than a security server may use (%llu MiB, or the user's limit)",
		SANDBOX_MEMORY_BYTES >> 20);
	packet_begin(&server.answer, PROTOCOL_LOAD, server.question.id);
	answer_refusal();
	send_answer();
	_exit(EXIT_BROKEN);
}

/* The only exit() is CIL's, when it is out of memory: say so to the monitor. */
static void take_exit(void)
{
	if (server.question.kind == PROTOCOL_LOAD)
		give_up_memory();
}

/* -errno, or a sealed memfd that holds the image. */
static int seal_image(const void *image, size_t image_bytes)
{
	int fd = memfd_create("portcullis-policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *memory;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)image_bytes))
		return -errno;
	memory = mmap(NULL, image_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	memcpy(memory, image, image_bytes);
	munmap(memory, image_bytes);
	return fcntl(fd, F_ADD_SEALS, IMAGE_SEALS) ? -errno : fd;
}

static void free_sources(void)
{
	for (size_t i = 0; i < server.n_sources; i++) {
		free((char *)server.sources[i].name);
		free((char *)server.sources[i].text);
	}
	for (size_t i = 0; i < server.n_booleans; i++)
		free((char *)server.booleans[i].name);
	server.n_sources = server.n_booleans = 0;
}

/* The image of what was loaded, so that a server that starts from it is the same. */
static void answer_loaded(void)
{
	struct server_policy policy = ruleset_describe(server.ruleset);
	void *image = NULL;

	if (ruleset_image(server.ruleset, &image, &policy.image_bytes))
		give_up_memory();
	if (policy.image_bytes > MAX_POLICY_BYTES) {
		complaints_add(&server.complaints, "the binary policy would be larger than %u MiB",
		               MAX_POLICY_BYTES >> 20);
		answer_refusal();
	} else {
		policy.image_fd = seal_image(image, policy.image_bytes);
		if (policy.image_fd < 0)
			fail(EXIT_BROKEN, "security server: no memory for the image: %s",
			     strerror(-policy.image_fd));
		answer_load(0, &policy);
	}
	free(image);
}

static void load(struct packet *question)
{
	void *image = NULL;
	size_t image_bytes = 0;

	if (!packet_done(question) || server.ruleset || !server.n_sources)
		reject("load");
	complaints_begin(&server.complaints, server.sources, server.n_sources);
	if (policy_compile(server.sources, server.n_sources, &server.complaints, &image, &image_bytes) == 0)
		server.ruleset = ruleset_load(image, image_bytes, server.booleans, server.n_booleans,
		                              &server.complaints);
	free(image);
	if (server.ruleset)
		answer_loaded();
	else
		answer_refusal();
	free_sources();
	send_answer();
	if (server.answer.fd >= 0)
		close(server.answer.fd);
	if (sandbox_enter_serve(server.socket_fd))
		fail(EXIT_BROKEN, "security server: the sandbox can not be closed");
}

static enum policy_class get_class(struct packet *question)
{
	uint32_t tclass = packet_get(question);

	if (tclass >= N_CLASSES)
		reject("a class");
	return (enum policy_class)tclass;
}

static void decide(struct packet *question)
{
	uint32_t contexts[PROTOCOL_CONTEXTS_PER_PACKET];
	uint32_t n_contexts = packet_get(question);
	uint32_t n = packet_get(question);

	if (n_contexts > PROTOCOL_CONTEXTS_PER_PACKET || n > PROTOCOL_QUESTIONS_PER_PACKET)
		reject("too many questions");
	for (uint32_t i = 0; i < n_contexts; i++)
		contexts[i] = ruleset_context(server.ruleset, packet_get_text(question, MAX_CONTEXT_BYTES));
	packet_put(&server.answer, n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t source = packet_get(question);
		uint32_t target = packet_get(question);
		enum policy_class tclass = get_class(question);
		struct server_decision decision;

		if (source >= n_contexts || target >= n_contexts)
			reject("a context's number");
		decision = ruleset_decide(server.ruleset, contexts[source], contexts[target], tclass);
		packet_put(&server.answer, decision.allowed);
		packet_put(&server.answer, decision.auditallow);
		packet_put(&server.answer, decision.auditdeny);
		packet_put(&server.answer, (decision.known ? PROTOCOL_KNOWN : 0u) |
		                                   (decision.permissive ? PROTOCOL_PERMISSIVE : 0u));
	}
}

static void validate(struct packet *question)
{
	uint32_t n = packet_get(question);

	if (n > PROTOCOL_CONTEXTS_PER_PACKET)
		reject("too many contexts");
	packet_put(&server.answer, n);
	for (uint32_t i = 0; i < n; i++) {
		const char *context = packet_get_text(question, MAX_CONTEXT_BYTES);

		packet_put(&server.answer, ruleset_context(server.ruleset, context) ? PROTOCOL_KNOWN : 0);
	}
}

static void find_member(struct packet *question)
{
	const char *source = packet_get_text(question, MAX_CONTEXT_BYTES);
	const char *target = packet_get_text(question, MAX_CONTEXT_BYTES);
	enum policy_class tclass = get_class(question);
	char context[MAX_CONTEXT_BYTES];
	struct server_member member = ruleset_member(server.ruleset, source, target, tclass, context);

	packet_put(&server.answer,
	           (member.known ? PROTOCOL_KNOWN : 0u) | (member.has_rule ? PROTOCOL_HAS_RULE : 0u));
	packet_put_text(&server.answer, member.context);
}

static void explain(struct packet *question)
{
	const char *source = packet_get_text(question, MAX_CONTEXT_BYTES);
	const char *target = packet_get_text(question, MAX_CONTEXT_BYTES);
	enum policy_class tclass = get_class(question);
	uint32_t permission = packet_get(question);
	char text[EXPLANATION_BYTES];

	if (!class_permission_name(tclass, permission))
		reject("a permission");
	ruleset_explain(server.ruleset, source, target, tclass, permission, text, sizeof(text));
	packet_put_text(&server.answer, text);
}

static void list_booleans(struct packet *question)
{
	uint32_t total = ruleset_describe(server.ruleset).n_booleans;
	uint32_t first = packet_get(question);
	uint32_t n;

	if (first > total)
		reject("a boolean's number");
	n = total - first < PROTOCOL_BOOLEANS_PER_PACKET ? total - first : PROTOCOL_BOOLEANS_PER_PACKET;
	packet_put(&server.answer, total);
	packet_put(&server.answer, n);
	for (uint32_t i = first; i < first + n; i++) {
		struct policy_boolean boolean = ruleset_boolean(server.ruleset, i);

		packet_put(&server.answer, boolean.value);
		packet_put_text(&server.answer, boolean.name);
	}
}

typedef void answer_fn(struct packet *question);

static answer_fn *const answers[PROTOCOL_KINDS] = {
	[PROTOCOL_DECIDE] = decide,   [PROTOCOL_VALIDATE] = validate,      [PROTOCOL_MEMBER] = find_member,
	[PROTOCOL_EXPLAIN] = explain, [PROTOCOL_BOOLEANS] = list_booleans,
};

static void answer(struct packet *question)
{
	if (question->fd >= 0 && question->kind != PROTOCOL_SOURCE)
		reject("a descriptor");
	packet_begin(&server.answer, question->kind, question->id);
	switch (question->kind) {
	case PROTOCOL_SOURCE:
		take_source(question);
		break;
	case PROTOCOL_SET_BOOLEANS:
		take_booleans(question);
		break;
	case PROTOCOL_LOAD:
		load(question);
		return;
	default:
		if (!server.ruleset)
			reject("a question before the policy");
		ruleset_trim(server.ruleset);
		answers[question->kind](question);
		if (!packet_done(question))
			reject("a packet of the wrong length");
	}
	send_answer();
}

int security_server_main(int socket_fd)
{
	int error = sandbox_enter_load(socket_fd);

	if (error)
		fail(EXIT_BROKEN, "security server: the sandbox can not be set up: %s", strerror(-error));
	server.socket_fd = socket_fd;
	if (atexit(take_exit))
		fail(EXIT_BROKEN, "security server: out of memory");
	for (;;) {
		int received = packet_receive(socket_fd, &server.question, 0);

		if (received == 0 || received == -ECONNRESET)
			_exit(EXIT_DONE);
		if (received < 0)
			reject(strerror(-received));
		answer(&server.question);
	}
}
