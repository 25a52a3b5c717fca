/*
 * Two guests: "test" with the usual "one" to "four" on two vCPUs, and "other" with "five" (three_t) and "six"
 * (four_t, offers "sub") on one.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_CROSS_SUPPORT_H
#define PORTCULLIS_TESTS_MONITOR_CROSS_SUPPORT_H

#include "tests/monitor/kind_support.h"

/* Domains of one guest stand beside each other. */
struct cross_domain {
	const char *guest, *name;
	unsigned vcpu;
	const char *context; /* "one_t:s0" */
	const char *offers;  /* one service; NULL: none */
	const char *more;    /* of the guest, at its first domain: "bulk_bytes = 4096;" */
};

/* The manifest of actors; it stays valid until the next call. */
const char *cross_manifest(const struct cross_domain *domains, size_t n);
#define CROSS_MANIFEST(domains) cross_manifest(domains, sizeof(domains) / sizeof((domains)[0]))

/* The two guests. */
void cross_open(struct world *world);

struct guest *cross_guest(struct world *world, const char *name);

/* What stands in the record of an end. */
uint64_t cross_word(const struct endpoint *end);

/* What the guest's kernel has counted for the domain: notifications, of which each is one. */
uint64_t cross_events(struct world *world, const char *name);

/* Waits until no doorbell is bound that is not needed. */
void cross_until_settled(struct world *world);

/* Waits until the loop has seen the guest's end. */
void cross_until_over(struct world *world, struct guest *guest);

#endif
