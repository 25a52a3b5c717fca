/*
 * Placement: what is cut together stands together, and no slot is wasted for it.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "monitor/placement.h"
#include "tests/monitor/identity_support.h"

#define MOST_SLOTS 1024u

static const int services[8]; /* only their addresses */

static struct placement_key key_of(uint32_t label)
{
	return (struct placement_key){.service = &services[label % 8], .on_behalf_of = label / 8};
}

/* What domain_take_slot and domain_give_slot do, without a machine. */
struct range {
	struct domain domain;
	struct slot slots[MOST_SLOTS];
	uint32_t n_free;
};

static void range_open(struct range *range, uint32_t n_slots)
{
	*range = (struct range){.domain = {.n_slots = n_slots}, .n_free = n_slots};
	range->domain.slots = range->slots;
	cr_assert_eq(placement_create(&range->domain), 0);
}

static uint32_t take(struct range *range, uint32_t label)
{
	struct placement_key key = key_of(label);
	struct domain *domain = &range->domain;
	uint32_t i = placement_choose(domain, &key);

	cr_assert_leq(i, domain->n_slots);
	cr_assert_eq(i == domain->n_slots, range->n_free == 0, "refused although %u of %u are free",
	             range->n_free, domain->n_slots);
	if (i == domain->n_slots)
		return i;
	cr_assert_null(domain->slots[i].channel);
	placement_taken(domain, i, &key);
	domain->slots[i].channel = (struct channel *)range; /* only not NULL */
	while (domain->lowest_free < domain->n_slots && domain->slots[domain->lowest_free].channel)
		domain->lowest_free++;
	range->n_free--;
	return i;
}

static void give(struct range *range, uint32_t i)
{
	range->slots[i].channel = NULL;
	placement_given(&range->domain, i);
	if (i < range->domain.lowest_free)
		range->domain.lowest_free = i;
	range->n_free++;
}

static void range_close(struct range *range)
{
	placement_destroy(&range->domain);
}

Test(place, labels_that_take_turns_stand_apart)
{
	static struct range range;
	uint32_t last[2] = {0};

	range_open(&range, MOST_SLOTS);
	for (uint32_t i = 0; i < MOST_SLOTS; i++) {
		uint32_t slot = take(&range, i % 2);

		cr_assert(i < 2 || slot == last[i % 2] + 1, "slot %u of label %u follows %u", slot, i % 2,
		          last[i % 2]);
		last[i % 2] = slot;
	}
	range_close(&range);
}

/* Many labels, more than there are extents: every slot is given, to whoever asks. */
Test(place, every_slot_is_given)
{
	static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 48, 128, 1000, MOST_SLOTS};
	static struct range range;

	srandom(1);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		for (uint32_t n_labels = 1; n_labels <= 40; n_labels += 13) {
			range_open(&range, sizes[s]);
			for (uint32_t i = 0; i < sizes[s]; i++)
				cr_assert_lt(take(&range, (uint32_t)random() % n_labels), sizes[s]);
			cr_assert_eq(take(&range, 0), sizes[s]);
			range_close(&range);
		}
}

/* Whatever was taken and given back: nothing is refused while a slot is free, and nothing stays behind. */
Test(place, slots_come_back)
{
	static const uint32_t sizes[] = {1, 3, 8, 16, 64, 200};
	static struct range range;

	srandom(2);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		range_open(&range, sizes[s]);
		for (uint32_t round = 0; round < 5000; round++) {
			uint32_t i = (uint32_t)random() % sizes[s];

			if (range.slots[i].channel && random() % 2)
				give(&range, i);
			else
				take(&range, (uint32_t)random() % 20);
		}
		for (uint32_t i = 0; i < sizes[s]; i++)
			if (range.slots[i].channel)
				give(&range, i);
		for (uint32_t x = 0; x < range.domain.n_extents; x++)
			cr_assert_eq(range.domain.extents[x].n_used, 0);
		cr_assert_eq(take(&range, 7), 0, "as new");
		range_close(&range);
	}
}

/* Who has no extent and finds none free takes the lowest slot; a later extent is its own again. */
Test(place, foreign_slots_do_not_make_an_extent_ones_own)
{
	static struct range range;
	uint32_t first, foreign;

	range_open(&range, 16); /* four extents of four */
	first = take(&range, 0);
	for (uint32_t label = 1; label < 4; label++)
		take(&range, label);
	foreign = take(&range, 4);
	cr_assert_eq(foreign, first + 1);
	cr_assert_eq(take(&range, 0), first + 2);
	cr_assert_eq(take(&range, 4), first + 3, "the lowest free one");
	range_close(&range);
}

/* Mappings that the channels of one label are: a neighbour merges if it is one at both ends. */
static uint32_t count_mappings(const uint32_t (*ends)[2], const uint32_t *labels, uint32_t n, uint32_t label)
{
	uint32_t peer[MOST_SLOTS], n_mappings = 0;

	memset(peer, 0xff, sizeof(peer));
	for (uint32_t i = 0; i < n; i++)
		if (labels[i] == label)
			peer[ends[i][0]] = ends[i][1];
	for (uint32_t slot = 0; slot < MOST_SLOTS; slot++)
		n_mappings += peer[slot] != UINT32_MAX &&
		              (slot == 0 || peer[slot - 1] == UINT32_MAX || peer[slot - 1] + 1 != peer[slot]);
	return n_mappings;
}

/* Both ends run in the same order, whatever order labels come in, and however many slots each end has that is
 * not full. */
