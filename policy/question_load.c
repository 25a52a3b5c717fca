/* The two questions about a policy as a whole: load it, list its booleans. */
#include "policy/question.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SOURCE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct load {
	struct question question;
	server_loaded_fn *done;
	char **names;
	int fds[MAX_POLICY_FILES]; /* our duplicates */
	size_t n_sources;
	char **boolean_names;
	bool *boolean_values;
	size_t n_booleans;
	size_t n_sent; /* of sources, then of booleans, then the load itself */
	size_t n_in_packet;
	struct server_policy policy;
	char *text; /* warnings, or why it was refused */
	char *operator_context;
};

static void load_release(struct question *question)
{
	struct load *load = (struct load *)question;

	for (size_t i = 0; i < load->n_sources; i++)
		close(load->fds[i]);
	if (load->policy.image_fd >= 0)
		close(load->policy.image_fd);
	free(load->names);
	free(load->boolean_names);
	free(load->boolean_values);
	free(load->text);
	free(load->operator_context);
	free(load);
}

static void encode_booleans(struct load *load, struct packet *packet, size_t first)
{
	size_t left = load->n_booleans - first;

	load->n_in_packet = left < PROTOCOL_BOOLEANS_PER_PACKET ? left : PROTOCOL_BOOLEANS_PER_PACKET;
	packet->kind = PROTOCOL_SET_BOOLEANS;
	packet_put(packet, (uint32_t)load->n_in_packet);
	for (size_t i = first; i < first + load->n_in_packet; i++) {
		packet_put(packet, load->boolean_values[i]);
		packet_put_text(packet, load->boolean_names[i]);
	}
}

static void load_encode(struct question *question, struct packet *packet)
{
	struct load *load = (struct load *)question;

	load->n_in_packet = 1;
	if (load->n_sent < load->n_sources) {
		packet->kind = PROTOCOL_SOURCE;
		packet->fd = load->fds[load->n_sent];
		packet_put_text(packet, load->names[load->n_sent]);
	} else if (load->n_sent < load->n_sources + load->n_booleans) {
		encode_booleans(load, packet, load->n_sent - load->n_sources);
	} else {
		packet->kind = PROTOCOL_LOAD;
	}
}

/* The image must be what it is said to be, and nobody may change it any more. */
static int check_image(int fd, size_t bytes)
{
	struct stat stat;
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SOURCE_SEALS) != SOURCE_SEALS || fstat(fd, &stat))
		return -EPROTO;
	return bytes && bytes <= MAX_POLICY_BYTES && stat.st_size == (off_t)bytes ? 0 : -EPROTO;
}

static int hash_image(struct server_policy *policy)
{
	void *image = mmap(NULL, policy->image_bytes, PROT_READ, MAP_PRIVATE, policy->image_fd, 0);
	XXH128_hash_t hash;

	if (image == MAP_FAILED)
		return -ENOMEM;
	hash = XXH3_128bits(image, policy->image_bytes);
	munmap(image, policy->image_bytes);
	policy->fingerprint_high = hash.high64;
	policy->fingerprint_low = hash.low64;
	return 0;
}

static int accept_policy(struct load *load, struct packet *answer, const struct server_policy *raw,
                         const char *raw_operator)
{
	if (!raw_operator[0] || raw->n_booleans > PROTOCOL_MAX_BOOLEANS ||
	    check_image(answer->fd, raw->image_bytes))
		return -EPROTO;
	load->operator_context = strdup(raw_operator);
	if (!load->operator_context)
		return -ENOMEM;
	question_clean_text(load->operator_context);
	load->policy = *raw;
	load->policy.operator_context = load->operator_context;
	load->policy.warnings = load->text;
	load->policy.image_fd = answer->fd; /* from here on ours */
	answer->fd = -1;
	return hash_image(&load->policy);
}

static int accept_load(struct load *load, struct packet *answer)
{
	uint32_t refused = packet_get(answer);
	const char *text = packet_get_text(answer, PROTOCOL_TEXT_BYTES);
	struct server_policy raw = {.image_fd = -1};
	const char *operator_context;
	uint32_t mls;

	raw.n_types = packet_get(answer);
	raw.n_rules = packet_get(answer);
	raw.n_booleans = packet_get(answer);
	mls = packet_get(answer);
	raw.image_bytes = packet_get(answer);
	raw.mls = mls;
	operator_context = packet_get_text(answer, MAX_CONTEXT_BYTES);
	if (!packet_done(answer) || refused > 1 || mls > 1 || (refused && !text[0]))
		return -EPROTO;
	load->text = strdup(text);
	if (!load->text)
		return -ENOMEM;
	question_clean_text(load->text);
	return refused ? -EBADMSG : accept_policy(load, answer, &raw, operator_context);
}

static int load_accept(struct question *question, struct packet *answer)
{
	struct load *load = (struct load *)question;

	if (answer->kind == PROTOCOL_LOAD)
		return accept_load(load, answer);
	load->n_sent += load->n_in_packet;
	return packet_done(answer) ? 1 : -EPROTO;
}

static const char *describe_failure(int status)
{
	switch (status) {
	case -ETIMEDOUT:
		return "the security server did not load the policy before the deadline";
	case -ECONNRESET:
		return "the security server ended while it loaded the policy";
	case -EPROTO:
		return "the security server sent an answer that can not be";
	case -ECANCELED:
		return "loading the policy was cancelled";
	default:
		return "the policy could not be loaded: out of memory";
	}
}

