#include "policy/question.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BATCH (1u << 24) /* questions or contexts of one call */

int question_copy_texts(const char *const *texts, size_t n_texts, size_t text_bytes, char ***copies)
{
	size_t bytes = 0;
	char **made;
	char *text;

	for (size_t i = 0; i < n_texts; i++) {
		size_t n = texts[i] ? strnlen(texts[i], text_bytes) : text_bytes;

		if (n == text_bytes)
			return -EINVAL;
		bytes += n + 1;
	}
	made = malloc(n_texts * sizeof(*made) + bytes + 1);
	if (!made)
		return -ENOMEM;
	text = (char *)(made + n_texts);
	for (size_t i = 0; i < n_texts; i++) {
		made[i] = text;
		text = stpcpy(text, texts[i]) + 1;
	}
	*copies = made;
	return 0;
}

/* The bytes of the UTF-8 character at text, 0 if there is none. */
static size_t measure_character(const unsigned char *text)
{
	size_t n = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;

	if (text[0] > 0xf4 || (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

void question_clean_text(char *text)
{
	size_t n;

	for (; *text; text += n) {
		unsigned char byte = (unsigned char)*text;

		n = measure_character((unsigned char *)text);
		/* C1 controls too: a terminal may act on them. */
		if (!n || (n == 2 && byte == 0xc2 && (unsigned char)text[1] < 0xa0) || byte == 0x7f) {
			*text = '?';
			n = 1;
		} else if (byte < ' ' && byte != '\n') {
			*text = byte == '\t' ? ' ' : '?';
		}
	}
}

struct decide {
	struct question question;
	server_decided_fn *done;
	char **contexts;
	size_t n_contexts;
	struct server_question *questions;
	struct server_decision *decisions;
	size_t n_questions;
	size_t n_answered;
	size_t n_asked; /* in the packet under way, from n_answered on */
	/* Where a context stands in the packet under way, if `packet_of` is that packet's number. */
	struct {
		uint32_t packet_of;
		uint32_t number;
	} * places;
	uint32_t n_packets;
};

static void decide_release(struct question *question)
{
	struct decide *decide = (struct decide *)question;

	free(decide->contexts);
	free(decide->questions);
	free(decide->decisions);
	free(decide->places);
	free(decide);
}

/* The number of a context in the packet; *n is raised if it is new there. */
static uint32_t place_context(struct decide *decide, uint32_t context, const char **texts, uint32_t *n)
{
	if (decide->places[context].packet_of != decide->n_packets) {
		decide->places[context].packet_of = decide->n_packets;
		decide->places[context].number = *n;
		texts[(*n)++] = decide->contexts[context];
	}
	return decide->places[context].number;
}

/* As many of the questions that are left as fit: they stand before the contexts that they use. */
static void decide_encode(struct question *question, struct packet *packet)
{
	struct decide *decide = (struct decide *)question;
	const char *texts[PROTOCOL_CONTEXTS_PER_PACKET];
	uint32_t fields[PROTOCOL_QUESTIONS_PER_PACKET][3];
	uint32_t n_texts = 0;
	uint32_t n = 0;

	decide->n_packets++;
	while (n < PROTOCOL_QUESTIONS_PER_PACKET && decide->n_answered + n < decide->n_questions &&
	       n_texts + 2 <= PROTOCOL_CONTEXTS_PER_PACKET) {
		const struct server_question *asked = &decide->questions[decide->n_answered + n];

		fields[n][0] = place_context(decide, asked->source, texts, &n_texts);
		fields[n][1] = place_context(decide, asked->target, texts, &n_texts);
		fields[n][2] = asked->tclass;
		n++;
	}
	packet_put(packet, n_texts);
	packet_put(packet, n);
	for (uint32_t i = 0; i < n_texts; i++)
		packet_put_text(packet, texts[i]);
	for (uint32_t i = 0; i < n; i++)
		for (unsigned field = 0; field < 3; field++)
			packet_put(packet, fields[i][field]);
	decide->n_asked = n;
}

/* Whether a decision is one that a policy could give. */
static bool is_possible(const struct server_decision *decision, uint32_t flags, uint32_t all)
{
	if (flags & ~(uint32_t)(PROTOCOL_KNOWN | PROTOCOL_PERMISSIVE))
		return false;
	if ((decision->allowed | decision->auditallow | decision->auditdeny) & ~all)
		return false;
	return decision->known || (!decision->allowed && !decision->permissive);
}

static int decide_accept(struct question *question, struct packet *answer)
{
	struct decide *decide = (struct decide *)question;

	if (packet_get(answer) != decide->n_asked)
		return -EPROTO;
	for (size_t i = decide->n_answered; i < decide->n_answered + decide->n_asked; i++) {
		struct server_decision raw;
		uint32_t flags;

		raw.allowed = packet_get(answer);
		raw.auditallow = packet_get(answer);
		raw.auditdeny = packet_get(answer);
		flags = packet_get(answer);
		raw.known = flags & PROTOCOL_KNOWN;
		raw.permissive = flags & PROTOCOL_PERMISSIVE;
		if (!is_possible(&raw, flags, class_all_permissions(decide->questions[i].tclass)))
			return -EPROTO;
		decide->decisions[i] = raw;
	}
	if (!packet_done(answer))
		return -EPROTO;
	decide->n_answered += decide->n_asked;
	return decide->n_answered < decide->n_questions;
}

static void decide_report(struct question *question, int status)
{
	struct decide *decide = (struct decide *)question;

	decide->done(question->opaque, status, status ? NULL : decide->decisions,
	             status ? 0 : decide->n_questions);
}

static const struct question_kind decide_kind = {PROTOCOL_DECIDE, decide_encode, decide_accept, decide_report,
                                                 decide_release};

int question_decide(const char *const *contexts, size_t n_contexts, const struct server_question *questions,
                    size_t n_questions, server_decided_fn *done, struct question **made)
{
	struct decide *decide;
	int error = -ENOMEM;

	if (n_contexts > MAX_BATCH || n_questions > MAX_BATCH)
		return -E2BIG;
	for (size_t i = 0; i < n_questions; i++)
		if (questions[i].source >= n_contexts || questions[i].target >= n_contexts ||
		    (unsigned)questions[i].tclass >= N_CLASSES)
			return -EINVAL;
	decide = calloc(1, sizeof(*decide));
	if (!decide)
		return error;
	*decide = (struct decide){
		.question.kind = &decide_kind,
		.done = done,
		.n_contexts = n_contexts,
		.n_questions = n_questions,
		.questions = malloc(n_questions * sizeof(*questions) + 1),
		.decisions = calloc(n_questions + 1, sizeof(*decide->decisions)),
		.places = calloc(n_contexts + 1, sizeof(*decide->places)),
	};
	if (decide->questions && decide->decisions && decide->places)
		error = question_copy_texts(contexts, n_contexts, MAX_CONTEXT_BYTES, &decide->contexts);
	if (error) {
		decide_release(&decide->question);
		return error;
	}
	if (n_questions)
		memcpy(decide->questions, questions, n_questions * sizeof(*questions));
	*made = &decide->question;
	return 0;
}

struct validate {
	struct question question;
	server_validated_fn *done;
	char **contexts;
	bool *valid;
	size_t n_contexts;
	size_t n_answered;
	size_t n_asked;
};

static void validate_encode(struct question *question, struct packet *packet)
{
	struct validate *validate = (struct validate *)question;
	size_t left = validate->n_contexts - validate->n_answered;

	validate->n_asked = left < PROTOCOL_CONTEXTS_PER_PACKET ? left : PROTOCOL_CONTEXTS_PER_PACKET;
	packet_put(packet, (uint32_t)validate->n_asked);
	for (size_t i = 0; i < validate->n_asked; i++)
		packet_put_text(packet, validate->contexts[validate->n_answered + i]);
}

static int validate_accept(struct question *question, struct packet *answer)
{
	struct validate *validate = (struct validate *)question;

	if (packet_get(answer) != validate->n_asked)
		return -EPROTO;
	for (size_t i = 0; i < validate->n_asked; i++) {
		uint32_t flags = packet_get(answer);

		if (flags & ~(uint32_t)PROTOCOL_KNOWN)
			return -EPROTO;
		validate->valid[validate->n_answered + i] = flags == PROTOCOL_KNOWN;
	}
	if (!packet_done(answer))
		return -EPROTO;
	validate->n_answered += validate->n_asked;
	return validate->n_answered < validate->n_contexts;
}

static void validate_report(struct question *question, int status)
{
	struct validate *validate = (struct validate *)question;

	validate->done(question->opaque, status, status ? NULL : validate->valid,
	               status ? 0 : validate->n_contexts);
}

static void validate_release(struct question *question)
{
	struct validate *validate = (struct validate *)question;

	free(validate->contexts);
	free(validate->valid);
	free(validate);
}

static const struct question_kind validate_kind = {PROTOCOL_VALIDATE, validate_encode, validate_accept,
                                                   validate_report, validate_release};

int question_validate(const char *const *contexts, size_t n_contexts, server_validated_fn *done,
                      struct question **made)
{
	struct validate *validate;
	int error = -ENOMEM;

	if (n_contexts > MAX_BATCH)
		return -E2BIG;
	validate = calloc(1, sizeof(*validate));
	if (!validate)
		return error;
	validate->question.kind = &validate_kind;
	validate->done = done;
	validate->n_contexts = n_contexts;
	validate->valid = calloc(n_contexts + 1, sizeof(*validate->valid));
	if (validate->valid)
		error = question_copy_texts(contexts, n_contexts, MAX_CONTEXT_BYTES, &validate->contexts);
	if (error) {
		validate_release(&validate->question);
		return error;
	}
	*made = &validate->question;
	return 0;
}

/* member and explain: one pair of contexts, one packet. */
struct pair {
	struct question question;
	union {
		server_member_fn *member;
		server_explained_fn *explained;
	} done;
	char **contexts;
	enum policy_class tclass;
	uint32_t permission; /* 0 for member */
	struct server_member member;
	char *text;
};

static void pair_encode(struct question *question, struct packet *packet)
{
	struct pair *pair = (struct pair *)question;

	packet_put_text(packet, pair->contexts[0]);
	packet_put_text(packet, pair->contexts[1]);
	packet_put(packet, pair->tclass);
	if (pair->permission)
		packet_put(packet, pair->permission);
}

static void pair_release(struct question *question)
{
	struct pair *pair = (struct pair *)question;

	free(pair->contexts);
	free(pair->text);
	free(pair);
}

static int member_accept(struct question *question, struct packet *answer)
{
	struct pair *pair = (struct pair *)question;
	uint32_t flags = packet_get(answer);
	const char *context = packet_get_text(answer, MAX_CONTEXT_BYTES);
	bool known = flags & PROTOCOL_KNOWN;
	bool has_rule = flags & PROTOCOL_HAS_RULE;

	if (!packet_done(answer) || flags & ~(uint32_t)(PROTOCOL_KNOWN | PROTOCOL_HAS_RULE) ||
	    (!known && (has_rule || context[0])))
		return -EPROTO;
	pair->text = strdup(context);
	if (!pair->text)
		return -ENOMEM;
	question_clean_text(pair->text);
	pair->member = (struct server_member){.known = known, .has_rule = has_rule, .context = pair->text};
	return 0;
}

static void member_report(struct question *question, int status)
{
	struct pair *pair = (struct pair *)question;

	pair->done.member(question->opaque, status, status ? NULL : &pair->member);
}

static int explain_accept(struct question *question, struct packet *answer)
{
	struct pair *pair = (struct pair *)question;
	const char *text = packet_get_text(answer, PROTOCOL_TEXT_BYTES);

	if (!packet_done(answer) || !text[0])
		return -EPROTO;
	pair->text = strdup(text);
	if (!pair->text)
		return -ENOMEM;
	question_clean_text(pair->text);
	return 0;
}

static void explain_report(struct question *question, int status)
{
	struct pair *pair = (struct pair *)question;

	pair->done.explained(question->opaque, status, status ? NULL : pair->text);
}

static const struct question_kind member_kind = {PROTOCOL_MEMBER, pair_encode, member_accept, member_report,
                                                 pair_release};
static const struct question_kind explain_kind = {PROTOCOL_EXPLAIN, pair_encode, explain_accept,
                                                  explain_report, pair_release};

static int make_pair(const struct question_kind *kind, const char *source, const char *target,
                     enum policy_class tclass, uint32_t permission, struct pair **made)
{
	const char *contexts[2] = {source, target};
	struct pair *pair;
	int error;

	if ((unsigned)tclass >= N_CLASSES)
		return -EINVAL;
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return -ENOMEM;
	error = question_copy_texts(contexts, 2, MAX_CONTEXT_BYTES, &pair->contexts);
	if (error) {
		free(pair);
		return error;
	}
	pair->question.kind = kind;
	pair->tclass = tclass;
	pair->permission = permission;
	*made = pair;
	return 0;
}

int question_member(const char *source, const char *target, enum policy_class tclass, server_member_fn *done,
                    struct question **made)
{
	struct pair *pair;
	int error = make_pair(&member_kind, source, target, tclass, 0, &pair);

	if (error)
		return error;
	pair->done.member = done;
	*made = &pair->question;
	return 0;
}

int question_explain(const char *source, const char *target, enum policy_class tclass, uint32_t permission,
                     server_explained_fn *done, struct question **made)
{
	struct pair *pair;
	int error;

	if (!class_permission_name(tclass, permission))
		return -EINVAL;
	error = make_pair(&explain_kind, source, target, tclass, permission, &pair);
	if (error)
		return error;
	pair->done.explained = done;
	*made = &pair->question;
	return 0;
}
