#include "monitor/bench/raw.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "monitor/bench/raw_link.h"
#include "monitor/loop.h"

#define WARM_UP 32u            /* round trips before the clock runs */
#define COPY_BYTES (16u << 20) /* or a little more */

struct end {
	struct raw_link *link;
	struct raw_batch *batch;
	unsigned side;
	int error;
	char *buffer;
	uint64_t *stamps; /* client: n_round_trips + 1 */
	pthread_t thread;
};

const char *raw_name(enum raw_kind kind)
{
	static const char *const names[N_RAW] = {"raw-shared-memory", "pipe", "unix-seqpacket"};

	return names[kind];
}

static int round_trip(struct end *end)
{
	int error = raw_send(end->link, end->side, end->buffer, end->batch->bytes);

	return error < 0 ? error : raw_receive(end->link, end->side, end->buffer, end->batch->bytes);
}

static int echo(struct end *end, uint32_t n)
{
	int error = 0;

	for (uint32_t i = 0; i < n && error == 0; i++) {
		error = raw_receive(end->link, end->side, end->buffer, end->batch->bytes);
		if (error == 0)
			error = raw_send(end->link, end->side, end->buffer, end->batch->bytes);
	}
	return error;
}

/* The ticks of this batch in its own time, so that no clock is trusted longer than it runs. */
static void convert(struct end *end, uint64_t ns)
{
	struct raw_batch *batch = end->batch;
	double us_per_tick =
		(double)ns / 1000.0 / (double)(end->stamps[batch->n_round_trips] - end->stamps[0]);

	for (uint32_t i = 0; i < batch->n_round_trips; i++)
		batch->round_trip_us[i] = (double)(end->stamps[i + 1] - end->stamps[i]) * us_per_tick;
}

static int ask(struct end *end)
{
	struct raw_batch *batch = end->batch;
	uint64_t begun, ended;
	int error = 0;

	for (uint32_t i = 0; i < WARM_UP && error == 0; i++)
		error = round_trip(end);
	begun = loop_now();
	end->stamps[0] = __rdtsc();
	for (uint32_t i = 0; i < batch->n_round_trips && error == 0; i++) {
		error = round_trip(end);
		end->stamps[i + 1] = __rdtsc();
	}
	ended = loop_now();
	if (error == 0 && batch->n_round_trips)
		convert(end, ended - begun);
	return error;
}

static int stream(struct end *end)
{
	uint64_t begun = loop_now();
	int error = 0;

	for (uint32_t i = 0; i < end->batch->n_messages && error == 0; i++)
		error = raw_send(end->link, end->side, end->buffer, end->batch->bytes);
	if (error == 0)
		error = raw_receive(end->link, end->side, end->buffer, 1);
	end->batch->stream_us = (double)(loop_now() - begun) / 1000.0;
	return error;
}

static int drain(struct end *end)
{
	int error = 0;

	for (uint32_t i = 0; i < end->batch->n_messages && error == 0; i++)
		error = raw_receive(end->link, end->side, end->buffer, end->batch->bytes);
	return error < 0 ? error : raw_send(end->link, end->side, end->buffer, 1);
}

static void *client(void *opaque)
{
	struct end *end = opaque;

	end->error = ask(end);
	if (end->error == 0 && end->batch->n_messages)
		end->error = stream(end);
	raw_hang_up(end->link, end->side);
	return NULL;
}

static void *server(void *opaque)
{
	struct end *end = opaque;

	end->error = echo(end, WARM_UP + end->batch->n_round_trips);
	if (end->error == 0 && end->batch->n_messages)
		end->error = drain(end);
	raw_hang_up(end->link, end->side);
	return NULL;
}

static int start(struct end *end, int core, void *(*run)(void *))
{
	pthread_attr_t attributes;
	cpu_set_t set;
	int error;

	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	pthread_attr_init(&attributes);
	error = pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
	if (error == 0)
		error = pthread_create(&end->thread, &attributes, run, end);
	pthread_attr_destroy(&attributes);
	return -error;
}

/* The server first: it waits for the client anyhow. */
static int run_both(struct end ends[2], const int cores[2])
{
	int error = start(&ends[1], cores[1], server);

	if (error < 0)
		return error;
	error = start(&ends[0], cores[0], client);
	if (error < 0)
		raw_hang_up(ends[0].link, 0);
	else
		pthread_join(ends[0].thread, NULL);
	pthread_join(ends[1].thread, NULL);
	if (error == 0)
		error = ends[0].error;
	return error == 0 ? ends[1].error : error;
}

int raw_run(enum raw_kind kind, const int cores[2], struct raw_batch *batch, char why[static WHY_BYTES])
{
	struct raw_link link;
	struct end ends[2] = {{.link = &link, .batch = batch, .side = 0},
	                      {.link = &link, .batch = batch, .side = 1}};
	int error = raw_open(&link, kind, batch->bytes);

	for (unsigned side = 0; side < 2 && error == 0; side++) {
		ends[side].buffer = calloc(1, batch->bytes);
		ends[side].stamps = calloc((size_t)batch->n_round_trips + 1, sizeof(uint64_t));
		if (!ends[side].buffer || !ends[side].stamps)
			error = -ENOMEM;
	}
	if (error == 0)
		error = run_both(ends, cores);
	for (unsigned side = 0; side < 2; side++) {
		free(ends[side].buffer);
		free(ends[side].stamps);
	}
	raw_close(&link);
	if (error < 0)
		snprintf(why, WHY_BYTES, "%s with messages of %u bytes: %s", raw_name(kind), batch->bytes,
		         strerror(-error));
	return error;
}

double raw_copy_rate(uint32_t bytes)
{
	const uint32_t n = COPY_BYTES / bytes + 1;
	char *from = calloc(1, bytes), *to = calloc(1, bytes);
	const bool fits = from && to;
	uint64_t begun = loop_now();

	for (uint32_t i = 0; fits && i < n; i++) {
		memcpy(to, from, bytes);
		asm volatile("" : : "r"(to), "r"(from) : "memory"); /* each copy is made */
	}
	begun = loop_now() - begun;
	free(from);
	free(to);
	return fits && begun ? (double)n * bytes / (double)begun * 1e9 : 0;
}
