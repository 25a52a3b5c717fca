#include "vmm/hypercall.h"

#include <string.h>

void hypercall_read(const struct hypercall_page *page, struct hypercall_words *words)
{
	words->raw_call = __atomic_load_n(&page->call, __ATOMIC_ACQUIRE);
	words->raw_domain = __atomic_load_n(&page->domain, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < HYPERCALL_ARGUMENTS; i++)
		words->raw_argument[i] = __atomic_load_n(&page->argument[i], __ATOMIC_RELAXED);
}

static bool domain_fits(uint32_t raw_domain, enum hypercall call, const struct layout *layout, uint32_t vcpu)
{
	if (call == HYPERCALL_READY || call == HYPERCALL_PANIC)
		return raw_domain == NO_DOMAIN;
	return raw_domain < layout->n_domains && layout->domain[raw_domain].vcpu == vcpu;
}

int64_t hypercall_decode(const struct hypercall_words *words, const struct layout *layout, uint32_t vcpu,
                         struct guest_request *request)
{
	if (words->raw_call < HYPERCALL_CONNECT || words->raw_call > HYPERCALL_READY)
		return CALL_NO_CALL;
	if (!domain_fits(words->raw_domain, (enum hypercall)words->raw_call, layout, vcpu))
		return CALL_BAD_ARGUMENT;
	request->call = (enum hypercall)words->raw_call;
	request->vcpu = vcpu;
	request->domain = words->raw_domain;
	memcpy(request->argument, words->raw_argument, sizeof(request->argument));
	request->text[0] = '\0';
	return CALL_OK;
}

int64_t hypercall_text(const struct call_page *page, struct guest_request *request)
{
	uint64_t bytes = request->argument[0];

	/* bytes <= MAX_LOG_BYTES = sizeof(page->text) = sizeof(request->text) - 1 */
	if (bytes > MAX_LOG_BYTES)
		return CALL_BAD_ARGUMENT;
	for (uint64_t i = 0; i < bytes; i++)
		request->text[i] = __atomic_load_n(&page->text[i], __ATOMIC_RELAXED);
	request->text[bytes] = '\0';
	return CALL_OK;
}

bool hypercall_is_name(const char *text, uint64_t bytes)
{
	uint64_t part = 0; /* bytes of the name so far */
	bool in_guest = false;

	if (bytes >= MAX_PATH_BYTES)
		return false;
	for (uint64_t i = 0; i < bytes; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			return false;
		if (text[i] != '/') {
			part++;
		} else if (in_guest || part == 0) {
			return false;
		} else {
			in_guest = true;
			part = 0;
		}
		if (part >= MAX_NAME_BYTES)
			return false;
	}
	return part != 0;
}

_Static_assert(sizeof(((struct call_page *)0)->text) == MAX_LOG_BYTES, "hypercall_text copies at most this");
_Static_assert(sizeof(((struct guest_request *)0)->text) == MAX_LOG_BYTES + 1, "and terminates it");
