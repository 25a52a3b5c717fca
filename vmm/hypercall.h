/*
 * Decodes hypercalls. The hypercall page and the call page are the guest's and
 * may change at any time: each word is loaded once, checked in private memory,
 * and only the copy is used. Needs no VM. The vCPU's thread.
 */
#ifndef PORTCULLIS_VMM_HYPERCALL_H
#define PORTCULLIS_VMM_HYPERCALL_H

#include "vmm/layout.h"
#include "vmm/machine.h"

/* What stood in the page when it was read. */
struct hypercall_words {
	uint32_t raw_call, raw_domain;
	uint64_t raw_argument[HYPERCALL_ARGUMENTS];
};

void hypercall_read(const struct hypercall_page *page, struct hypercall_words *words);

/*
 * Fills request (text is empty) from words. CALL_OK; CALL_NO_CALL for a number
 * that is no call; CALL_BAD_ARGUMENT for a domain that is not one of this vCPU's, or a
 * domain where none belongs (READY, PANIC).
 */
int64_t hypercall_decode(const struct hypercall_words *words, const struct layout *layout, uint32_t vcpu,
                         struct guest_request *request);

/* Copies argument[0] bytes of text from the call page, terminated. CALL_BAD_ARGUMENT: more than
 * MAX_LOG_BYTES. */
int64_t hypercall_text(const struct call_page *page, struct guest_request *request);

/* Is text a possible "service" or "guest/service": names of 1 to MAX_NAME_BYTES - 1 printable ASCII
 * characters? */
bool hypercall_is_name(const char *text, uint64_t bytes);

#endif
