/*
 * The table "what a flow needs" (design: 6) against a model of it that is written
 * another way: every set of permissions that can be missing, without a guest. No KVM.
 */
#include <criterion/criterion.h>

#include "monitor/needs.h"
#include "policy/class.h"

enum {
	CLIENT = 1,
	SERVER,
	SERVICE,
	RELAY
};

/* A row of the table: who asks for what, and what losing it does to the flow there and the flow back. */
struct row {
	policy_sid source, target;
	uint32_t permission;
	const char *loses; /* t: the flow there, b: the flow back, T and B: their back-pressure */
};

static const struct row rows[] = {
	{CLIENT, SERVICE, CHANNEL_CONNECT, "tb"},      {SERVER, CLIENT, CHANNEL_ACCEPT, "tb"},
	{CLIENT, SERVER, CHANNEL_SEND, "t"},           {SERVER, CLIENT, CHANNEL_RECV, "t"},
	{SERVER, CLIENT, CHANNEL_FLOWCTL, "T"},        {SERVER, CLIENT, CHANNEL_SEND, "b"},
	{CLIENT, SERVER, CHANNEL_RECV, "b"},           {CLIENT, SERVER, CHANNEL_FLOWCTL, "B"},
	{RELAY, CLIENT, CHANNEL_SPECIFY_CLIENT, "tb"},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

struct world_of_decisions {
	unsigned missing; /* bit i: row i */
	policy_sid permissive;
	bool unknown; /* one decision is not there */
	struct avc_key unknown_key;
};

static bool look_up(void *opaque, struct avc_key key, struct decision *out)
{
	const struct world_of_decisions *world = opaque;

	if (world->unknown && key.source == world->unknown_key.source &&
	    key.target == world->unknown_key.target)
		return false;
	cr_assert_eq(key.tclass, CLASS_CHANNEL);
	*out = (struct decision){.allowed = UINT32_MAX, .permissive = key.source == world->permissive};
	for (size_t i = 0; i < N_ROWS; i++)
		if (world->missing & 1u << i && rows[i].source == key.source && rows[i].target == key.target)
			out->allowed &= ~rows[i].permission;
	return true;
}

static bool loses(const struct world_of_decisions *world, size_t n_rows, bool enforcing, char what)
{
	for (size_t i = 0; i < n_rows && enforcing; i++)
		for (const char *letter = rows[i].loses; *letter; letter++)
			if (world->missing & 1u << i && rows[i].source != world->permissive &&
			    *letter == what)
				return true;
	return false;
}

static void check(const struct world_of_decisions *world, size_t n_rows, bool enforcing)
{
	const struct subjects subjects = {CLIENT, SERVER, SERVICE, n_rows == N_ROWS ? RELAY : SID_NONE};
	const unsigned all = (1u << n_rows) - 1;
	struct verdict verdict;

	cr_assert(needs_judge(&subjects, enforcing, look_up, (void *)world, &verdict));
	for (unsigned flow = 0; flow < 2; flow++) {
		bool open = !loses(world, n_rows, enforcing, flow ? 'b' : 't');
		bool flowctl = !loses(world, n_rows, enforcing, flow ? 'B' : 'T');
		const struct need *need = verdict_missing(&verdict, flow);

		cr_assert_eq(verdict.open[flow], open, "missing %x, flow %u", world->missing, flow);
		cr_assert_eq(verdict.flowctl[flow], flowctl, "missing %x, flow %u", world->missing, flow);
		cr_assert_eq(need == NULL, open && flowctl, "missing %x, flow %u", world->missing, flow);
		cr_assert(!need || !need->masked);
	}
	/* Everything that is missing is listed, also where permissive mode grants it: it is audited. */
	cr_assert_eq(verdict.n_missing, (size_t)__builtin_popcount(world->missing & all));
}

Test(row, needs_every_set_that_can_be_missing)
{
	for (size_t n_rows = N_ROWS - 1; n_rows <= N_ROWS; n_rows++)
		for (unsigned missing = 0; missing < 1u << n_rows; missing++)
			for (policy_sid permissive = 0; permissive <= RELAY; permissive++) {
				struct world_of_decisions world = {.missing = missing,
				                                   .permissive = permissive};

				check(&world, n_rows, true);
				check(&world, n_rows, false);
			}
}

/* Each row alone: the reason that is given is that row. */
Test(row, needs_each_row_is_its_own_reason)
{
	const struct subjects subjects = {CLIENT, SERVER, SERVICE, RELAY};

	for (size_t i = 0; i < N_ROWS; i++) {
		struct world_of_decisions world = {.missing = 1u << i};
		struct verdict verdict;

		cr_assert(needs_judge(&subjects, true, look_up, &world, &verdict));
		for (unsigned flow = 0; flow < 2; flow++) {
			const struct need *need = verdict_missing(&verdict, flow);

			if (need) {
				cr_assert_eq(need->source, rows[i].source);
				cr_assert_eq(need->target, rows[i].target);
				cr_assert_eq(need->permission, rows[i].permission);
			}
		}
	}
}

/* A decision that is not there is no decision: nothing is granted, nothing is denied. */
Test(row, needs_a_decision_that_is_not_there)
{
	const struct subjects subjects = {CLIENT, SERVER, SERVICE, RELAY};

	for (size_t i = 0; i < N_ROWS; i++) {
		struct world_of_decisions world = {
			.unknown = true, .unknown_key = {rows[i].source, rows[i].target, CLASS_CHANNEL}};
		struct verdict verdict;

		cr_assert_not(needs_judge(&subjects, true, look_up, &world, &verdict));
		cr_assert_not(needs_judge(&subjects, false, look_up, &world, &verdict));
	}
}

/* What needs_list says, needs_judge asks about: no more and no less, so prepare has every answer. */
Test(row, needs_list_is_what_is_asked)
{
	const struct subjects subjects = {CLIENT, SERVER, SERVICE, RELAY};
	struct need needs[MAX_NEEDS];

	cr_assert_eq(needs_list(&subjects, needs), N_ROWS);
	for (size_t i = 0; i < N_ROWS; i++) {
		size_t same = 0;

		for (size_t k = 0; k < N_ROWS; k++)
			same += needs[k].source == rows[i].source && needs[k].target == rows[i].target &&
			        needs[k].permission == rows[i].permission;
		cr_assert_eq(same, 1, "row %zu", i);
	}
	cr_assert_eq(needs_list(&(struct subjects){CLIENT, SERVER, SERVICE, SID_NONE}, needs), N_ROWS - 1);
}
