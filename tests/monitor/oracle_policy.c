#include "tests/monitor/oracle_policy.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/monitor/kind_support.h"

uint64_t oracle_draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

unsigned oracle_pick(uint64_t *state, unsigned n)
{
	return (unsigned)(oracle_draw(state) % n);
}

bool oracle_chance(uint64_t *state, unsigned n)
{
	return oracle_pick(state, 100) < n;
}

static uint8_t draw_permissions(uint64_t *state)
{
	uint8_t bits = MAY_ALL;

	if (oracle_chance(state, 85))
		return bits;
	for (unsigned i = 0; i < N_ORACLE_PERMISSIONS; i++)
		if (oracle_chance(state, 30))
			bits &= (uint8_t) ~(1u << i);
	return bits;
}

/* The instance of "m" for a client: mostly one of the two domains that offer it, as they are at first. */
static int draw_member(const struct oracle_policy *policy, uint64_t *state)
{
	int type = oracle_chance(state, 80) ? 3 + (int)oracle_pick(state, 2)
	                                    : (int)oracle_pick(state, N_ORACLE_TYPES);

	return oracle_chance(state, 80) && policy->known[type] ? type : -1;
}

void oracle_policy_draw(struct oracle_policy *policy, uint64_t *state, bool complete)
{
	*policy = (struct oracle_policy){.has_boolean = complete || oracle_chance(state, 80),
	                                 .initially = oracle_chance(state, 50)};
	for (int i = 0; i < N_ORACLE_TYPES; i++) {
		policy->known[i] = complete || oracle_chance(state, 96);
		policy->permissive[i] = oracle_chance(state, 4);
	}
	for (int i = 0; i < N_ORACLE_TYPES; i++) {
		policy->member[i] =
			policy->known[i] && policy->known[LABEL_OF_TWO] ? draw_member(policy, state) : -1;
		for (int j = 0; j < N_ORACLE_TYPES; j++) {
			bool conditional = policy->has_boolean && oracle_chance(state, 8);

			*(conditional ? &policy->if_true[i][j] : &policy->always[i][j]) =
				draw_permissions(state);
		}
	}
}

static void put_permissions(FILE *out, int i, int j, unsigned bits)
{
	static const char *const names[N_ORACLE_PERMISSIONS] = {"connect", "accept",  "send",
	                                                        "recv",    "flowctl", "specify_client"};

	fprintf(out, "(allow t%d_t t%d_t (channel (", i, j);
	for (unsigned p = 0; p < N_ORACLE_PERMISSIONS; p++)
		if (bits & 1u << p)
			fprintf(out, "%s ", names[p]);
	fprintf(out, ")))\n");
}

static void put_rules(FILE *out, const struct oracle_policy *policy,
                      const uint8_t bits[N_ORACLE_TYPES][N_ORACLE_TYPES])
{
	for (int i = 0; i < N_ORACLE_TYPES; i++)
		for (int j = 0; j < N_ORACLE_TYPES; j++)
			if (policy->known[i] && policy->known[j] && bits[i][j])
				put_permissions(out, i, j, bits[i][j]);
}

static void put(FILE *out, const struct oracle_policy *policy)
{
	for (int i = 0; i < N_ORACLE_TYPES; i++) {
		if (!policy->known[i])
			continue;
		fprintf(out, "(type t%d_t) (call a_domain (t%d_t))\n", i, i);
		if (policy->permissive[i])
			fprintf(out, "(typepermissive t%d_t)\n", i);
		if (policy->member[i] >= 0)
			fprintf(out, "(typemember t%d_t t%d_t channel t%d_t)\n", i, LABEL_OF_TWO,
			        policy->member[i]);
	}
	put_rules(out, policy, policy->always);
	if (!policy->has_boolean)
		return;
	fprintf(out, "(boolean b %s)\n(booleanif b (true\n(allow operator_t operator_t (channel (cut)))\n",
	        policy->initially ? "true" : "false");
	put_rules(out, policy, policy->if_true);
	fprintf(out, "))\n");
}

policy_files oracle_policy_files(const struct oracle_policy *policy)
{
	const char **files = calloc(3, sizeof(*files));
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	cr_assert(files && out);
	put(out, policy);
	fclose(out);
	files[0] = "policy/base.cil";
	files[1] = file_of(text);
	free(text);
	return files;
}
