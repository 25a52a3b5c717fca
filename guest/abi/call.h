/*
 * System calls (domain to kernel) and hypercalls (kernel to host).
 *
 * System call: SYSCALL with the number in rax, arguments in rdi, rsi, rdx; the
 * result in rax, negative on error (CALL_...); rcx and r11 are lost, every
 * other register kept. Numbers below 0x1000 are Linux's and answer
 * CALL_NO_CALL. Texts and results that do not fit registers pass through the
 * domain's call page, which the host reads once.
 *
 * Hypercall: the kernel fills its vCPU's struct hypercall_page, then writes any
 * value to port HYPERCALL_PORT; the host copies the page once, acts, and has
 * stored `result` before the next instruction. The kernel adds which domain
 * asks; the host checks that it runs on that vCPU.
 */
#ifndef PORTCULLIS_ABI_CALL_H
#define PORTCULLIS_ABI_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "guest/abi/limits.h"

/* Results. Stable numbers; portcullis.h gives each a sentence. */
#define CALL_OK 0
#define CALL_BAD_ARGUMENT (-1)
#define CALL_NO_CALL (-2)
#define CALL_DENIED (-3)      /* policy says no */
#define CALL_REVOKED (-4)     /* it was allowed and a change cut it */
#define CALL_PEER_CLOSED (-5) /* closed in order, and all that it sent has been read */
#define CALL_PEER_DIED (-6)
#define CALL_TIMED_OUT (-7)
#define CALL_NO_SERVICE (-8) /* nobody offers that name */
#define CALL_NO_SLOT (-9)    /* this end's or the peer's slots are all in use */
#define CALL_BUSY (-10)      /* the service's backlog is full, or a connect of this domain is under way */
#define CALL_AGAIN (-11)     /* nothing there now */
#define CALL_PENDING (-12)   /* connect: look at the domain page for the outcome */
#define CALL_TOO_LONG (-13)  /* the message is longer than the channel's or the caller's maximum */
#define CALL_NOT_OPEN (-14)  /* no such channel, or that direction was never allowed */
#define CALL_BROKEN (-15)    /* the peer's memory breaks the ring's rules */
#define CALL_QUARANTINED (-16)

/* System calls. */
#define SYS_CONNECT 0x1000 /* (service bytes in call page text) -> ticket, or an error; see domain_page */
#define SYS_ACCEPT 0x1001  /* () -> slot, CALL_AGAIN */
#define SYS_CLOSE 0x1002   /* (slot) */
#define SYS_WAIT 0x1003    /* (seen events, timeout in ns, UINT64_MAX: none) -> 0, CALL_TIMED_OUT */
#define SYS_NOTIFY 0x1004  /* (slot): the peer's event count grows and it runs */
#define SYS_INFO 0x1005    /* (slot) -> the host checks the record: CALL_OK, CALL_NOT_OPEN */
#define SYS_LOG 0x1006     /* (bytes in call page text) */
#define SYS_YIELD 0x1007
#define SYS_EXIT 0x1008 /* (status, 0..255) */
#define SYS_CONNECT_FOR                                                                                      \
	0x1009 /* as connect, (bytes, parent slot): on behalf of that accepted channel's client */

/* One per domain, at VA_CALL: written by the domain and, `events`, by the kernel. */
struct call_page {
	uint64_t events; /* the kernel's half of the domain's event count */
	uint8_t pad[120];
	char text[MAX_LOG_BYTES]; /* service name, log line: not terminated, the call says how long */
	uint8_t reserved[2944];
};

#define HYPERCALL_PORT                                                                                       \
	0x5043 /* OUT: a hypercall. IN, 4 bytes: a number that grows by one with each IN of the vCPU */

/*
 * OUT, 4 bytes, the number in slot_record.doorbell: rings for a peer in another guest. No hypercall: while a
 * flow needs the doorbell, nobody but the host's kernel sees it.
 */
#define DOORBELL_PORT 0x5048

enum hypercall {
	HYPERCALL_CONNECT =
		1, /* argument[0] bytes of text, [1] parent slot or UINT64_MAX -> ticket or error */
	HYPERCALL_ACCEPT = 2, /* -> slot */
	HYPERCALL_CLOSE = 3,  /* slot */
	HYPERCALL_INFO = 4,   /* slot */
	HYPERCALL_LOG = 5,    /* bytes of text */
	HYPERCALL_EXIT = 6,   /* status */
	HYPERCALL_FAULT = 7,  /* the domain faulted: vector, error code, rip, cr2, rsp */
	HYPERCALL_PANIC = 8,  /* the kernel gave up: vector, error code, rip, cr2, rsp */
	HYPERCALL_READY = 9,  /* the vCPU's kernel is up (once per vCPU) */
};

#define HYPERCALL_ARGUMENTS 5

struct hypercall_page {
	uint32_t call;   /* enum hypercall */
	uint32_t domain; /* who asks; NO_DOMAIN for the kernel itself */
	uint64_t argument[HYPERCALL_ARGUMENTS];
	int64_t result; /* written by the host */
	uint8_t reserved[4040];
};

#define NO_DOMAIN 0xffffffffu

_Static_assert(sizeof(struct call_page) == ABI_PAGE_BYTES, "one page");
_Static_assert(offsetof(struct call_page, text) == 128, "text behind the event line");
_Static_assert(sizeof(struct hypercall_page) == ABI_PAGE_BYTES, "one page");

#endif
