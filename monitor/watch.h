/*
 * A security server on the loop: its descriptor and its deadlines.
 *
 * Answers run from server_dispatch; what they lead to (closing the server
 * among it) belongs into `after`, which runs when the dispatch has returned.
 */
#ifndef PORTCULLIS_MONITOR_WATCH_H
#define PORTCULLIS_MONITOR_WATCH_H

#include "monitor/loop.h"
#include "policy/server.h"

struct server_watch {
	struct loop *loop;
	struct server *server; /* NULL: nothing is watched */
	struct loop_timer timer;
	void (*after)(void *opaque);
	void *opaque;
};

/* 0 or -errno. */
int watch_begin(struct server_watch *watch, struct loop *loop, struct server *server,
                void (*after)(void *opaque), void *opaque);

/* Before the server is closed. Harmless if nothing is watched. */
void watch_end(struct server_watch *watch);

/* After a question: the timer follows the server's nearest deadline. */
void watch_rearm(struct server_watch *watch);

#endif
