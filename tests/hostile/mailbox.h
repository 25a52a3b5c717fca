/*
 * Between a test and its kernel: in the last words of each vCPU's kernel_cpu page. Each word has
 * one writer. The host reads and writes it in the guest's RAM.
 */
#ifndef PORTCULLIS_TEST_MAILBOX_H
#define PORTCULLIS_TEST_MAILBOX_H

#include <stdint.h>

struct mailbox {
	uint64_t counter; /* kernel: grows while it runs */
	uint64_t events;  /* kernel: interrupts, writes, whatever the kernel counts */
	uint64_t command; /* host: what to do next; the kernel's file says what it means */
	uint64_t value;   /* host */
};

#define MAILBOX_OFFSET 4064 /* in the page */

#endif
