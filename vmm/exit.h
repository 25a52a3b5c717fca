/*
 * Decodes what KVM_RUN returned with. Needs no VM: a test fills a struct kvm_run.
 *
 * What a guest may do is the first four kinds; all else is its end. A domain can do
 * none of it by itself: ring 3 has no port rights and no mapping outside its own pages, so
 * each exit is the guest kernel's doing.
 *
 * Source: Linux Documentation/virt/kvm/api.rst, section 5 (struct kvm_run).
 */
#ifndef PORTCULLIS_VMM_EXIT_H
#define PORTCULLIS_VMM_EXIT_H

#include <linux/kvm.h>
#include <stdint.h>

enum exit_kind {
	EXIT_HYPERCALL,
	EXIT_COUNT_READ,   /* IN from HYPERCALL_PORT */
	EXIT_DOORBELL,     /* OUT to DOORBELL_PORT that no doorbell took */
	EXIT_WINDOW_WRITE, /* a write into read-only memory: it had no effect */
	EXIT_INTERRUPTED,  /* nothing happened */
	EXIT_FATAL,
};

/* Ends of the ranges that are read-only in this guest. */
struct exit_ranges {
	uint64_t data_end, inbox_end, record_end;
};

struct exit_event {
	enum exit_kind kind;
	uint32_t *count; /* EXIT_COUNT_READ: where the value goes */
	uint32_t number; /* EXIT_DOORBELL: what it rang */
	char text[200];  /* EXIT_FATAL: what the guest did */
};

/* run: the page of KVM_RUN; its data area follows within run_bytes. */
void exit_decode(struct kvm_run *run, uint64_t run_bytes, const struct exit_ranges *ranges,
                 struct exit_event *event);

#endif
