#include "monitor/bench/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/limits.h"

#define FAN_LIMIT 2048u /* guest/programs/hold.c holds twice that */

static const char *const names[N_SHAPES] = {"chain", "pairs", "fan"};

/* Domains are called d0, d1, ...; d0 and every second one of pairs begin. */
struct layout {
	enum shape shape;
	uint32_t n, most, n_domains, n_holders;
};

const char *shape_name(enum shape shape)
{
	return names[shape];
}

int shape_find(const char *name)
{
	for (int i = 0; i < N_SHAPES; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

uint32_t shape_limit(enum shape shape)
{
	static const uint32_t limits[N_SHAPES] = {MAX_DOMAINS - 1, MAX_DOMAINS / 2, FAN_LIMIT};

	return limits[shape];
}

uint32_t shape_n_domains(enum shape shape, uint32_t n, uint32_t most)
{
	if (shape == SHAPE_FAN)
		return 2;
	return shape == SHAPE_CHAIN ? n + 1 : 2 * most;
}

uint32_t shape_n_holders(enum shape shape, uint32_t n)
{
	return shape == SHAPE_PAIRS ? 2 * n : shape_n_domains(shape, n, n);
}

static struct layout layout_of(enum shape shape, uint32_t n, uint32_t most)
{
	return (struct layout){shape, n, most, shape_n_domains(shape, n, most), shape_n_holders(shape, n)};
}

/* Whether domain d has a link to the next one. */
static int links(const struct layout *layout, uint32_t d)
{
	if (d + 1 >= layout->n_holders)
		return 0;
	return layout->shape != SHAPE_PAIRS || d % 2 == 0;
}

static void put_arguments(FILE *to, const struct layout *layout, uint32_t d)
{
	uint32_t n = layout->shape == SHAPE_FAN ? layout->n : 1;

	if (d >= layout->n_holders)
		fputs("\"idle\"", to);
	else if (!links(layout, d))
		fprintf(to, "\"server\", \"%u\"", n);
	else if (d == 0 || layout->shape == SHAPE_PAIRS)
		fprintf(to, "\"client\", \"s%u\", \"%u\"", d + 1, n);
	else
		fprintf(to, "\"relay\", \"s%u\"", d + 1);
}

/* Twice the slots, so that a new channel never waits for the last close of an old one. */
static void put_domain(FILE *to, const struct layout *layout, uint32_t d, uint32_t n_vcpus)
{
	uint32_t slots = 2 * (layout->shape == SHAPE_FAN ? layout->n : 2);

	fprintf(to,
	        "%s\n  { name = \"d%u\"; program = \"hold\"; context = \"system_u:system_r:bench%u_t:s0\";\n"
	        "    vcpu = %u; slots = %u; heap_kib = %u; offers = (\"s%u\"); args = (",
	        d ? "," : "", d, d, d % n_vcpus, slots, 1024 + 4 * slots, d);
	put_arguments(to, layout, d);
	fputs("); }", to);
}

char *shape_manifest(enum shape shape, uint32_t n, uint32_t most, uint32_t n_vcpus)
{
	struct layout layout = layout_of(shape, n, most);
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	fprintf(to, "name = \"bench\";\nvcpus = %u;\ndomains = (", n_vcpus);
	for (uint32_t d = 0; d < layout.n_domains; d++)
		put_domain(to, &layout, d, n_vcpus);
	fputs("\n);\n", to);
	return fclose(to) == 0 ? text : NULL;
}

char *shape_policy(enum shape shape, uint32_t n, uint32_t most, int allow)
{
	struct layout layout = layout_of(shape, n, most);
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	for (uint32_t d = 0; d < layout.n_domains; d++)
		fprintf(to, "(type bench%u_t)\n(call a_domain (bench%u_t))\n", d, d);
	for (uint32_t d = 0; allow && d < layout.n_domains; d++)
		if (links(&layout, d))
			fprintf(to, "(call can_connect (bench%u_t bench%u_t))\n", d, d + 1);
	return fclose(to) == 0 ? text : NULL;
}
