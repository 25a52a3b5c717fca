/*
 * The links of raw.h: one message in, one message out, at either end (side 0 or 1).
 * One thread per side.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_RAW_LINK_H
#define PORTCULLIS_MONITOR_BENCH_RAW_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "monitor/bench/raw.h"

/* One direction through shared memory; each word on lines of its own. */
struct raw_lane {
	_Alignas(128) uint64_t read; /* messages taken; written by the reader */
	_Alignas(128) uint32_t hung_up;
};

struct raw_link {
	enum raw_kind kind;
	int read_fd[2], write_fd[2]; /* of each side */

	/* Shared memory. lane[i] and buffers[i] carry what side i sends. */
	uint32_t n_buffers;
	size_t stride;
	struct raw_lane lane[2];
	char *buffers[2];
	struct {
		_Alignas(128) uint64_t sent, taken;
	} private[2];
};

/* 0 or -errno; raw_close also after a failure. */
int raw_open(struct raw_link *link, enum raw_kind kind, uint32_t bytes);
void raw_close(struct raw_link *link);

/* 0; -EPIPE: the other end has hung up; -ETIMEDOUT; -errno. */
int raw_send(struct raw_link *link, unsigned side, const void *message, size_t bytes);
int raw_receive(struct raw_link *link, unsigned side, void *message, size_t bytes);

/* This side sends nothing more: whoever waits for it fails. */
void raw_hang_up(struct raw_link *link, unsigned side);

#endif
