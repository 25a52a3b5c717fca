/*
 * Placement: which free slot an end gets.
 *
 * What a change takes away together should stand together: neighbouring slots of one
 * end that follow each other at the other end too are one mapping of the host, and one to
 * sever. So the slots of a domain are divided into extents, and an extent belongs
 * to one key (who connects to what, and as whom) for as long as any slot of it is in use.
 * Slots are taken in rising order, so both ends run in the same order. A key's next extent is the
 * one behind its last if that is free, else the middle of the longest free range, so that all have
 * room to grow. When no extent is left that a key may have, it gets the lowest free slot: nothing is
 * refused for the sake of order.
 *
 * A slot number depends on nothing but the domain's own channels that it holds, and on what their records
 * tell it anyway. Registry lock.
 */
#ifndef PORTCULLIS_MONITOR_PLACEMENT_H
#define PORTCULLIS_MONITOR_PLACEMENT_H

#include <stdint.h>

#include "policy/sid.h"

struct domain;

#define MAX_EXTENT_SLOTS 64u

/* Only compared: what it points at may be gone. */
struct placement_key {
	const struct domain *client;
	const void *service;
	policy_sid on_behalf_of; /* SID_NONE: of the client itself */
};

struct extent {
	struct placement_key owner; /* if n_used is not 0 */
	uint32_t n_used;
};

/* Of a domain whose slots are there. 0, -ENOMEM. */
int placement_create(struct domain *domain);
void placement_destroy(struct domain *domain);

/* The slot, counted from the domain's first, that the next end with that key gets; n_slots: none is free. */
uint32_t placement_choose(const struct domain *domain, const struct placement_key *key);

/* A slot was taken for that key, or given back. */
void placement_taken(struct domain *domain, uint32_t i, const struct placement_key *key);
void placement_given(struct domain *domain, uint32_t i);

#endif