static void load_report(struct question *question, int status)
{
	struct load *load = (struct load *)question;

	if (status) {
		load->done(question->opaque, status, NULL,
		           status == -EBADMSG ? load->text : describe_failure(status));
		return;
	}
	load->done(question->opaque, 0, &load->policy, "");
	load->policy.image_fd = -1; /* the callback has taken it */
}

static const struct question_kind load_kind = {PROTOCOL_SOURCE, load_encode, load_accept, load_report,
                                               load_release};

static int check_source(const struct policy_source *source)
{
	struct stat stat;
	int seals = fcntl(source->fd, F_GET_SEALS);

	if (seals < 0 || (seals & SOURCE_SEALS) != SOURCE_SEALS || fstat(source->fd, &stat) ||
	    stat.st_size != (off_t)source->bytes)
		return -EINVAL;
	return source->bytes > MAX_POLICY_BYTES ? -E2BIG : 0;
}

static int copy_sources(struct load *load, const struct policy_source *sources, size_t n_sources)
{
	const char *names[MAX_POLICY_FILES];

	for (size_t i = 0; i < n_sources; i++) {
		int error = check_source(&sources[i]);

		if (error)
			return error;
		load->fds[i] = fcntl(sources[i].fd, F_DUPFD_CLOEXEC, 0);
		if (load->fds[i] < 0)
			return -ENOMEM;
		load->n_sources++;
		names[i] = sources[i].name;
	}
	return question_copy_texts(names, n_sources, PROTOCOL_SOURCE_NAME_BYTES, &load->names);
}

static int copy_booleans(struct load *load, const struct policy_boolean *booleans, size_t n_booleans)
{
	const char **names = malloc(n_booleans * sizeof(*names) + 1);
	int error = -ENOMEM;

	load->boolean_values = malloc(n_booleans + 1);
	if (names && load->boolean_values) {
		for (size_t i = 0; i < n_booleans; i++) {
			names[i] = booleans[i].name;
			load->boolean_values[i] = booleans[i].value;
		}
		load->n_booleans = n_booleans;
		error = question_copy_texts(names, n_booleans, PROTOCOL_BOOLEAN_BYTES, &load->boolean_names);
	}
	free(names);
	return error;
}

int question_load(const struct policy_source *sources, size_t n_sources,
                  const struct policy_boolean *booleans, size_t n_booleans, server_loaded_fn *done,
                  struct question **made)
{
	struct load *load;
	int error;

	if (!n_sources)
		return -EINVAL;
	if (n_sources > MAX_POLICY_FILES || n_booleans > PROTOCOL_MAX_BOOLEANS)
		return -E2BIG;
	load = calloc(1, sizeof(*load));
	if (!load)
		return -ENOMEM;
	load->question.kind = &load_kind;
	load->done = done;
	load->policy.image_fd = -1;
	error = copy_sources(load, sources, n_sources);
	if (!error)
		error = copy_booleans(load, booleans, n_booleans);
	if (error) {
		load_release(&load->question);
		return error;
	}
	*made = &load->question;
	return 0;
}

struct list {
	struct question question;
	server_booleans_fn *done;
	struct policy_boolean *booleans; /* the names are ours */
	uint32_t n_booleans;
	uint32_t n_listed;
};

static void list_release(struct question *question)
{
	struct list *list = (struct list *)question;

	for (uint32_t i = 0; i < list->n_listed; i++)
		free((char *)list->booleans[i].name);
	free(list->booleans);
	free(list);
}

static void list_encode(struct question *question, struct packet *packet)
{
	packet_put(packet, ((struct list *)question)->n_listed);
}

/* Takes n booleans from an answer whose counts were checked. */
static int list_take(struct list *list, struct packet *answer, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t value = packet_get(answer);
		const char *name = packet_get_text(answer, PROTOCOL_BOOLEAN_BYTES);
		char *copy = strdup(name);

		if (!copy)
			return -ENOMEM;
		question_clean_text(copy);
		list->booleans[list->n_listed++] = (struct policy_boolean){.name = copy, .value = value};
		if (answer->bad || value > 1 || !name[0])
			return -EPROTO;
	}
	return packet_done(answer) ? list->n_listed < list->n_booleans : -EPROTO;
}

static int list_accept(struct question *question, struct packet *answer)
{
	struct list *list = (struct list *)question;
	uint32_t total = packet_get(answer);
	uint32_t n = packet_get(answer);

	if (total > PROTOCOL_MAX_BOOLEANS || n > PROTOCOL_BOOLEANS_PER_PACKET ||
	    (list->booleans && total != list->n_booleans) || n > total - list->n_listed ||
	    (!n && list->n_listed < total))
		return -EPROTO;
	if (!list->booleans) {
		list->booleans = calloc(total + 1, sizeof(*list->booleans));
		if (!list->booleans)
			return -ENOMEM;
		list->n_booleans = total;
	}
	return list_take(list, answer, n);
}

static void list_report(struct question *question, int status)
{
	struct list *list = (struct list *)question;

	list->done(question->opaque, status, status ? NULL : list->booleans, status ? 0 : list->n_booleans);
}

static const struct question_kind list_kind = {PROTOCOL_BOOLEANS, list_encode, list_accept, list_report,
                                               list_release};

int question_booleans(server_booleans_fn *done, struct question **made)
{
	struct list *list = calloc(1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	list->question.kind = &list_kind;
	list->done = done;
	*made = &list->question;
	return 0;
}
