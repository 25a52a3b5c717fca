/*
 * What the host tells a guest: one page per domain, one record per slot.
 *
 * In the record window, which the host alone writes. Words that change while a
 * domain runs are single atomic words; the rest of a record changes only while
 * its word says RECORD_FREE. A domain reads the word, acts, and reads it again:
 * if generation and the bit that it relied on still stand, what it read between
 * was allowed (design: 7, I1).
 */
#ifndef PORTCULLIS_ABI_RECORD_H
#define PORTCULLIS_ABI_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "guest/abi/limits.h"

/* struct slot_record.word: generation << 16 | state and flow bits. */
#define RECORD_GENERATION_SHIFT 16
#define RECORD_FREE 0x0000u        /* nobody's */
#define RECORD_LIVE 0x0001u        /* this end holds the slot */
#define RECORD_CONNECTING 0x0002u  /* client end, not accepted: what it sends waits, its inbox is empty */
#define RECORD_PEER_CLOSED 0x0004u /* the peer closed in order: what it sent can still be read */
#define RECORD_PEER_DIED 0x0008u   /* the peer failed, or its guest did */
#define RECORD_OUT 0x0010u         /* the flow out is open */
#define RECORD_IN 0x0020u          /* the flow in is open */
#define RECORD_OUT_CUT 0x0040u     /* it was open and a change cut it */
#define RECORD_IN_CUT 0x0080u
#define RECORD_OUT_FLOWCTL 0x0100u /* the peer's header is readable: the flow out is lossless */
#define RECORD_IN_FLOWCTL 0x0200u  /* our header is readable by the peer: the flow in is lossless */
#define RECORD_SERVER 0x0400u      /* this end accepted */
#define RECORD_NOTIFY 0x0800u      /* this end may notify the peer: OUT, or IN with IN_FLOWCTL */

#define RECORD_PEER_ELSEWHERE 0xffffu /* the peer is in another guest: notify rings a doorbell */

struct slot_record {
	uint64_t word;
	uint64_t channel;          /* number of the channel, as `channel list` prints it */
	uint64_t opened_at_policy; /* policy number */
	uint16_t peer_domain;      /* index in this guest, or RECORD_PEER_ELSEWHERE */
	uint16_t peer_vcpu;        /* of a peer in this guest */
	uint32_t doorbell;         /* for a peer elsewhere: what to write to DOORBELL_PORT */
	uint32_t bulk_bytes;       /* of this channel: the smaller of both ends' guests' */
	uint8_t reserved[28];
	char service[MAX_NAME_BYTES];
	char peer_context[MAX_CONTEXT_BYTES];
};

/* The first page of a domain's part of the window. */
struct domain_page {
	uint64_t host_events;     /* the host's half of the domain's event count */
	uint64_t connect_ticket;  /* the latest connect that has an outcome; from 1 */
	int32_t connect_result;   /* 0 or a CALL_ error */
	uint32_t connect_slot;    /* valid if connect_result is 0 */
	uint32_t accepts_waiting; /* connects that wait for this domain's accept */
	uint32_t quarantined;
	uint64_t policy_number;
	uint8_t reserved[4056];
};

/*
 * The last page of the window; the kernel's alone. When guest i rings, the events of these domains grow:
 * those which an end of that guest may notify. Written before the first of them may, and after the last no
 * longer can.
 */
struct doorbell_page {
	uint64_t domains[MAX_GUESTS]; /* bit d: domain d */
	uint8_t reserved[ABI_PAGE_BYTES - MAX_GUESTS * sizeof(uint64_t)];
};

_Static_assert(MAX_DOMAINS <= 64, "a bit each");
_Static_assert(sizeof(struct doorbell_page) == ABI_PAGE_BYTES, "a page of its own");
_Static_assert(sizeof(struct slot_record) == 256, "sixteen records a page");
_Static_assert(offsetof(struct slot_record, service) == 64, "the words fill one line");
_Static_assert(sizeof(struct domain_page) == ABI_PAGE_BYTES, "a page of its own");

/* Records of a domain: its slot i (i counted from its first slot) stands here. */
#define RECORD_OFFSET(i) (ABI_PAGE_BYTES + (uint64_t)(i) * sizeof(struct slot_record))

#endif