Test(place, both_ends_run_in_the_same_order)
{
	static struct range client, server;
	static uint32_t ends[300][2], labels[300];

	for (uint32_t n_server = 500; n_server <= MOST_SLOTS; n_server += 131)
		for (uint32_t n_labels = 1; n_labels <= 4; n_labels++) {
			srandom(n_server + n_labels);
			range_open(&client, MOST_SLOTS);
			range_open(&server, n_server);
			for (uint32_t i = 0; i < 300; i++) {
				labels[i] = (uint32_t)random() % n_labels;
				ends[i][0] = take(&client, labels[i]);
				ends[i][1] = take(&server, labels[i]);
			}
			for (uint32_t label = 0; label < n_labels; label++)
				cr_assert_leq(count_mappings(ends, labels, 300, label), 12,
				              "%u labels, %u slots at the server", n_labels, n_server);
			range_close(&client);
			range_close(&server);
		}
}

/* ---- with guests ---- */

#define N_EACH 6u

#define DOMAINS(more)                                                                                        \
	"name = \"test\"; vcpus = 2; domains = ("                                                            \
	"{ name = \"one\"; program = \"" TEST_DOMAINS "t_actor.elf\"; vcpu = 0; " more                       \
	" context = \"" SUBJECT(                                                                             \
		"one_t") "\"; },"                                                                            \
			 "{ name = \"two\"; program = \"" TEST_DOMAINS                                       \
			 "t_actor.elf\"; vcpu = 1; slots = 64;"                                              \
			 " context = \"" SUBJECT(                                                            \
				 "two_t") "\";"                                                              \
					  " offers = ({ name = \"svc\"; context = \"" SUBJECT(               \
						  "store_t") "\"; }, \"aux\"); });"

static const char MANIFEST[] = DOMAINS("slots = 64;");

#define STORE "(type store_t) (call a_domain (store_t)) "
#define REACH "(call can_connect (one_t two_t)) "
#define RULES STORE REACH "(allow one_t store_t (channel (connect)))"

static void assert_side_by_side(const struct pair *pairs, const char *what)
{
	for (unsigned i = 1; i < N_EACH; i++)
		for (unsigned side = 0; side < N_SIDES; side++)
			cr_assert_eq(pairs[i].channel->end[side].slot,
			             pairs[i - 1].channel->end[side].slot + 1, "%s: channel %u, end %u", what,
			             i, side);
}

/* I4: connects of two labels that take turns are two runs; a push cuts the one, and the other goes on. */
Test(place, a_cut_of_one_of_two_labels_is_one_run)
{
	struct pair cut[N_EACH], kept[N_EACH];
	struct world world;
	uint64_t n_calls;
	json_t *report;

	world_open(&world, &(struct world_options){.manifest = MANIFEST, .policy = policy_of(RULES)});
	for (unsigned i = 0; i < N_EACH; i++) {
		cut[i] = pair_open(&world, "one", "two", "svc");
		kept[i] = pair_open(&world, "one", "two", "aux");
	}
	assert_side_by_side(cut, "svc");
	assert_side_by_side(kept, "aux");
	for (unsigned i = 0; i < N_EACH; i++)
		cr_assert_eq(pair_send(&world, &kept[i], true, 10 * i, 2), CALL_OK);
	n_calls = window_mapping_calls(world_guest(&world)->machine);
	report = world_push(&world, policy_of(STORE REACH), STOP_ALL);
	cr_assert_eq(window_mapping_calls(world_guest(&world)->machine) - n_calls, 2, "one for each end");
	cr_assert_eq(report_number(report, "flows.cut"), 2 * N_EACH);
	cr_assert_eq(report_number(report, "flows.kept"), 2 * N_EACH);
	json_decref(report);
	for (unsigned i = 0; i < N_EACH; i++) {
		cr_assert_eq(pair_send(&world, &cut[i], true, 1, 1), CALL_REVOKED);
		cr_assert(inbox_is_empty(cut[i].channel, SIDE_CLIENT) &&
		          inbox_is_empty(cut[i].channel, SIDE_SERVER));
		cr_assert_eq(pair_receive(&world, &kept[i], false, 2), 8);
		cr_assert_eq(world_mailbox(&world, "two")->value[2], 10 * i + 1, "both messages");
		cr_assert_eq(pair_send(&world, &kept[i], false, 10 * i, 1), CALL_OK);
		cr_assert_eq(pair_receive(&world, &kept[i], true, 1), 8);
	}
	world_close(&world);
}

/* A domain whose heap has state for fewer channels than it has slots: any slot is as good as the lowest. */
Test(place, a_small_heap_takes_any_slot)
{
	static const char manifest[] = DOMAINS("slots = 256; heap_kib = 150;");
	struct world world;
	struct pair pairs[2];

	world_open(&world, &(struct world_options){.manifest = manifest, .policy = policy_of(RULES)});
	for (unsigned i = 0; i < 8; i++) {
		struct pair *pair = &pairs[i % 2];

		*pair = pair_open(&world, "one", "two", i % 2 ? "aux" : "svc");
		cr_assert_eq(pair_send(&world, pair, true, i, 1), CALL_OK);
		cr_assert_eq(pair_receive(&world, pair, false, 1), 8);
		cr_assert_eq(world_mailbox(&world, "two")->value[2], i);
	}
	cr_assert_geq(pairs[1].channel->end[SIDE_CLIENT].slot, 128, "half of the window");
	world_close(&world);
}
